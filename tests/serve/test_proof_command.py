"""``python -m lego_verl.proof`` on runs that are made here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serve_helpers import Recorder, bash_text, record_everything, rewrite_tokens, verb

from lego_verl.capture.message import Message
from lego_verl.capture.proof import not_captured
from lego_verl.capture.record import read_recording, write_recording
from lego_verl.monitor.run_folder import RunFolder, append_line
from lego_verl.proof.__main__ import main
from lego_verl.proof.read import prove_trial, sum_steps, trial_folders
from lego_verl.proof.show import token_lines
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import TrialRecord


def add_trial(
    run: RunFolder, step: int, name: str, *, split: str = "train", outcome: Outcome = Outcome.SOLVED, group: str = "g",
    record: Callable[[Path], Any] | None = record_everything,
) -> Path:  # fmt: skip
    folder = run.trial(step, name)
    folder.mkdir(parents=True)
    proof = not_captured(2, 9)
    if record is not None:
        record(folder)
        proof = read_recording(folder).proof()
    written = TrialRecord(name, "task", outcome, group=group, reward=1.0, proof=proof.as_dict(), calls=proof.calls)
    (folder / "trial.json").write_text(json.dumps(written.as_dict()))
    append_line(run.events, {"event": "finished", "step": step, "split": split, "trial": name})
    return folder


def record_one_turn(folder: Path) -> None:
    recorder = Recorder()
    recorder.ask(Message("user", "x"), says=bash_text("ls"))
    write_recording(folder, recorder.capture)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Two steps: two trials that are trained, one that is dropped, a group too small, and a held-out one."""
    run = RunFolder(tmp_path / "runs/mine")
    run.create()
    run.recipe.write_text("lego: {trial: {min_group: 2}}\n")
    add_trial(run, 1, "a-0")
    add_trial(run, 1, "a-1", record=record_one_turn)
    add_trial(run, 1, "a-2", outcome=Outcome.SANDBOX_LOST, record=record_one_turn)
    add_trial(run, 1, "b-0", group="small", record=record_one_turn)
    add_trial(run, 1, "h-0", split="heldout", group="h", record=record_one_turn)
    for name in ("a-0", "a-1"):
        add_trial(run, 2, name, record=record_one_turn)
    return run


def test_a_step_counts_what_was_trained_of_it(run: RunFolder) -> None:
    trials = [prove_trial(folder) for folder in trial_folders(run.path)]
    steps = sum_steps(run.path, trials)
    assert [(step.step, step.split, step.trials, step.dropped) for step in steps] == [
        (1, "heldout", 1, 0), (1, "train", 4, 2), (2, "train", 2, 0),
    ]  # fmt: skip
    whole = read_recording(run.trial(1, "a-0")).proof()
    small = read_recording(run.trial(1, "a-1")).proof()
    step = steps[1]
    assert (step.calls, step.segments) == (whole.calls + 1, whole.segments + 1)
    assert step.splits == {"first": 2, "dropped_turn": 2, "side_call": 1, "subagent": 1}
    assert step.sampled_tokens == whole.sampled_tokens + small.sampled_tokens
    assert step.loss_tokens == whole.loss_tokens + small.loss_tokens
    assert step.untrained == whole.untrained
    assert (step.provenance, step.context) == (1.0, 1.0)
    assert step.sampled_tokens == step.loss_tokens + sum(step.untrained.values())


async def test_the_report_of_a_run(run: RunFolder, tmp_path: Path) -> None:
    loss = read_recording(run.trial(2, "a-0")).proof().loss_tokens * 2
    append_line(run.metrics, {"step": 2, "loss_tokens": loss})
    code, out, errors = await verb("lego_verl.proof", "mine", cwd=tmp_path)
    assert (code, errors.strip()) == (0, ""), out + errors
    rows = [line.split() for line in out.splitlines()]
    assert ["2", "train", "2", "0", "2", "2"] in [row[:6] for row in rows]
    # of the dropped one nothing counts but that it was
    assert ["1", "train", "4", "2"] in [row[:4] for row in rows]
    assert "untrained" in out


