"""A segment's arrays reach verl's tensors as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from lego_verl.capture.segment import TrainingSegment
from lego_verl.capture.split import Split
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import TrialRecord
from lego_verl.workers.agent_loop import outputs

SEGMENT = TrainingSegment(
    index=0,
    reason=Split.FIRST,
    calls=(0, 1),
    prompt_ids=np.array([5, 6, 7], dtype=np.int32),
    response_ids=np.array([200_000, 9, 10, 11], dtype=np.int32),
    response_mask=np.array([1, 0, 1, 1], dtype=np.uint8),
    logprobs=np.array([-0.1, 0.0, -0.3, -2.5], dtype=np.float32),
    versions=np.array([3, -1, 4, 4], dtype=np.int32),
    routes=np.arange(24, dtype=np.uint8).reshape(6, 2, 2),
)
RECORD = TrialRecord(trial="t", task="t", outcome=Outcome.SOLVED, reward=1.0, calls=2)


def of_lists() -> dict[str, Any]:
    """What verl makes of the same segment in Python lists."""
    return AgentLoopOutput(
        prompt_ids=SEGMENT.prompt_ids.tolist(),
        response_ids=SEGMENT.response_ids.tolist(),
        response_mask=SEGMENT.response_mask.tolist(),
        response_logprobs=SEGMENT.logprobs.tolist(),
        routed_experts=SEGMENT.routes,
        reward_score=1.0,
        metrics=AgentLoopMetrics(),
    ).as_dict()


def test_tensors_are_those_of_lists() -> None:
    (output,) = outputs(RECORD, [SEGMENT], routed=True)
    made, expected = output.as_dict(), of_lists()
    for name in ("prompts", "responses", "response_mask", "rollout_log_probs", "rm_scores"):
        assert made[name].dtype == expected[name].dtype
        assert torch.equal(made[name], expected[name])
    assert made["extra_fields"]["min_global_steps"] == 3
    assert made["extra_fields"]["max_global_steps"] == 4


def test_no_token_becomes_a_python_object() -> None:
    (output,) = outputs(RECORD, [SEGMENT], routed=False)
    assert output.response_ids is SEGMENT.response_ids
    assert output.response_logprobs is SEGMENT.logprobs


def test_routes_stay_of_one_byte_and_mark_the_token_that_never_went_through() -> None:
    (output,) = outputs(RECORD, [SEGMENT], routed=True)
    routes = output.as_dict()["routed_experts"]
    assert routes.dtype == torch.uint8
    assert torch.equal(routes[:6].to(torch.int16), of_lists()["routed_experts"][:6])
    assert (routes[6] == 255).all(), "verl's zeros there are experts too"
    assert output.routed_experts is not None, "as_dict takes nothing away"


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint16])
def test_wide_routes_are_of_two_bytes_and_marked_by_minus_one(dtype: Any) -> None:
    assert SEGMENT.routes is not None
    (output,) = outputs(RECORD, [replace(SEGMENT, routes=SEGMENT.routes.astype(dtype))], routed=True)
    routes = output.as_dict()["routed_experts"]
    assert routes.dtype == torch.int16
    assert (routes[6] == -1).all()
