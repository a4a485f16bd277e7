"""A trial as verl sees it: an agent loop that returns one output a segment, or none for a trial that is dropped."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import ray
import torch
from pydantic import ConfigDict
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from lego_verl.capture.segment import TrainingSegment
from lego_verl.deadline import deadline
from lego_verl.monitor.keep import keep_trial
from lego_verl.policies.policy import Sampling
from lego_verl.trial.from_recipe import untrained_splits
from lego_verl.trial.ledger import LedgerError
from lego_verl.trial.outcome import Treatment
from lego_verl.trial.record import TrialRecord
from lego_verl.trial.refill import run_refilled
from lego_verl.trial.retries import RetryPolicy, run_retried
from lego_verl.trial.run import FinishedTrial, run_trial
from lego_verl.workers.alignment_batch import version_runs
from lego_verl.workers.host import TrialHost, host_of, task_of
from lego_verl.workers.policy import VerlPolicy
from lego_verl.workers.renderer import VerlRenderer
from lego_verl.workers.router_replay.rows import UNRECORDED, UNRECORDED_BYTE
from lego_verl.workers.run_ledger import ACTOR_NAME, LEDGER_SECONDS

T = TypeVar("T")


class HarnessAgentLoop(AgentLoopBase):
    """Runs an unmodified harness on a task and hands verl what the policy sampled.

    Registered as ``harness`` by ``recipes/agent_loop.yaml``. The dataset's ``extra_info`` names the task's
    folder and its split.
    """

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        """Run one trial, again after faults of infrastructure, and others in its place where the recipe says so.

        Returns:
            An output a segment, the last one last; an empty list when the trial is dropped.

        Raises:
            Exception: whatever is no ending of a trial, after the run's ledger was told, so that the trainer says it.
        """
        try:
            return await self._run(sampling_params, **kwargs)
        except Exception as error:
            ledger = ray.get_actor(ACTOR_NAME)
            message = f"{type(error).__name__}: {error}"
            await told(ledger.broken.remote(int(kwargs["global_steps"]), str(kwargs["extra_info"]["split"]), message))
            raise

    async def _run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        host = await host_of(
            self.server_manager,
            lambda: TrialHost.open(self.config, VerlRenderer(self.tokenizer, builder=self.continuous_token_builder)),
        )
        info = kwargs["extra_info"]
        step, split, group = int(kwargs["global_steps"]), str(info["split"]), str(kwargs["uid"])
        task = task_of(str(info["task_folder"]))
        name = f"{task.name}-{group[:8]}-{kwargs['session_id']}"
        bench = host.bench(step, split, task.name)
        policy = VerlPolicy(
            self.server_manager,
            model=host.lego.harness.model_name,
            eos_ids=self._eos_ids(),
            seconds=host.limits.seconds + host.limits.pause_seconds,
        )
        sampling = Sampling(
            temperature=float(sampling_params["temperature"]),
            top_p=float(sampling_params["top_p"]),
            top_k=int(sampling_params["top_k"]),
        )

        async def attempt(trial: str, number: int) -> FinishedTrial:
            await told(host.ledger.started.remote(step, split, trial, task.name, number, group))
            return await run_trial(
                bench,
                trial=f"{step}-{trial}-a{number}",
                task=task,
                policy=policy,
                renderer=host.renderer,
                parser=host.parser,
                sampling=sampling,
                limits=host.limits,
                reasoning=host.lego.capture.reasoning.value,
                untrained=untrained_splits(host.lego),
                group=group,
            )

        async def whole(trial: str) -> FinishedTrial:
            async def again(number: int, failed: FinishedTrial) -> None:
                outcome, error = failed.record.outcome.value, failed.record.error
                await told(host.ledger.retried.remote(step, split, trial, outcome, error))

            retries = RetryPolicy(retries=host.lego.trial.retries)
            finished = await run_retried(partial(attempt, trial), retries, on_retry=again)
            finished = replace(finished, record=replace(finished.record, trial=trial))
            rows = keep_trial(host.run.trial(step, trial) if host.lego.monitor.keep_trials else None, finished)
            await told(host.ledger.finished.remote(step, split, finished.record.as_dict(), rows))
            return finished

        async def refill(lost: FinishedTrial, trial: str) -> bool:
            if split != "train" or not host.refills.replaces(group, self.rollout_config.n, lost.record.outcome):
                return False
            await told(host.ledger.refilled.remote(step, split, trial, lost.record.trial))
            return True

        finished = await run_refilled(whole, name, refill)
        if finished.record.treatment is Treatment.DROP:
            return []
        routed = bool(self.rollout_config.enable_rollout_routing_replay)
        return outputs(finished.record, finished.segments, routed=routed, step=step)

    def _eos_ids(self) -> frozenset[int]:
        eos = self.tokenizer.eos_token_id
        return frozenset([eos] if isinstance(eos, int) else eos)


async def told(call: Awaitable[T]) -> T:
    """What the run's ledger answers. ``LedgerError`` when it does not."""
    async with deadline(LEDGER_SECONDS, "the run's ledger to answer", LedgerError):
        return await call


