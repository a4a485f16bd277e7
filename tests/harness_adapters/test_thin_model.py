"""The thin model class is to a server, and to mini, what mini's own litellm class is."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from harness_helpers import SUBMIT, Answer, ChatServer, bash, calls

from harness_adapters.runtime import BuiltRuntime

DRIVER = """
import json, os, sys, time
runtime, url, scenarios = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
sys.path += [runtime + "/site", runtime]  # this environment's packages first: litellm is one of them
import yaml
from pathlib import Path
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models import get_model
config = yaml.safe_load(Path(sys.argv[4]).read_text())
time.sleep = lambda seconds: None  # the pauses between tries are not what is compared
for model_class in ("mini_thin_model.ThinModel", "litellm"):
    for name in scenarios:
        kwargs = {"api_base": f"{url}/{model_class}/{name}/v1", "api_key": "k", "drop_params": True}
        model = get_model("openai/policy", {**config["model"], "model_class": model_class, "model_kwargs": kwargs})
        agent = DefaultAgent(model, LocalEnvironment(), **{**config["agent"], "step_limit": 6})
        try:
            ended = agent.run("Mend it.")["exit_status"]
        except Exception as error:
            ended = type(error).__name__
        roles = [message["role"] for message in agent.messages]
        print(json.dumps([model_class, name, ended, roles]), flush=True)
"""


def malformed(name: str, arguments: str) -> Answer:
    return {"content": "x", "tool_calls": [{**bash(""), "function": {"name": name, "arguments": arguments}}]}


def refusal(status: int, message: str, code: str | None = None) -> Answer:
    return status, json.dumps({"error": {"message": message, "code": code}})


SCENARIOS: dict[str, list[Answer]] = {
    "work": [
        {**calls("echo a", content="\n\nLook.  \n"), "reasoning_content": "Hm:  caf\u00e9\n\n"},
        {**calls("echo b", "echo c", content=None), "reasoning_content": "Two."},
        calls("echo d", content=""),
        SUBMIT,
    ],
    "bad_arguments": [malformed("bash", '{"co'), SUBMIT],
    "unknown_tool": [malformed("edit", "{}"), SUBMIT],
    "only_talk": [{"content": "Hello."}],
    "over": [refusal(401, "over")],
    "forbidden": [refusal(403, "no")],
    "not_found": [refusal(404, "where")],
    "overflow": [refusal(400, "This model's maximum context length is 10 tokens.", "context_length_exceeded")],
    "bad_request": [refusal(400, "no images")],
    "faults": [refusal(500, "oops"), refusal(503, "oops"), SUBMIT],
    "too_many_requests": [refusal(429, "slow down"), SUBMIT],
    "many_faults": [refusal(500, "oops")],
}


@pytest.fixture
async def compared(mini: BuiltRuntime, tmp_path: Path) -> dict[str, dict[str, tuple[Any, ...]]]:
    """By scenario and class: the requests' bodies, how the agent ended, and the roles of its messages."""
    # A server a path, so that both classes meet the same answers from the beginning.
    servers: dict[tuple[str, str], ChatServer] = {}

    async def handle(request: web.Request) -> web.Response:
        key = (request.match_info["kind"], request.match_info["name"])
        return await servers.setdefault(key, ChatServer(SCENARIOS[key[1]])).handle(request)

    app = web.Application()
    app.router.add_post("/{kind}/{name}/v1/chat/completions", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    (tmp_path / "driver.py").write_text(DRIVER)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(tmp_path / "driver.py"), str(mini.folder)),
        f"http://127.0.0.1:{runner.addresses[0][1]}",
        json.dumps(list(SCENARIOS)),
        str(Path(__file__).parents[2] / "harness_adapters/mini_swe_agent.yaml"),
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    await runner.cleanup()
    assert process.returncode == 0, errors.decode()[-3000:]
    result: dict[str, dict[str, tuple[Any, ...]]] = {name: {} for name in SCENARIOS}
    for line in out.decode().splitlines():
        if line.startswith("["):
            kind, name, ended, roles = json.loads(line)
            result[name][kind] = (servers[kind, name].bodies, ended, roles)
    return result


async def test_same_requests_same_endings(compared: dict[str, dict[str, tuple[Any, ...]]]) -> None:
    assert set(compared) == set(SCENARIOS)
    seen = {
        kind: {
            name: (len(bodies), ended, roles) for name, by in compared.items() for bodies, ended, roles in [by[kind]]
        }
        for kind in ("mini_thin_model.ThinModel", "litellm")
    }
    # litellm has a name of its own for a fault of the server; mini does not look at it.
    for counts in seen.values():
        for name in ("many_faults", "forbidden"):
            counts[name] = (counts[name][0], "", counts[name][2])
    assert seen["mini_thin_model.ThinModel"] == seen["litellm"]
    for name, by_class in compared.items():
        assert by_class["mini_thin_model.ThinModel"][0] == by_class["litellm"][0], name
