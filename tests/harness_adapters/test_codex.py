"""Codex: what it is told, how its ending is read, and the released package in the real sandbox."""

from __future__ import annotations

import shlex
import tomllib

import pytest
from npm_helpers import check_live, context, failures, recorded_ending

from harness_adapters.codex import Codex

CONFIG = "/home/agent/.harness/config.toml"


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        ("work", "finished"),
        ("context_overflow", "context_overflow"),
        ("cut_reply", "failed"),  # the trial knows that the reply was cut, and says token_limit
        ("told_to_stop", "failed"),
        ("refused", "failed"),
        ("error_429", "failed"),
    ],
)
def test_recorded_endings_are_read(case: str, ending: str) -> None:
    assert recorded_ending(Codex(), case) == ending


@pytest.mark.parametrize(
    ("code", "output"),
    [
        (0, ""),
        (1, '{"type":"turn.completed"}\n'),
        (0, '{"type":"item.completed","item":{"text":"turn.completed"}}\n'),
        (1, '{"type":"item.completed","item":{"text":"the context window"}}\n'),
    ],
)
def test_only_its_own_word_counts(code: int, output: str) -> None:
    assert Codex().ending(code, output) == "failed"


def test_its_configuration_is_toml() -> None:
    files = Codex(context_tokens=9000, instructions='Be "brief".\n').files(context(model='a "model"'))
    config = tomllib.loads(files[CONFIG].decode())
    assert config["model"] == 'a "model"'
    assert config["model_context_window"] == 9000
    assert config["web_search"] == "disabled"
    assert config["analytics"] == {"enabled": False}
    provider = config["model_providers"][config["model_provider"]]
    assert provider["base_url"] == "http://127.0.0.1:4747/v1"
    assert provider["wire_api"] == "responses"
    assert Codex().environment(context())[provider["env_key"]] == "key-7"
    assert files[config["model_instructions_file"]] == b'Be "brief".\n'
    assert files["/home/agent/.harness/task.txt"] == b"Mend `it`.\n'Now'."
    assert "model_instructions_file" not in tomllib.loads(Codex().files(context())[CONFIG].decode())


@pytest.mark.parametrize(("subagents", "disabled"), [(False, ["goals", "multi_agent"]), (True, ["goals"])])
def test_the_command(subagents: bool, disabled: list[str]) -> None:
    shell, flag, line = Codex(subagents=subagents).command(context())
    assert (shell, flag) == ("sh", "-c")
    words = shlex.split(line)
    program = "/opt/lego/harness/node/node_modules/@openai/codex-linux-*/vendor/*/bin/codex"
    assert words[:3] == ["exec", program, "exec"]
    assert words[-2:] == ["-", "</home/agent/.harness/task.txt"]
    assert [words[place + 1] for place, word in enumerate(words) if word == "--disable"] == disabled


@pytest.mark.harness_live
async def test_every_scenario() -> None:
    report, changed = await check_live("codex")
    assert failures(report) == []
    assert changed == []