def test_what_a_run_says_of_itself_is_held_against_its_trials(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    append_line(run.metrics, {"step": 2, "loss_tokens": 1})
    assert main([str(run.path)]) == 1
    assert "step 2: metrics.jsonl says 1 loss tokens" in capsys.readouterr().out


def test_changed_tokens_are_no_proof(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite_tokens(run.trial(2, "a-0"), lambda arrays: arrays["response_ids_0"].__setitem__(0, 7))
    assert main([str(run.path)]) == 1
    assert "trial.json says something else of its proof" in capsys.readouterr().out
    for arguments in ([str(run.trial(2, "a-0"))], [str(run.path), "--trial", "0002/a-0"]):
        assert main(arguments) == 1
        assert "trial.json says something else of the proof" in capsys.readouterr().out


def test_one_trial_token_by_token(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run.path), "--trial", "0001/a-0", "--tokens"]) == 0
    out = capsys.readouterr().out
    assert "provenance 100.00%, context 100.00%" in out
    assert "closed 4" in out
    recording = read_recording(run.trial(1, "a-0"))
    lines = list(token_lines(recording))
    assert "\n".join(lines) in out
    ends = [line.split()[-1] for line in lines]
    proof = recording.proof()
    assert ends.count("trained") == proof.loss_tokens
    assert ends.count("side_call") == len(recording.calls[3].sample.ids) == proof.untrained["side_call"]
    assert set(ends) == {"trained", "context", "side_call"}
    sampled = recording.calls[0].sample
    trained = [line.split() for line in lines if line.endswith("trained")]
    # position, id, text, call, version, log-probability
    first = trained[0]
    assert (first[1], first[2]) == (str(recording.calls[0].prompt_length), str(int(sampled.ids[0])))
    assert first[-4:] == ["0", "0", f"{float(sampled.logprobs[0]):.6f}", "trained"]


def test_a_sampled_token_without_loss_is_unaccounted(tmp_path: Path) -> None:
    record_one_turn(tmp_path)
    rewrite_tokens(tmp_path, lambda arrays: arrays["response_mask_0"].__setitem__(2, 0))
    ends = [line.split()[-1] for line in token_lines(read_recording(tmp_path))]
    assert ends.count("unaccounted") == 1


def test_the_folder_of_a_trial_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_everything(tmp_path / "alone")
    assert main([str(tmp_path / "alone")]) == 0
    out = capsys.readouterr().out
    assert "first 1, dropped_turn 2, side_call 1, subagent 1" in out
    assert "no: side_call" in out


def test_an_endpoint_has_no_proof(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    folder = add_trial(run, 3, "e-0", record=None)
    assert main([str(folder)]) == 1
    assert "the endpoint returns no token ids" in capsys.readouterr().out
    assert main([str(folder), "--tokens"]) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/nowhere"], "there is no such folder, nor one in runs/"),
        (["{tmp}"], "neither a run (it has no trials/) nor a trial"),
        (["{run}", "--tokens"], "give --trial NAME"),
        (["{run}", "--trial", "z-9"], "has no such trial; of 7 the first are 0001/a-0"),
        (["{run}", "--trial", "a-0"], "several trials have this name: 0001/a-0, 0002/a-0"),
        (["{empty}"], "no trial of it is finished"),
        (["{broken}"], "is no trial's record"),
        (["{bare}"], "holds no readable recording"),
    ],
)
def test_what_cannot_be_shown_is_one_plain_line(
    run: RunFolder, tmp_path: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty/trials").mkdir(parents=True)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/trial.json").write_text('{"trial": 1}')
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/calls.jsonl").write_text("")
    places = {"tmp": tmp_path, "run": run.path, **{name: tmp_path / name for name in ("empty", "broken", "bare")}}
    assert main([argument.format(**places) for argument in arguments]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors.count("\n")) == ("", 1), errors
    assert says in errors


def test_a_trial_that_lost_its_recording_stops_the_report(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    (run.trial(2, "a-0") / "tokens.npz").unlink()
    assert main([str(run.path)]) == 2
    assert "0002/a-0 holds no readable recording" in capsys.readouterr().err


def test_records_say_what_they_are(run: RunFolder) -> None:
    proved = prove_trial(run.trial(1, "a-0"))
    assert not proved.disagrees
    says = {**proved.record.proof, "calls": 99}
    assert replace(proved, record=replace(proved.record, proof=says)).disagrees
