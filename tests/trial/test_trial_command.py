"""``python -m lego_verl.trial``, from its arguments to what it prints."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from trial_helpers import MEND, PARSER, RENDERER, SUBMIT, bash, make_task, policy, sandboxes_of, trial, until

from harness_adapters.mini_swe_agent import MiniSweAgent
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session
from lego_verl.trial.bench import Bench
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.scripts import oracle_script
from sandbox.scratch import Scratch

ROOT = Path(__file__).parents[2]


async def command(tmp_path: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lego_verl.trial", f"out={tmp_path}/out", "tasks.check=false", *arguments),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode is not None
    return process.returncode, out.decode(), errors.decode()


async def test_the_oracle_solves_the_first_toy_task(tmp_path: Path) -> None:
    code, out, errors = await command(tmp_path)
    assert (code, errors) == (0, ""), out + errors
    assert "solved (reward 1" in out
    assert "provenance 100.00%, context 100.00%" in out
    assert "diff --git" in out
    assert json.loads((tmp_path / "out/trial.json").read_text())["outcome"] == "solved"


async def test_a_named_task_and_a_policy_that_does_nothing(tmp_path: Path) -> None:
    make_task(tmp_path / "mend")
    code, out, errors = await command(tmp_path, f"task={tmp_path}/mend", "policy.script=nop")
    assert (code, errors) == (0, "")
    assert "no_patch (reward 0" in out


async def test_a_script_of_ones_own(tmp_path: Path) -> None:
    make_task(tmp_path / "mend")
    (tmp_path / "script.jsonl").write_text("\n".join(json.dumps(reply) for reply in [bash(MEND), bash(SUBMIT)]))
    code, out, _ = await command(tmp_path, f"task={tmp_path}/mend", f"policy.script={tmp_path}/script.jsonl")
    assert code == 0
    assert "solved (reward 1" in out


async def test_an_endpoint_is_any_server_that_speaks_chat_completions(tmp_path: Path) -> None:
    make_task(tmp_path / "mend")
    server = ProxyServer()
    await server.start()
    script: ScriptedPolicy = policy(bash(MEND), bash(SUBMIT))
    session = Session("s", script, renderer=RENDERER, parser=PARSER, budget=Budget(tokens=10_000))
    address = await server.open(session)
    try:
        code, out, errors = await command(
            *(tmp_path, f"task={tmp_path}/mend", "policy=endpoint"),
            *(f"policy.base_url={address.base_url}/v1", "policy.model=some-model"),
        )
    finally:
        await server.stop()
    assert (code, errors) == (0, ""), out + errors
    assert "solved (reward 1" in out
    assert "can be evaluated but not trained" in out
    assert session.turns == 2


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["task=nothing"], 2, "task=nothing: there is no such task or folder; there are "),
        (["policy.script=/nowhere.jsonl"], 2, "/nowhere.jsonl cannot be read"),
        (["policy=endpoint"], 2, "policy.base_url"),
        (["policy=tiny"], 2, "cannot answer without verl"),
        (["harness.name=nothing"], 1, "harness=nothing: there is no such harness; there are "),
        (["harness.turn_limits=3"], 2, "turn_limit"),
        (["sandbox.backend=nothing"], 2, "nothing"),
    ],
)
async def test_what_cannot_be_is_one_plain_line(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    got, _, errors = await command(tmp_path, *arguments)
    assert got == code, errors
    assert says in errors
    assert errors.count("\n") == 1
    assert not (tmp_path / "out/trial.json").exists()


async def test_a_harness_that_cannot_be_installed(tmp_path: Path) -> None:
    make_task(tmp_path / "mend")
    given = {"LEGO_VERL_CACHE": f"{tmp_path}/cache", "PIP_NO_INDEX": "1"}
    code, _, errors = await command(tmp_path, f"task={tmp_path}/mend", **given)
    assert code == 1
    assert errors.count("\n") == 1
    assert "harness runtime mini-swe-agent-2.4.6-thin cannot be installed: No matching distribution found" in errors
    log = Path(errors.rpartition("pip's output: ")[2].strip().rstrip(")"))
    assert "mini-swe-agent==2.4.6" in log.read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
async def test_one_that_is_stopped_leaves_nothing_that_the_next_one_does_not_clear(
    tmp_path: Path, how: signal.Signals
) -> None:
    make_task(tmp_path / "mend")
    (tmp_path / "script.jsonl").write_text(json.dumps(bash(MEND, delay=60.0)))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lego_verl.trial", f"out={tmp_path}/out", f"task={tmp_path}/mend"),
        f"policy.script={tmp_path}/script.jsonl",
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    await until(lambda: sandboxes_of(process.pid))
    (sandbox,) = sandboxes_of(process.pid)
    await asyncio.sleep(0.5)
    process.send_signal(how)
    _, said = await asyncio.wait_for(process.communicate(), 20)
    await until(lambda: not Path(f"/proc/{sandbox}").exists())
    links = Scratch().root / f"trial-{process.pid}"
    if how is signal.SIGINT:
        assert process.returncode == 130
        assert b"nothing of it is running any more" in said
        assert not links.exists()
    else:
        assert links.exists()
        code, out_text, _ = await command(tmp_path, f"task={tmp_path}/mend")
        assert code == 0, out_text
        assert not links.exists()


def test_neither_verl_nor_torch_is_imported() -> None:
    program = "import sys, lego_verl.trial.__main__; print([m for m in ('verl', 'torch', 'ray') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"


async def test_a_solution_of_several_files_is_brought_along_in_pieces(mini: Bench, tmp_path: Path) -> None:
    plain = oracle_script(make_task(tmp_path / "plain"), MiniSweAgent.shell)
    assert plain[1]["tool_calls"][0]["arguments"]["command"] == "set -e\ncd /testbed\necho mended >answer.txt\n"

    big = random.Random(1).randbytes(200_000)
    files = {
        "solve.sh": b"set -e\ncd /testbed\nsha256sum -c /solution/sums\n" + MEND.encode(),
        "big": big,
        "sums": f"{hashlib.sha256(big).hexdigest()}  /solution/big\n".encode(),
    }
    task = make_task(tmp_path / "big", solution=files)
    replies = oracle_script(task, MiniSweAgent.shell)
    commands = [call["arguments"]["command"] for reply in replies for call in reply["tool_calls"]]
    assert len(commands) > 5
    assert max(len(command) for command in commands) < 100_000
    finished = await trial(mini, "it", task, *replies, limits={"tokens": 1 << 24, "turns": 20})
    assert finished.record.outcome is Outcome.SOLVED, finished.harness_log[-2000:]
