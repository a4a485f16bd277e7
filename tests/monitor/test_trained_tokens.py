"""What the trainer knew of a step's tokens comes back as it was, and is there only of steps that count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_retention import Retention, Tokens, apply_retention
from lego_verl.monitor.trained_tokens import (
    TrainedSegment,
    forget_trained_after,
    read_trained,
    trained_file,
    write_trained,
)


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


PLAIN = TrainedSegment(3, "t", 0, floats(0.5, 0.5), logprobs=floats(-0.125, -2), entropies=floats(1, 0.25))
OTHER = TrainedSegment(3, "t", 2, floats(1, -1, 0), weights=floats(0.5, 2, 1), rejected=np.array([False, True, False]))


def run_of(folder: Path) -> RunFolder:
    run = RunFolder(folder / "run")
    run.create()
    return run


def test_each_array_comes_back_as_it_was(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    many = [TrainedSegment(5, f"other{n}", 0, floats(n)) for n in range(40)]
    write_trained(trained_file(run, 5), [*many, PLAIN, OTHER])
    read = read_trained(run, 5, "t")
    assert list(read) == [0, 2]
    for known in (PLAIN, OTHER):
        found = read[known.segment]
        assert (found.began, found.trial) == (3, "t")
        for name in ("advantages", "logprobs", "entropies", "weights", "rejected"):
            ours, theirs = getattr(found, name), getattr(known, name)
            if theirs is None:
                assert ours is None, name
            else:
                np.testing.assert_array_equal(ours, theirs)
                assert ours.dtype == theirs.dtype
    assert read_trained(run, 5, "other39")[0].advantages.tolist() == [39]
    assert pq.ParquetFile(trained_file(run, 5)).num_row_groups == 3, "one trial is read without the others"


def test_what_is_not_there_is_empty_and_what_is_broken_is_said(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert read_trained(run, 1, "t") == {}
    write_trained(trained_file(run, 1), [PLAIN])
    assert read_trained(run, 1, "another") == {}
    trained_file(run, 2).write_bytes(b"PAR1 cut")
    with pytest.raises(ValueError, match=r"0002\.parquet is no file of trained tokens"):
        read_trained(run, 2, "t")


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    broken = TrainedSegment(1, "t", 0, floats(1, 2), logprobs="no array")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="convert to float32"):
        write_trained(trained_file(run, 1), [broken])
    assert list(run.trained.iterdir()) == []


def test_a_resumed_run_forgets_the_steps_that_it_does_again(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert forget_trained_after(run, 0) == 0
    for step in (1, 2, 3):
        write_trained(trained_file(run, step), [PLAIN])
    assert forget_trained_after(run, 1) == 2
    assert [path.name for path in run.trained.iterdir()] == ["0001.parquet"]


@pytest.mark.parametrize("tokens", list(Tokens))
def test_retention_drops_it_where_tokens_are_dropped(tmp_path: Path, tokens: Tokens) -> None:
    run = run_of(tmp_path)
    for step in (1, 2):
        run.trial(step, "t").mkdir(parents=True)
        write_trained(trained_file(run, step), [PLAIN])
    done = apply_retention(run, Retention(steps=1, tokens=tokens), newest=2)
    left = [1, 2] if tokens is not Tokens.drop else [2]
    assert [step for step in (1, 2) if read_trained(run, step, "t")] == left
    assert done.removed == 2 - len(left)
