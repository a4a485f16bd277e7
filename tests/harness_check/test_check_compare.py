"""What changed between two checks; and that a harness which speaks otherwise than it was recorded is caught."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lego_verl.harness_check.report import ReportError, changes, read_report, write_report
from lego_verl.harness_check.scenarios import SCENARIOS
from lego_verl.harness_check.watch import Heard
from lego_verl.harness_check.wire import echo_heard, read_ask, wire_of

ROOT = Path(__file__).parents[2]
TRAFFIC = ROOT / "tests" / "data" / "traffic"
REFERENCES = sorted((ROOT / "docs" / "harness_checks").glob("*.json"))


def recorded(name: str) -> list[Heard]:
    """Recorded requests of a released harness, as a check would have heard them."""
    lines = [json.loads(line) for line in (TRAFFIC / f"{name}.jsonl").read_text().splitlines()]
    return [
        Heard("POST", line["path"].removeprefix("/v1"), line["headers"], json.dumps(line["body"]).encode(), 0.0, 200)
        for line in lines
    ]


def checked(heard: list[Heard], original: list[Heard]) -> dict[str, Any]:
    """What a check reports of these requests, whose replies were those of the original."""
    last = read_ask(original[-1])
    assert last is not None
    replies = [message for message in last.request.messages if message.role == "assistant"]
    scenarios = {"work": {"passed": True}, "history": {"passed": True}}
    return {"format": 1, "wire": wire_of(heard), "echo": echo_heard(replies, heard), "scenarios": scenarios}


def doctored(heard: list[Heard], change: Callable[[int, dict[str, Any]], None]) -> list[Heard]:
    """The same requests, each body changed."""
    found = copy.deepcopy(heard)
    for number, each in enumerate(found):
        body = json.loads(each.body)
        change(number, body)
        each.body = json.dumps(body).encode()
    return found


def spaces_its_arguments(_: int, body: dict[str, Any]) -> None:
    for item in body["input"]:
        if item["type"] == "function_call":
            item["arguments"] = json.dumps(json.loads(item["arguments"]), indent=1)


def offers_another_tool(_: int, body: dict[str, Any]) -> None:
    body["tools"][0]["description"] = "Something else."
    body["tools"].append({"type": "function", "name": "new_tool", "parameters": {"type": "object", "properties": {}}})


def samples_by_itself(_: int, body: dict[str, Any]) -> None:
    body["temperature"] = 0.25


def forgets_a_turn(number: int, body: dict[str, Any]) -> None:
    """From the third request on, its first turn is gone."""
    if number < 2:
        return
    first = next(item["call_id"] for item in body["input"] if item["type"] == "function_call")
    body["input"] = [item for item in body["input"] if item.get("call_id") != first]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (spaces_its_arguments, ["echo.arguments: verbatim -> rewritten"]),
        (offers_another_tool, [r"wire.tools.exec_command: ", "wire.tools.new_tool: nothing -> "]),
        (samples_by_itself, ["wire.fields: ", "wire.sampling.temperature: nothing -> 0.25"]),
        (forgets_a_turn, ["echo.turn: kept -> dropped later, kept"]),
    ],
)
def test_a_harness_that_changes_what_it_says_is_caught(
    change: Callable[[int, dict[str, Any]], None], says: list[str]
) -> None:
    original = recorded("codex-normal")
    before = checked(original, original)
    assert before["wire"]["dialects"] == ["responses"]
    assert before["echo"]["arguments"] == "verbatim"
    found = changes(before, checked(doctored(original, change), original))
    assert len(found) == len(says)
    assert all(line.startswith(said) for line, said in zip(found, says, strict=True))


def test_the_same_requests_are_no_change() -> None:
    original = recorded("codex-normal")
    assert changes(checked(original, original), checked(doctored(original, lambda *_: None), original)) == []


def test_another_dialect_reads_arguments_as_objects_and_defaults_are_told() -> None:
    original = recorded("claude-normal")
    report = checked(original, original)
    assert report["wire"]["dialects"] == ["messages"]
    assert report["echo"]["arguments"] == "as an object"

    def adds_a_default(_: int, body: dict[str, Any]) -> None:
        for message in body["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else []:
                if block["type"] == "tool_use":
                    block["input"]["retries"] = 0

    changed = changes(report, checked(doctored(original, adds_a_default), original))
    assert changed == ["echo.arguments: as an object -> as an object, gained retries"]


def test_only_what_both_ran_is_compared_and_no_measurement() -> None:
    before = {"format": 1, "made": "then", "wire": {"stream": True}, "echo": {}, "scenarios": {}}
    now = {"format": 1, "made": "now", "wire": {"stream": False}, "echo": {}, "scenarios": {}}
    assert changes(before, now) == []  # neither ran "work"
    for report, splits, seconds in ((before, {"first": 1}, 1.0), (now, {"first": 1, "edited_turn": 1}, 9.0)):
        report["scenarios"] = {"work": {"passed": True, "splits": splits, "measured": {"total": seconds}}}
    before["scenarios"]["slow_reply"] = {"passed": True}  # type: ignore[index]
    assert changes(before, now) == [
        "wire.stream: true -> false",
        "scenarios.work.splits.edited_turn: nothing -> 1",
    ]


@pytest.mark.parametrize("text", ["", "[]", '{"format": 99}', "{"])
def test_a_file_that_is_no_check_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "check.json"
    path.write_text(text)
    with pytest.raises(ReportError, match=str(path)):
        read_report(path)
    with pytest.raises(ReportError, match="nowhere"):
        read_report(tmp_path / "nowhere.json")


def test_a_report_comes_back_as_it_was_written(tmp_path: Path) -> None:
    report = {"format": 1, "scenarios": {"work": {"splits": {"first": 1}}}}
    write_report(tmp_path / "new" / "check.json", report)
    assert read_report(tmp_path / "new" / "check.json") == report
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["check.json"]


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.stem)
def test_the_kept_references_are_whole_and_green(path: Path) -> None:
    report = read_report(path)
    assert set(report["scenarios"]) == {scenario.name for scenario in SCENARIOS}
    assert all(each["passed"] for each in report["scenarios"].values())
    assert report["slow"] == 120
    assert report["wire"]["dialects"]
    assert "turn" in report["echo"]
