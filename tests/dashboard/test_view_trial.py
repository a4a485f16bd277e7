"""One trial: its turns, its files, and every token with what became of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trial_run import BIG, HOSTILE, HOSTILE_PATCH, LONG, SPLIT_TRIAL, STEP, trial_run

from lego_verl.capture.record import read_recording
from lego_verl.dashboard.trial_reading import REPLY, short
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_tokens import compact_step
from lego_verl.monitor.trained_tokens import trained_file

Get = Callable[..., Any]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return trial_run(tmp_path_factory.mktemp("runs") / "talks")


@pytest.fixture
def get(trials: RunFolder) -> Get:
    return asking(trials)


def asking(run: RunFolder) -> Get:
    from fastapi.testclient import TestClient

    from lego_verl.dashboard.app import create_app
    from lego_verl.dashboard.runs import Runs

    client = TestClient(create_app(Runs([run.path])), base_url="http://127.0.0.1:8420")

    def get(trial: str, rest: str = "", status: int = 200, step: int = STEP) -> Any:
        answer = client.get(f"/api/runs/{run.name}/trial/{step}/{trial}{rest}")
        assert answer.status_code == status, answer.text[:500]
        return answer.json() if answer.headers["content-type"] == "application/json" else answer

    return get


def test_a_trial_has_what_the_store_and_its_folder_hold(get: Get) -> None:
    view = get(SPLIT_TRIAL)
    assert (view["fate"], view["why"]) == ("trained", f"trained in step {STEP}")
    assert (view["tokens"], view["trained_tokens"]) == ("npz", True)
    assert view["files"]["patch"] > 0
    assert view["files"]["grading_log"] is None
    assert get("task1-2-2")["fate"] == "dropped"
    assert "sandbox failed" in get("task1-2-2")["why"]


def test_turn_by_turn_it_is_what_the_agent_saw(get: Get) -> None:
    view = get(SPLIT_TRIAL, "/turns")
    first, aside, third, last = view["turns"]
    assert [turn["begins"] for turn in view["turns"]] == ["first", "side_call", "edited_turn", None]
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    (call,) = first["reply"]["tool_calls"]
    assert call["name"] == "bash"
    assert call["arguments"]["command"]["text"] == "cat a.py"
    assert first["reply"]["acts"] == [{"kinds": ["read"], "failed": False, "malformed": None}]
    assert aside["origin"] == "side_call"
    assert third["kept"] == 0
    assert last["messages"][0]["role"] == "tool"
    assert last["messages"][0]["text"]["text"] == "ok"
    assert last["reply"]["silent"]
    assert [turn["call"] for turn in get(SPLIT_TRIAL, "/turns?first=2&count=1")["turns"]] == [2]


def test_a_long_output_is_cut_on_the_server_and_whole_in_a_file(get: Get) -> None:
    output = get(HOSTILE, "/turns")["turns"][1]["messages"][0]["text"]
    assert output["size"] > BIG
    assert output["left_out"] > BIG - 10_000
    assert len(output["text"]) + len(output["end"]) <= 6000
    answer = get(HOSTILE, "/text/1/0/text")
    assert len(answer.text) == output["size"]
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert get(SPLIT_TRIAL, f"/text/0/{REPLY}/0").text == '{"command": "cat a.py"}'
    for wrong in ("/text/9/0/text", "/text/0/9/text", "/text/0/-1/9", "/text/0/-1/other", "/text/0/-2/text"):
        assert get(SPLIT_TRIAL, wrong, status=404)["error"] == "there is no such text in this trial"


def test_nothing_that_a_terminal_obeys_is_shown(get: Get) -> None:
    text = get(HOSTILE, "/turns")["turns"][1]["messages"][0]["text"]["text"]
    assert text.startswith("<img src=x onerror=")
    assert "red" in text
    for gone in ("\x1b", "\u202e", "\x00", "title"):
        assert gone not in text


def test_files_are_shown_by_their_ends_and_saved_as_they_are(get: Get) -> None:
    log = get(HOSTILE, "/file/harness_log")
    assert log["size"] == 500_000 + len(b"\xff\xfe<script>window.bad=1</script>\x1b[2J")
    assert log["left_out"] == log["size"] - 200_000
    assert log["text"].startswith("\ufffd\ufffd<script>")
    assert get(HOSTILE, "/file/patch/whole").content == HOSTILE_PATCH
    assert get(HOSTILE, "/file/passwd", status=404)["error"].startswith("a trial has patch")
    assert "no grading log" in get(SPLIT_TRIAL, "/file/grading_log", status=404)["error"]


def test_every_token_with_what_became_of_it(get: Get, trials: RunFolder) -> None:
    summary = get(SPLIT_TRIAL, "/tokens/0/summary")
    segment = read_recording(trials.trial(STEP, SPLIT_TRIAL)).segments[0]
    loss = int(segment.response_mask.sum())
    told = {each["fate"]: each["tokens"] for each in summary["fates"] if each["tokens"]}
    kinds = {"rejected": 1, "no_weight": 1, "no_signal": 1, "trained": loss - 3}
    assert told == {"context": len(segment.ids) - loss, **kinds}
    assert summary["largest"][0]["difference"] == pytest.approx(-1, abs=1e-6)
    place = summary["largest"][0]["place"]
    assert place == len(segment.prompt_ids) + 4
    tokens = get(SPLIT_TRIAL, f"/tokens/0?first={place - 4}&count=5")
    assert [summary["fates"][fate]["fate"] for fate in tokens["fate"]] == [
        *("trained", "rejected", "no_weight", "no_signal", "trained")
    ]
    assert tokens["id"] == segment.ids[place - 4 : place + 1].tolist()
    assert tokens["version"] == [7] * 5
    assert tokens["trainer"][4] == pytest.approx(tokens["logprobs"][4] - 1, abs=1e-6)
    assert (tokens["entropies"][0], tokens["weights"][:3], tokens["advantages"][3]) == (0.25, [1.5, 1.5, 0.0], 0.0)
    before = get(SPLIT_TRIAL, f"/tokens/0?first={place - 5}&count=1")
    assert (before["call"], before["logprobs"], before["trainer"]) == ([-1], [None], [None])
    rows = segment.routes
    assert rows is not None
    assert get(SPLIT_TRIAL, f"/tokens/0/experts/{place}")["experts"] == rows[place - 1].tolist()
    assert get(SPLIT_TRIAL, f"/tokens/0/experts/{place - 5}")["experts"] is None
    assert get(SPLIT_TRIAL, "/tokens/0/experts/999999")["experts"] is None


def test_of_a_segment_that_is_not_trained_what_was_sampled_is_there(get: Get) -> None:
    summary = get(SPLIT_TRIAL, "/tokens/1/summary")
    assert summary["reason"] == "side_call"
    assert {each["fate"]: each["tokens"] for each in summary["fates"] if each["tokens"]} == {"split": summary["total"]}
    tokens = get(SPLIT_TRIAL, "/tokens/1")
    assert "".join(tokens["text"]).startswith("A title")
    assert tokens["position"][0] > 0
    assert get(SPLIT_TRIAL, "/tokens/9/summary", status=404)["error"] == "the trial has no segment 9"


@pytest.mark.parametrize(("trial", "fate"), [("task0-2-1", "presumed"), ("task1-2-2", "dropped")])
def test_what_is_not_known_is_not_called_trained(get: Get, trial: str, fate: str) -> None:
    told = {each["fate"] for each in get(trial, "/tokens/0/summary")["fates"] if each["tokens"]}
    assert told == {"context", fate}


def test_a_hundred_thousand_tokens_come_in_windows(get: Get) -> None:
    summary = get(LONG, "/tokens/0/summary")
    assert summary["total"] > 100_000
    assert len(summary["bins"]["difference"]) == 240
    tokens = get(LONG, "/tokens/0?first=100000&count=1500")
    assert (tokens["first"], len(tokens["id"]), tokens["total"]) == (100_000, 1500, summary["total"])
    assert get(LONG, "/tokens/0?first=9999999")["id"] == []


def copied(run: RunFolder, to: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(run.path, to)))


def test_a_step_whose_tokens_went_into_one_file_is_read_as_before(trials: RunFolder, tmp_path: Path) -> None:
    run = copied(trials, tmp_path / "old")
    get = asking(run)
    before = get(SPLIT_TRIAL, "/tokens/0")
    compact_step(run.trials / f"{STEP:04d}")
    assert get(SPLIT_TRIAL)["tokens"] == "parquet"
    assert get(SPLIT_TRIAL, "/tokens/0") == before
    trained_file(run, STEP).write_bytes(b"PAR1 cut")
    assert "is no file of trained tokens" in get(SPLIT_TRIAL, "/tokens/0/summary")["trial"]["trouble"]
    (run.trial(STEP, SPLIT_TRIAL) / "calls.jsonl").unlink()
    assert "lego.monitor.keep.calls" in get(SPLIT_TRIAL, "/turns", status=404)["error"]


def test_a_held_out_trial_and_one_that_no_step_has_taken(trials: RunFolder, tmp_path: Path) -> None:
    run = copied(trials, tmp_path / "old")
    with Store(run.store) as store, store.transaction() as db:
        db.execute("UPDATE trials SET split = 'heldout' WHERE trial = 'task0-2-0'")
        db.execute("UPDATE trials SET trained = NULL WHERE trial = 'task0-2-1'")
        db.execute("UPDATE trials SET trained = 0, why_not = 'small_group' WHERE trial = 'task0-2-2'")
    get = asking(run)
    assert [get(f"task0-2-{n}")["fate"] for n in range(3)] == ["heldout", "undecided", "group"]


def test_names_lead_nowhere_else(get: Get) -> None:
    for name in ("..", "%2e%2e", "..%2f..%2fx"):
        assert get(name, "/turns", status=404)
    assert "has no trial" in get("missing", status=404)["error"]


def test_what_is_short_is_whole() -> None:
    assert short("abc", 3) == {"text": "abc", "size": 3}
    assert short("abcdef", 4) == {"text": "ab", "end": "ef", "left_out": 2, "size": 6}