class SegmentOutput(AgentLoopOutput):
    """verl's output, with a segment's arrays as they are: no token becomes a Python object.

    verl makes tensors of them by ``torch.tensor``, which takes an array as well as a list.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    prompt_ids: np.ndarray
    response_ids: np.ndarray
    response_mask: np.ndarray
    response_logprobs: np.ndarray
    routed_experts: np.ndarray | None = None

    def as_dict(self) -> dict[str, Any]:
        """verl's, but for routes: those stay of one byte where they came so, and keep the marks of rows that were not
        recorded. verl would pad them with zeros, which are experts too."""
        routes, self.routed_experts = self.routed_experts, None
        try:
            fields: dict[str, Any] = super().as_dict()
        finally:
            self.routed_experts = routes
        if routes is not None:
            fields["routed_experts"] = torch.from_numpy(routes)
        return fields


def outputs(
    record: TrialRecord, segments: Sequence[TrainingSegment], *, routed: bool, step: int = 0
) -> list[AgentLoopOutput]:
    """One ``AgentLoopOutput`` a segment, each with the trial's reward.

    Args:
        routed: hand over expert routes, shape (prompt + response, layers, top_k); the last row, of a token that never
            went through the model, is marked as not recorded.
        step: in which the trial began.
    """
    return [
        SegmentOutput(
            prompt_ids=segment.prompt_ids,
            response_ids=segment.response_ids,
            response_mask=segment.response_mask,
            response_logprobs=segment.logprobs,
            routed_experts=_whole(segment) if routed else None,
            reward_score=record.reward,
            num_turns=record.calls,
            metrics=AgentLoopMetrics(
                generate_sequences=record.seconds.get("generation", 0.0),
                tool_calls=record.seconds.get("harness", 0.0),
                compute_score=record.seconds.get("grading", 0.0),
            ),
            extra_fields={
                "reward_extra_info": {"solved": float(record.outcome.value == "solved")},
                "harness": record.harness,
                "segment_of": (step, record.trial, segment.index),
                **_versions(segment),
            },
        )
        for segment in segments
    ]


def _whole(segment: TrainingSegment) -> np.ndarray | None:
    """Routes with a row for every token of the segment, of one byte or two an index."""
    routes = segment.routes
    if routes is None:
        return None
    if routes.dtype not in (np.uint8, np.int16):
        routes = routes.astype(np.int16)  # of four bytes, as an engine may send them; torch knows no uint16
    missing = len(segment.ids) - len(routes)
    mark = UNRECORDED_BYTE if routes.dtype == np.uint8 else UNRECORDED
    return np.pad(routes, ((0, missing), (0, 0), (0, 0)), constant_values=mark)


def _versions(segment: TrainingSegment) -> dict[str, Any]:
    """The weight versions that sampled the segment's loss tokens: the span in verl's names, and of each token."""
    sampled = segment.versions[np.asarray(segment.response_mask, dtype=bool)]
    return {
        "min_global_steps": int(sampled.min()),
        "max_global_steps": int(sampled.max()),
        "version_runs": version_runs(sampled),
    }
