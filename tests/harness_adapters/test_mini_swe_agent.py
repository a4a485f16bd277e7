"""mini-swe-agent as it is released, run by its own command line against a model server."""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness_helpers import SUBMIT, ChatServer, bash, calls
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.adapter import Ending, HarnessContext
from harness_adapters.mini_swe_agent import MiniSweAgent
from harness_adapters.runtime import BuiltRuntime


def context(tmp_path: Path, built: BuiltRuntime, url: str, **changes: Any) -> HarnessContext:
    values = {
        "base_url": url,
        "api_key": "key-7",
        "model": "policy",
        "instruction": "Mend it.",
        "workdir": str(tmp_path / "repo"),
        "home": str(tmp_path / "home"),
        "runtime": str(built.folder),
        "python": built.python,
        "turn_limit": 9,
        "seconds": 60.0,
    }
    return HarnessContext(**{**values, **changes})


@dataclass
class Ran:
    exit_code: int | None
    output: str
    ending: Ending


async def run_mini(where: HarnessContext, environment: dict[str, str] | None = None) -> Ran:
    """What a trial does, without a sandbox."""
    adapter = MiniSweAgent()
    for path, content in adapter.files(where).items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)
    Path(where.workdir).mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        *adapter.command(where),
        cwd=where.workdir,
        env={"PATH": "/usr/bin:/bin", "HOME": where.home, **adapter.environment(where), **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await asyncio.wait_for(process.communicate(), 60))[0].decode()
    return Ran(process.returncode, output, adapter.ending(process.returncode, output))


async def test_it_works_and_submits(server: ChatServer, mini: BuiltRuntime, tmp_path: Path) -> None:
    server.answers = [calls("echo mended > file.txt", content="I write."), SUBMIT]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = await run_mini(context(tmp_path, mini, server.url))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.ending == "finished", ran.output
    assert ran.exit_code == 0
    assert (tmp_path / "repo/file.txt").read_text() == "mended\n"
    first, second = server.bodies
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert "Mend it." in first["messages"][1]["content"]
    assert first["model"] == "policy"
    assert [tool["function"]["name"] for tool in first["tools"]] == ["bash"]
    assert second["messages"][:2] == first["messages"]
    assert second["messages"][2]["content"] == "I write."
    assert second["messages"][3] == {
        "role": "tool",
        "tool_call_id": "call_0",
        "content": "<returncode>0</returncode>\n<output>\n</output>",
    }
    assert server.keys == ["Bearer key-7"] * 2
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert cpu < 1.5, "a start of mini is to cost well under a second of CPU"


@pytest.mark.parametrize(
    ("answers", "limit", "ending", "requests"),
    [
        ([calls("true")], 3, "turn_limit", 3),
        ([(401, '{"error": {"message": "this session is over"}}')], 9, "failed", 1),
        ([(400, '{"error": {"code": "context_length_exceeded", "message": "too long"}}')], 9, "context_overflow", 1),
        ([{"content": "I only talk."}], 9, "gave_up", 3),
        ([(500, "oops"), (502, "oops"), SUBMIT], 9, "finished", 3),
        ([calls("true"), {"content": None, "tool_calls": [{**bash("x"), "function": {"name": "bash",
            "arguments": '{"command": "ls'}}]}, SUBMIT], 9, "finished", 3),
    ],
    ids=["turns", "over", "overflow", "talks", "faults", "cut call"],
)  # fmt: skip
async def test_how_it_ends(
    server: ChatServer, mini: BuiltRuntime, tmp_path: Path, answers: list[Any], limit: int, ending: str, requests: int
) -> None:
    server.answers = answers
    ran = await run_mini(context(tmp_path, mini, server.url, turn_limit=limit))
    assert (ran.ending, len(server.bodies)) == (ending, requests), ran.output


async def test_a_crash_is_a_failure_with_its_reason(server: ChatServer, mini: BuiltRuntime, tmp_path: Path) -> None:
    where = context(tmp_path, mini, server.url)
    config = tmp_path / "bad.yaml"
    config.write_text("agent:\n  system_template: '{{nothing_of_this_name}}'\n  instance_template: x\n")
    adapter = MiniSweAgent(config=str(config))
    assert "nothing_of_this_name" in adapter.files(where)[f"{where.home}/mini.yaml"].decode()
    (tmp_path / "home").mkdir()
    (tmp_path / "repo").mkdir()
    for path, content in adapter.files(where).items():
        Path(path).write_bytes(content)
    process = await asyncio.create_subprocess_exec(
        *adapter.command(where),
        cwd=where.workdir,
        env={"PATH": "/usr/bin:/bin", "HOME": where.home, **adapter.environment(where)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 1
    assert "UndefinedError: 'nothing_of_this_name' is undefined" in output
    assert adapter.ending(1, output) == "failed"
    assert server.bodies == []


async def test_an_instruction_longer_than_a_command_line(
    server: ChatServer, mini: BuiltRuntime, tmp_path: Path
) -> None:
    server.answers = [SUBMIT]
    instruction = "Line with {{braces}}, \u00e9, \u2028 and \U0001f600\n" * 8000
    ran = await run_mini(context(tmp_path, mini, server.url, instruction=instruction))
    assert ran.ending == "finished", ran.output[-2000:]
    assert instruction in server.bodies[0]["messages"][1]["content"]


async def test_harness_and_commands_do_not_see_each_others_python(
    server: ChatServer, mini: BuiltRuntime, tmp_path: Path
) -> None:
    """The repository's environment does not reach the harness, nor the harness's packages the agent's commands."""
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("yaml", "json", "sitecustomize"):
        (trap / f"{name}.py").write_text("raise SystemExit('the harness imported the repository')\n")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/rich.py").write_text("raise SystemExit('the harness imported the repository')\n")
    server.answers = [
        calls("env; PYTHONPATH= python3 -c 'import minisweagent'; python3 -c 'import mini_launch'"),
        SUBMIT,
    ]
    ran = await run_mini(context(tmp_path, mini, server.url), {"PYTHONPATH": str(trap), "MARK": "kept"})
    assert ran.ending == "finished", ran.output
    observed = server.bodies[1]["messages"][-1]["content"]
    assert "MARK=kept" in observed
    assert f"PYTHONPATH={trap}" in observed
    assert "No module named 'minisweagent'" in observed
    assert str(mini.folder) not in observed


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_instruction_reaches_mini_as_it_is(text: str) -> None:
    where = HarnessContext("http://x", "k", text, text, "/w", "/h", "/r", "python3", 3, 1.0)
    trial = yaml.safe_load(MiniSweAgent().files(where)["/h/trial.yaml"])
    assert trial["run"]["task"] == text
    assert trial["model"]["model_name"] == f"openai/{text}"


def test_how_it_ended_does_not_hang_on_its_output() -> None:
    """The agent can print anything, and a long output is cut."""
    adapter = MiniSweAgent()
    assert adapter.ending(0, "") == "finished"
    for code in (None, 1, 137):
        assert adapter.ending(code, "mini-swe-agent ended: Submitted\n") == "failed"


def test_launcher_and_adapter_agree() -> None:
    from harness_adapters.inside.mini_launch import EXIT_CODES

    assert {status: MiniSweAgent().ending(code, "") for status, code in EXIT_CODES.items()} == {
        "Submitted": "finished",
        "RepeatedFormatError": "gave_up",
        "LimitsExceeded": "turn_limit",
        "ContextWindowExceededError": "context_overflow",
    }
