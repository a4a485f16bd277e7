"""A trial's record and folder: plain data that says the same when it is read again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from trial_helpers import MEND, SUBMIT, bash, trial

from lego_verl.capture.record import read_recording
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import FinishedTrial, TrialRecord, write_trial


def test_a_record_is_read_as_it_was_written() -> None:
    record = TrialRecord("t", "task", Outcome.OUT_OF_MEMORY, reward=None, error="x", seconds={"harness": 1.5})
    text = json.dumps(record.as_dict())
    assert json.loads(text)["treatment"] == "drop"
    assert TrialRecord.from_dict(json.loads(text)) == record


def test_what_is_not_a_record_is_refused() -> None:
    record = TrialRecord("t", "task", Outcome.SOLVED).as_dict()
    with pytest.raises(TypeError, match="has no colour"):
        TrialRecord.from_dict({**record, "colour": "red"})
    with pytest.raises(ValueError, match="not a valid Outcome"):
        TrialRecord.from_dict({**record, "outcome": "lucky"})


async def test_a_trials_folder(mini: Bench, task: Task, tmp_path: Path) -> None:
    finished = await trial(mini, "it", task, bash("ls"), bash(MEND), bash(SUBMIT))
    folder = tmp_path / "trials/it"
    write_trial(folder, finished)
    assert {path.name for path in folder.iterdir()} == {
        *("trial.json", "patch.diff", "harness.log", "grading.log", "calls.jsonl", "tokens.npz")
    }
    assert TrialRecord.from_dict(json.loads((folder / "trial.json").read_text())) == finished.record
    assert (folder / "patch.diff").read_bytes() == finished.patch
    recording = read_recording(folder)
    assert len(recording.calls) == finished.record.calls == 3
    assert recording.proof().as_dict() == finished.record.proof
    for read, known in zip(recording.segments, finished.segments, strict=True):
        np.testing.assert_array_equal(read.response_ids, known.response_ids)
        np.testing.assert_array_equal(read.logprobs, known.logprobs)
    write_trial(folder, finished)  # a resumed run writes it again


def test_a_trial_that_never_began_has_a_folder_too(tmp_path: Path) -> None:
    write_trial(tmp_path / "t", FinishedTrial(TrialRecord("t", "task", Outcome.SANDBOX_FAILED, error="no room")))
    assert json.loads((tmp_path / "t/trial.json").read_text())["error"] == "no room"
    assert not (tmp_path / "t/tokens.npz").exists()
