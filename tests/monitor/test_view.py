"""What a run is doing, read from files that are still being written."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from lego_verl.monitor.display import Display, summary
from lego_verl.monitor.run_folder import RunFolder, append_line, keep_steps_up_to, read_lines
from lego_verl.monitor.view import RunView


def step(number: int, solve_rate: float = 0.5) -> dict:
    return {
        "step": number,
        "solve_rate": solve_rate,
        "heldout_solve_rate": None,
        "reward": solve_rate,
        "outcomes": {"solved": 4, "unsolved": 3, "sandbox_lost": 1},
        "pearson": 0.99999,
        "proof_provenance": 1.0,
        "proof_context": 1.0,
        "loss_tokens": 120,
        "calls": 20,
        "submitted": 8,
        "dropped": 1,
        "entropy": 0.7,
        "seconds": 12.3,
    }


def finished(trial: str, outcome: str, reward: float | None) -> dict:
    return {
        "event": "finished",
        "step": 1,
        "split": "train",
        "trial": trial,
        "outcome": outcome,
        "reward": reward,
        "sampled_tokens": 9,
    }


def make_run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    run.create()
    return run


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    view = RunView(run)
    append_line(run.metrics, step(1))
    with run.metrics.open("a") as stream:
        stream.write('{"step": 2')
    assert [record["step"] for record in view.update()] == [1]
    assert [record["step"] for record in read_lines(run.metrics)] == [1]
    assert view.update() == []


def test_the_current_step_counts_running_and_finished(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for trial in "abc":
        append_line(run.events, {"event": "started", "step": 1, "split": "train", "trial": trial})
    append_line(run.events, finished("a", "solved", 1.0))
    append_line(run.events, finished("b", "sandbox_lost", None))
    view = RunView(run)
    view.update()
    assert view.now.running == {"c"}
    assert view.now.outcomes == {"solved": 1, "sandbox_lost": 1}
    assert view.now.rewards == [1.0]


def test_lines_and_summary_say_what_happened(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    view = RunView(run)
    out = Console(file=io.StringIO(), width=200)
    with Display(view, out, total_steps=3, trials=8, style="lines") as display:
        for number, rate in ((1, 0.3), (2, 0.4), (3, 0.9)):
            append_line(run.metrics, step(number, rate))
            display.refresh()
    summary(view, out, seconds=90, memory=3 << 29)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "step 3/3  solved 0.90" in text
    assert "proof 100% / 100%" in text
    assert "0.35" in text  # the mean of the first two steps
    assert "1.5 minutes, at most 1.5 GiB of memory" in text


def test_the_live_table_shows_the_running_step(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    append_line(run.metrics, step(1))
    append_line(run.events, {"event": "started", "step": 2, "split": "train", "trial": "x"})
    out = Console(file=io.StringIO(), width=200, force_terminal=True)
    with Display(RunView(run), out, total_steps=3, trials=8, style="live") as display:
        display.refresh()
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "sandbox_lost 1" in text


def test_resuming_drops_the_steps_that_are_done_again(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for number in (1, 2, 3):
        append_line(run.metrics, step(number))
    keep_steps_up_to(run.metrics, 2)
    assert [record["step"] for record in read_lines(run.metrics)] == [1, 2]
