"""The table of scenarios."""

from __future__ import annotations

import json
from collections.abc import Sequence

from harness_adapters.adapter import ShellTool
from lego_verl.harness_check.scenario import MEND, Fault, Scenario, call
from lego_verl.policies.scripted import Reply
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.scripts import reply_of

_PAGE = "yes 'a line of output' | head -c 6000"
_PAGES = 7
_ROOM = 30_000
_LIMITED = frozenset({Outcome.TURN_LIMIT})
_FAULTS = frozenset({Outcome.SOLVED, Outcome.HARNESS_FAILED})
"""A harness may give up on a fault that the policy is not to blame for: such a trial is dropped, and run again."""


def _work(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return [call(shell, "ls"), call(shell, MEND), call(shell, "cat answer.txt"), reply_of(shell.done)]


def _history(shell: ShellTool, slow: float) -> Sequence[Reply]:
    use = shell.run("ls")
    spaced = (
        "{ " + ", ".join(f"{json.dumps(key)} :  {json.dumps(value)}" for key, value in use.arguments.items()) + " }"
    )
    thought = {"reasoning": "First I look around. \nThen I mend it.", "text": "Let me look.  Twice."}
    return [
        call(shell, MEND),
        {"tool_calls": [{"name": use.name, "arguments": spaced}], **thought},
        call(shell, "sleep 2; echo slow", "echo quick"),
        call(shell, "cat answer.txt"),
        reply_of(shell.done),
    ]


def _odd(shell: ShellTool, *replies: Reply) -> Sequence[Reply]:
    """Work, something odd, then on as if nothing had been."""
    return [call(shell, MEND), *replies, call(shell, "cat answer.txt"), reply_of(shell.done)]


def _malformed(shell: ShellTool, slow: float) -> Sequence[Reply]:
    begun = json.dumps({"name": shell.name, "arguments": {shell.argument: "ls"}})[:-3]
    return _odd(shell, {"raw": f"<tool_call>\n{begun}\n</tool_call>"})


def _wrong_arguments(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return _odd(shell, {"tool_calls": [{"name": shell.name, "arguments": {"no_such_argument": ["ls"]}}]})


def _unknown_tool(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return _odd(shell, {"tool_calls": [{"name": "no_such_tool", "arguments": {"path": "answer.txt"}}]})


def _text_only(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return _odd(shell, {"text": "I think that it is mended now, but let me look once more."})


def _cut(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return _odd(shell, {**call(shell, "echo " + "x" * 200), "cut": True})


def _parallel(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return _odd(shell, call(shell, "echo one", "echo two", "echo three"))


def _slow(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return _odd(shell, call(shell, "ls", delay=slow))


def _pages(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return [call(shell, MEND), *(call(shell, f"echo {page}; {_PAGE}") for page in range(_PAGES)), reply_of(shell.done)]


def _endless(shell: ShellTool, slow: float) -> Sequence[Reply]:
    return [call(shell, MEND), call(shell, "cat answer.txt")]


SCENARIOS: Sequence[Scenario] = (
    Scenario("slow_reply", "waits for a reply that takes long", _slow),
    Scenario("work", "starts, finds the proxy, finishes, leaves the patch", _work),
    Scenario("history", "how what was sampled comes back", _history),
    Scenario("parallel_calls", "three calls in one turn", _parallel),
    Scenario("malformed_call", "a call that is no JSON (this proxy shows it as text)", _malformed, odd=1),
    Scenario("wrong_arguments", "a call without the argument that its tool demands", _wrong_arguments, odd=1),
    Scenario("unknown_tool", "a call of a tool that there is not", _unknown_tool, odd=1),
    Scenario("text_only", "a turn without a call", _text_only, odd=1),
    Scenario(
        *("cut_reply", "a reply that was cut for its length", _cut),
        outcomes=frozenset({Outcome.SOLVED, Outcome.TOKEN_LIMIT}),
        odd=1,
    ),
    Scenario("error_500", "two times 500, then fine", _work, outcomes=_FAULTS, fault=Fault(2, 500)),
    Scenario("error_429", "two times 429, then fine", _work, outcomes=_FAULTS, fault=Fault(2, 429)),
    Scenario(
        *("context_overflow", "a prompt longer than the context", _pages),
        outcomes=frozenset({Outcome.SOLVED, Outcome.CONTEXT_OVERFLOW}),
        overflow=_ROOM,
    ),
    Scenario("turn_limit", "an agent that would never end", _endless, outcomes=_LIMITED, turns=4),
    Scenario("told_to_stop", "the session is ended from outside", _endless, outcomes=_LIMITED, told_at=3),
)
