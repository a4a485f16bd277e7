"""Old steps take less room, and what reads trials finds them there."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from monitor_run import make_run

from lego_verl.capture.record import RecordingError, read_recording
from lego_verl.capture.token_table import read_arrays, rows_of, schema
from lego_verl.monitor.store_retention import Housekeeper, Retention, Tokens, apply_retention, retention_of
from lego_verl.monitor.store_tokens import compact_step
from lego_verl.proof.__main__ import main as proof


def test_tokens_of_old_steps_are_one_file_a_step_and_read_as_before(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=4)
    before = {path.name: read_recording(path) for path in run.trials.glob("*/*")}
    done = apply_retention(run, Retention(steps=2), newest=4)
    assert (done.steps, done.compacted) == (2, 8)
    assert sorted(path.name for path in run.tokens.iterdir()) == ["0001.parquet", "0002.parquet"]
    assert {path.parent.parent.name for path in run.trials.glob("*/*/tokens.npz")} == {"0003", "0004"}
    for path in run.trials.glob("*/*"):
        read, known = read_recording(path), before[path.name]
        assert read.proof() == known.proof()
        assert read.proof().holds
        for ours, theirs in zip(read.segments, known.segments, strict=True):
            for name in ("prompt_ids", "response_ids", "response_mask", "logprobs", "versions"):
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
                assert getattr(ours, name).dtype == getattr(theirs, name).dtype
    assert apply_retention(run, Retention(steps=2), newest=4).compacted == 0
    assert proof([str(run.path)]) == 0


def test_expert_routes_come_back_as_they_were(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    routes = np.arange(24, dtype=np.int16).reshape(4, 3, 2)
    arrays = {f"{name}_0": np.array([1, 2], kind) for name, kind in (("prompt_ids", "i4"), ("response_ids", "i4"))}
    arrays |= {"response_mask_0": np.array([0, 1], "u1"), "logprobs_0": np.array([0, -1], "f4"), "routes_0": routes}
    arrays |= {"versions_0": np.array([-1, 0], "i4"), "call_ids": np.array([2], "i4")}
    arrays |= {"call_logprobs": np.array([-1], "f4"), "call_versions": np.array([0], "i4")}
    pq.write_table(pa.Table.from_pylist(list(rows_of("t", arrays)), schema=schema()), tmp_path / "t.parquet")
    read = read_arrays(tmp_path / "t.parquet", "t")
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype
    with pytest.raises(FileNotFoundError, match="holds nothing of other"):
        read_arrays(tmp_path / "t.parquet", "other")


def test_a_crash_between_the_two_files_loses_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=1)
    step = run.trials / "0001"
    first = step / "task0-1-0"
    kept = (first / "tokens.npz").read_bytes()
    assert compact_step(step) == 4
    (first / "tokens.npz").write_bytes(kept)  # the new file was there, and the old ones not all gone
    assert compact_step(step) == 1
    assert not list(step.glob("*/tokens.npz"))
    late = step / "task0-1-1"
    (late / "tokens.npz").write_bytes(kept)
    late.rename(step / "late")  # a trial that came after the step was put together
    assert compact_step(step) == 1
    for trial in ("late", "task1-1-0"):
        assert read_recording(step / trial).proof().holds


def test_tokens_that_cannot_be_read_stay(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=1)
    broken = run.trial(1, "task0-1-0") / "tokens.npz"
    broken.write_bytes(b"PK cut")
    assert compact_step(run.trials / "0001") == 3
    assert broken.read_bytes() == b"PK cut"


@pytest.mark.parametrize(
    ("keep", "gone"),
    [
        (Retention(steps=1, logs=False), {"harness.log"}),
        (Retention(steps=1, calls=False, tokens=Tokens.drop), {"calls.jsonl", "tokens.npz"}),
        (Retention(steps=1, patches=False, tokens=Tokens.npz), {"patch.diff"}),
    ],
)
def test_what_is_not_kept_is_removed_of_old_steps_only(tmp_path: Path, keep: Retention, gone: set[str]) -> None:
    run = make_run(tmp_path / "run", steps=3)
    everything = {"trial.json", "patch.diff", "harness.log", "calls.jsonl", "tokens.npz"}
    done = apply_retention(run, keep, newest=3)
    assert done.freed > 0
    moved = {"tokens.npz"} if keep.tokens is Tokens.parquet else set()
    assert {path.name for path in run.trial(1, "task0-1-0").iterdir()} == everything - gone - moved
    assert {path.name for path in run.trial(3, "task0-3-0").iterdir()} == everything
    if "tokens.npz" in gone:
        with pytest.raises(RecordingError):
            read_recording(run.trial(1, "task0-1-0"))


def test_every_so_many_steps_are_kept_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=5)
    apply_retention(run, Retention(steps=1, every=2, logs=False), newest=5)
    assert sorted({path.parent.parent.name for path in run.trials.glob("*/*/harness.log")}) == ["0002", "0004", "0005"]


def test_the_settings_are_the_recipes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=1)
    assert retention_of(run) == Retention()
    run.recipe.write_text("lego:\n  monitor:\n    keep: {steps: 7, tokens: drop, logs: false}\n")
    assert retention_of(run) == Retention(steps=7, tokens=Tokens.drop, logs=False)


def test_a_housekeeper_works_beside_and_never_raises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", steps=3)
    run.recipe.write_text("lego:\n  monitor:\n    keep: {steps: 1}\n")
    keeper = Housekeeper(run)
    thread = keeper.step_closed(3)
    assert isinstance(thread, threading.Thread)
    thread.join(30)
    assert len(list(run.tokens.iterdir())) == 2
    assert keeper.take_seconds() > 0
    assert keeper.take_seconds() == 0

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lego_verl.monitor.store_retention.apply_retention", full)
    thread = keeper.step_closed(4)
    assert thread is not None
    thread.join(30)
    assert "No space left on device" in capsys.readouterr().err
    assert keeper.step_closed(5) is not None  # it tries again
