"""``python -m lego_verl.evaluate`` with two real harnesses in the local sandbox, stopped and gone on with."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from evaluate_helpers import Endpoint, cells, command, make_task, started, starts

from lego_verl.proof.read import prove_trial, trial_folders


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_two_harnesses_and_two_budgets_stopped_half_way(
    made_up: Path, tmp_path: Path, how: signal.Signals
) -> None:
    make_task(tmp_path / "tasks/mend")
    out = tmp_path / "out"
    asked = (f"tasks={tmp_path}/tasks", "harness=mini_swe_agent,made_up", "budgets=1,8", "repeat=2", "sandbox.slots=1")
    process = await started(made_up, out, *asked)
    async with asyncio.timeout(120):
        while len(trial_folders(out)) < 3:
            await asyncio.sleep(0.02)
    process.send_signal(how)
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    before = {folder.name: (folder / "trial.json").stat().st_mtime_ns for folder in trial_folders(out)}
    assert 3 <= len(before) < 8
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert b"The same command goes on" in printed
        assert sum(cell["pending"] for cell in cells(out).values()) == 8 - len(before)
        assert None in {cell["solve_rate"] for cell in cells(out).values()}

    code, text, errors = await command(made_up, out, *asked)
    assert (code, errors) == (0, ""), text + errors
    assert f"{len(before)} of 8 trials have their verdict already" in text
    after = {folder.name: (folder / "trial.json").stat().st_mtime_ns for folder in trial_folders(out)}
    assert after.items() >= before.items()
    assert all(starts(out)[name] == 1 for name in before)
    # One turn is not enough to mend it; the oracle's first command only looks.
    counted = {name: (cell["requested"], cell["solved"], cell["failed"]) for name, cell in cells(out).items()}
    assert counted == {
        "mini_swe_agent 1": (2, 0, 2),
        "mini_swe_agent 8": (2, 2, 0),
        "made_up 1": (2, 0, 2),
        "made_up 8": (2, 2, 0),
    }
    assert cells(out)["made_up 1"]["outcomes"] == {"turn_limit": 2}
    for folder in trial_folders(out):  # as training writes them
        trial = prove_trial(folder)
        assert trial.proof.holds
        assert not trial.disagrees
        assert folder.name.startswith(f"{trial.record.harness}-")


async def test_infrastructure_stays_in_the_denominator_and_is_run_again(
    made_up: Path, tmp_path: Path, endpoint: Endpoint
) -> None:
    for name in ("one", "two"):
        make_task(tmp_path / "tasks" / name)
    make_task(tmp_path / "tasks/three", dockerfile="FROM nowhere.invalid/nothing:1\nRUN make\n")
    out = tmp_path / "out"
    asked = [f"tasks={tmp_path}/tasks", "harness=made_up", "budgets=8", "sandbox.missing_image=drop"]
    asked += ["policy=endpoint", f"policy.base_url={endpoint.url}", "policy.model=m", "policy.api_key=secret"]
    endpoint.refuses = "two"
    code, text, errors = await command(made_up, out, *asked, "sampling.temperature=0.25")
    assert (code, errors) == (3, ""), text + errors
    cell = cells(out)["made_up 8"]
    assert (cell["requested"], cell["solved"], cell["failed"], cell["infrastructure"]) == (3, 1, 0, 2)
    assert cell["solve_rate"] == pytest.approx(1 / 3)
    assert cell["solve_rate_graded"] == 1.0
    assert cell["outcomes"] == {"solved": 1, "policy_failed": 1, "image_missing": 1}
    assert "not this one" in cell["errors"]["policy_failed"]
    assert "infrastructure ended some trials" in text
    assert endpoint.temperatures == {0.25}
    assert endpoint.keys == {"Bearer secret"}
    assert all(b"secret" not in path.read_bytes() for path in out.rglob("*") if path.is_file())

    endpoint.refuses = "none"
    code, text, _ = await command(made_up, out, *asked, "sampling.temperature=0.25")
    assert code == 3, text
    assert cells(out)["made_up 8"]["solved"] == 2
    assert starts(out) == {"made_up-8-one-1": 1, "made_up-8-two-1": 2, "made_up-8-three-1": 2}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["of"]["policy"] == {"kind": "endpoint", "model": "m"}
    assert summary["tasks"] == ["one", "three", "two"]


def test_neither_verl_nor_torch_is_imported() -> None:
    program = (
        "import sys, lego_verl.evaluate.__main__; print([m for m in ('verl', 'torch', 'ray') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"
