"""Every detector on recordings of each harness that were labelled by hand: it finds what is there, and all of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.session import Asked
from lego_verl.monitor.behaviour.count import count, files_of, kinds, looping, repeated
from lego_verl.monitor.behaviour.turns import Turn, turns_of

FOLDER = Path(__file__).parents[1] / "data" / "behaviour"
FILES = sorted(FOLDER.glob("*.jsonl"))
HARNESSES = ("claude_code", "codex", "mini_swe_agent", "opencode", "openhands", "swe_agent")
DETECTORS = (
    *("kinds", "silent", "malformed", "failed", "read", "edited", "unread", "unchecked", "repeated", "looping"),
    *("side_calls", "last_act"),
)


def message(line: dict[str, Any], role: Any = "assistant") -> Message:
    calls = tuple(ToolCall(each["id"], each["name"], each["arguments"]) for each in line.get("tool_calls", ()))
    return Message(
        line.get("role", role), line.get("text", ""), line.get("reasoning", ""), calls, line.get("tool_call_id", "")
    )


def read(path: Path) -> tuple[dict[str, Any], list[Turn]]:
    head, *lines = (json.loads(line) for line in path.read_text().splitlines())
    asked = [Asked(0, tuple(message(each) for each in line["asked"]), line.get("tools")) for line in lines]
    splits = {index: line.get("split", "first") for index, line in enumerate(lines)}
    return head, turns_of(asked, [message(line["reply"]) for line in lines], splits)


def found(turns: list[Turn]) -> dict[str, list[Any]]:
    """What each detector says, as items that a label can be held against."""
    own = [turn for turn in turns if turn.origin != "side_call"]
    files = files_of(own)
    return {
        "kinds": [
            (turn.call, place, str(kind))
            for turn in turns
            for place, kind in enumerate(kind for done in turn.done for kind in kinds(done.acts))
        ],
        "silent": [turn.call for turn in own if turn.silent],
        "malformed": [turn.call for turn in own for _ in range(turn.malformed)],
        "failed": [turn.call for turn in own for failed in turn.failed if failed],
        "read": files.read,
        "edited": files.edited,
        "unread": files.unread,
        "unchecked": files.unchecked,
        "repeated": repeated(own),
        "looping": [own[place].call for place in looping([turn.signature for turn in own])],
        "side_calls": [turn.call for turn in turns if turn.origin == "side_call"],
        "last_act": [count(turns).last_act],
    }


def labelled(labels: dict[str, Any]) -> dict[str, list[Any]]:
    per_turn = [(turn, place, kind) for turn, all in enumerate(labels["kinds"]) for place, kind in enumerate(all)]
    return {**labels, "kinds": per_turn, "last_act": [labels["last_act"]]}


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize("detector", DETECTORS)
def test_precision_and_recall_are_one(harness: str, detector: str) -> None:
    right = claimed = there = 0
    differences = []
    for path in FILES:
        head, turns = read(path)
        if head["harness"] != harness:
            continue
        ours, theirs = Counter(found(turns)[detector]), Counter(labelled(head["labels"])[detector])
        right, claimed, there = right + (ours & theirs).total(), claimed + ours.total(), there + theirs.total()
        if ours != theirs:
            differences.append((path.name, "only found", ours - theirs, "only labelled", theirs - ours))
    precision, recall = right / claimed if claimed else 1.0, right / there if there else 1.0
    assert (precision, recall) == (1.0, 1.0), differences


def test_every_detector_has_something_to_find_and_every_harness_is_there() -> None:
    heads = [read(path)[0] for path in FILES]
    assert {head["harness"] for head in heads} == set(HARNESSES)
    for detector in DETECTORS:
        assert sum(len(labelled(head["labels"])[detector]) for head in heads) >= 2, detector
    acts = {kind for head in heads for turn in head["labels"]["kinds"] for kind in turn}
    assert acts == {"read", "search", "edit", "test", "run", "submit", "other"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_counts_are_of_what_was_found(path: Path) -> None:
    head, turns = read(path)
    labels, counts = labelled(head["labels"]), count(turns)
    assert counts.turns == len(turns) - len(labels["side_calls"])
    assert counts.silent_turns == len(labels["silent"])
    assert counts.malformed_calls == len(labels["malformed"])
    assert counts.failed_acts == len(labels["failed"])
    assert counts.files_edited == len(labels["edited"])
    assert counts.edited_after_reading == len(labels["edited"]) - len(labels["unread"])
    assert counts.edited_and_checked == len(labels["edited"]) - len(labels["unchecked"])
    assert counts.repeated_commands == len(labels["repeated"])
    assert (counts.looping_turns, counts.looped) == (len(labels["looping"]), int(bool(labels["looping"])))
    tests = [kind for _, _, kind in labels["kinds"] if kind == "test"]
    assert (counts.tests, counts.tested) == (len(tests), int(bool(tests)))
