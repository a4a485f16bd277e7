"""The ATIF form: Harbor's Agent Trajectory Interchange Format, version 1.7, a trial a line.

One trajectory a trial: what was asked, then a step a call with what its tools gave back. Where the harness rewrote its
history, only what is new in it is added, and an assistant's message that nobody sampled is marked as copied context.
Subagents are trajectories of their own within it. Calls beside the task (titles, summaries) are left out and counted.
The format: the RFC "Agent Trajectory Format" of the harbor package, and its models (harbor.models.trajectories).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lego_verl.capture.call import Call
from lego_verl.capture.message import Message, ToolCall, parsed_arguments
from lego_verl.capture.record import Recording
from lego_verl.capture.split import Split
from lego_verl.export.segments import Conversation, conversations

VERSION = "ATIF-v1.7"


def atif_line(recording: Recording, about: Mapping[str, Any], *, tokens: bool = False) -> dict[str, Any]:
    """One trial as a trajectory.

    Args:
        about: what is known of it: ``trial`` and ``harness`` are needed, all of it goes into ``extra``.
        tokens: with every call's sampled ids and log-probabilities.
    """
    every = conversations(recording)
    main = [each for each in every if each.reason not in (Split.SIDE_CALL, Split.SUBAGENT)]
    line = _trajectory(main, recording, about, str(about["trial"]), tokens)
    line["session_id"] = str(about["trial"])
    line["extra"] = {**about, "side_calls": sum(each.reason == Split.SIDE_CALL for each in every)}
    inner = [
        _trajectory([each], recording, about, f"{about['trial']}-segment-{each.segment}", tokens)
        for each in every
        if each.reason == Split.SUBAGENT
    ]
    if inner:
        line["subagent_trajectories"] = inner
    return line


def _trajectory(
    segments: Sequence[Conversation], recording: Recording, about: Mapping[str, Any], name: str, tokens: bool
) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    seen: set[tuple[Any, ...]] = set()
    sampled: list[Call] = []
    for segment in segments:
        before = len(steps) > 0  # until it answers, a later segment repeats what an earlier one said
        for said in segment.said:
            before = before and said.call is None
            key = _key(said.message)
            if before and key in seen:
                continue
            seen.add(key)
            if said.message.role == "tool":
                _observe(steps, said.message)
                continue
            step = _step(said.message)
            if said.call is not None:
                call = recording.calls[said.call]
                sampled.append(call)
                step |= {"llm_call_count": 1, "metrics": _metrics(call, tokens), "extra": {"segment": segment.segment}}
            elif said.message.role == "assistant":
                step["is_copied_context"] = True
            steps.append(step)
    for number, step in enumerate(steps, 1):
        step["step_id"] = number
    return {
        "schema_version": VERSION,
        "trajectory_id": name,
        "agent": {
            "name": str(about["harness"] or "unknown"),
            "version": str(about.get("runtime_digest") or "unknown"),
            "model_name": str(about.get("model") or "policy"),
            "tool_definitions": list(segments[0].tools) if segments else [],
        },
        "steps": steps,
        "final_metrics": {
            "total_prompt_tokens": sum(call.prompt_length for call in sampled),
            "total_completion_tokens": sum(len(call.sample.ids) for call in sampled),
            "total_steps": len(steps),
        },
    }


def _step(message: Message) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent" if message.role == "assistant" else message.role, "message": message.text}
    if message.reasoning:
        step["reasoning_content"] = message.reasoning
    if message.tool_calls:
        step["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    return step


def _tool_call(call: ToolCall) -> dict[str, Any]:
    arguments = parsed_arguments(call.arguments) if call.arguments.strip() else {}
    if isinstance(arguments, dict):
        return {"tool_call_id": call.id, "function_name": call.name, "arguments": arguments}
    raw = {"malformed_arguments": call.arguments}
    return {"tool_call_id": call.id, "function_name": call.name, "arguments": {}, "extra": raw}


def _observe(steps: Sequence[dict[str, Any]], result: Message) -> None:
    """Add what a tool gave back to the step that called it, or else to the last of the agent's."""
    agents = [step for step in steps if step["source"] == "agent"]
    if not agents:
        return
    for step in reversed(agents):
        if any(call["tool_call_id"] == result.tool_call_id for call in step.get("tool_calls", ())):
            _results(step).append({"source_call_id": result.tool_call_id, "content": result.text})
            return
    _results(agents[-1]).append({"content": result.text})


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = step.setdefault("observation", {"results": []})["results"]
    return results


def _metrics(call: Call, tokens: bool) -> dict[str, Any]:
    sample = call.sample
    metrics: dict[str, Any] = {"prompt_tokens": call.prompt_length, "completion_tokens": len(sample.ids)}
    if tokens:
        metrics |= {
            "completion_token_ids": sample.ids.tolist(),
            "logprobs": [round(float(value), 6) for value in sample.logprobs],
        }
    return metrics


def _key(message: Message) -> tuple[Any, ...]:
    """The same for a message and its echo in a later request: a reply with tool calls is known by their ids."""
    if message.tool_calls:
        return ("calls", *(call.id for call in message.tool_calls))
    return (message.role, message.tool_call_id, message.text.strip())
