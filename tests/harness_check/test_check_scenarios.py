"""Every scenario with a harness that behaves, and those that tell one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_up_harness import Check

from lego_verl.harness_check.scenarios import SCENARIOS

FIRST = {"first": 1}


def failures(report: dict[str, Any]) -> list[str]:
    return [failure for each in report["scenarios"].values() for failure in each["failed"]]


async def test_a_harness_that_behaves_passes_everything(check: Check, open_folder: Path) -> None:
    report = await check()
    assert failures(report) == []
    assert set(report["scenarios"]) == {scenario.name for scenario in SCENARIOS}
    seen = report["scenarios"]
    outcomes = {name: each["outcome"] for name, each in seen.items() if each["outcome"] != "solved"}
    assert outcomes == {
        "context_overflow": "context_overflow",
        "turn_limit": "turn_limit",
        "told_to_stop": "turn_limit",
    }
    assert all(each["splits"] == FIRST and each["side_calls"] == 0 for each in seen.values())
    assert seen["error_500"]["statuses"] == {"200": 4, "500": 2}
    assert seen["error_429"]["statuses"] == {"200": 4, "429": 2}
    # This harness takes a turn without a call for the end, and a call that is no JSON is shown as text.
    ends = {name for name, each in seen.items() if each.get("afterwards") == "ends"}
    assert ends == {"malformed_call", "text_only", "cut_reply", "context_overflow"}
    assert {name: each["afterwards"] for name, each in seen.items() if name in ("wrong_arguments", "unknown_tool")} == {
        "wrong_arguments": "asks again",
        "unknown_tool": "asks again",
    }
    assert seen["told_to_stop"]["after_the_end"] == seen["turn_limit"]["after_the_end"] == 1
    assert report["echo"] == {
        "turn": "kept",
        "text": "verbatim",
        "reasoning": "verbatim",
        "ids": "kept",
        "arguments": "verbatim",
        "results": "in the calls' order",
    }
    wire = report["wire"]
    assert wire["dialects"] == ["chat"]
    assert list(wire["tools"]) == ["bash"]
    assert wire["fields"] == ["messages", "model", "tools"]
    assert (open_folder / "kept" / "work" / "calls.jsonl").exists()


async def test_what_it_does_to_its_history_is_told(check: Check) -> None:
    report = await check("rewrites forgets_reasoning reverses", "history")
    assert failures(report) == []
    assert report["echo"]["arguments"] == "rewritten"
    assert report["echo"]["reasoning"] == "dropped"
    assert report["echo"]["results"] == "in another order"
    assert report["scenarios"]["history"]["splits"] == FIRST


async def test_a_turn_that_is_dropped_is_told(check: Check) -> None:
    report = await check("drops_a_turn", "history")
    assert failures(report) == []
    assert report["echo"]["turn"] == "dropped later, kept"
    assert report["scenarios"]["history"]["splits"] == {"dropped_turn": 1, "first": 1}


async def test_one_that_compacts_goes_on(check: Check) -> None:
    seen = (await check("compacts", "context_overflow"))["scenarios"]["context_overflow"]
    assert seen["passed"]
    assert (seen["outcome"], seen["afterwards"], seen["side_calls"]) == ("solved", "goes on", 1)


@pytest.mark.parametrize(
    ("quirk", "scenario", "failed"),
    [
        ("never_stops", "told_to_stop", ["it asked 21 times after the end (at most 8)"]),
        ("never_stops", "turn_limit", ["it asked 21 times after the end (at most 8)"]),
        ("resets", "work", ["it ended as no_patch and not as solved", "the patch is not there"]),
        (
            *("never_asks", "work"),
            [
                "it never called the model",
                "it ended as harness_failed and not as solved",
                "the patch is not there",
            ],
        ),
        ("crashes_on_text", "text_only", ["it ended as harness_failed and not as solved", "the patch is not there"]),
    ],
)
async def test_one_that_misbehaves_fails(check: Check, quirk: str, scenario: str, failed: list[str]) -> None:
    report = await check(quirk, scenario)
    assert failures(report) == failed
    assert report["scenarios"][scenario]["passed"] is False


async def test_giving_up_on_a_fault_is_described_and_no_failure(check: Check) -> None:
    seen = (await check("gives_up", "error_500"))["scenarios"]["error_500"]
    assert (seen["passed"], seen["outcome"], seen["afterwards"]) == (True, "harness_failed", "ends")
