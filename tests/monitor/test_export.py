"""What is exported: Harbor's trajectory form and the chat form, of solved trials, without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from monitor_run import TOOLS, capture, make_run

from lego_verl.capture.message import Message
from lego_verl.capture.record import read_recording, write_recording
from lego_verl.export.__main__ import main
from lego_verl.export.atif import atif_line
from lego_verl.export.chat import chat_lines
from lego_verl.export.redact import Redactor

ABOUT = {"trial": "t", "harness": "mini_swe_agent", "task": "bakery"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_atif(trajectory: dict[str, Any]) -> None:
    """The rules of ATIF 1.7, as harbor's own models hold a trajectory to them."""
    assert set(trajectory) <= {
        *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics"),
        *("continued_trajectory_ref", "extra", "subagent_trajectories"),
    }
    assert trajectory["schema_version"] == "ATIF-v1.7"
    assert set(trajectory["agent"]) <= {"name", "version", "model_name", "tool_definitions", "extra"}
    assert {"name", "version"} <= set(trajectory["agent"])
    assert [step["step_id"] for step in trajectory["steps"]] == list(range(1, len(trajectory["steps"]) + 1))
    for step in trajectory["steps"]:
        assert step["source"] in ("system", "user", "agent")
        assert isinstance(step["message"], str)
        assert set(step) <= {
            *("step_id", "source", "message", "reasoning_content", "tool_calls", "observation", "metrics"),
            *("is_copied_context", "llm_call_count", "extra"),
        }
        if step["source"] != "agent":
            assert not {"reasoning_content", "tool_calls", "metrics"} & set(step)
        ids = set()
        for call in step.get("tool_calls", ()):
            assert isinstance(call["arguments"], dict)
            assert set(call) <= {"tool_call_id", "function_name", "arguments", "extra"}
            ids.add(call["tool_call_id"])
        for result in step.get("observation", {"results": []})["results"]:
            assert result.get("source_call_id") in {None, *ids}
    inner = trajectory.get("subagent_trajectories", [])
    assert len({each["trajectory_id"] for each in inner}) == len(inner)
    for each in inner:
        check_atif(each)


def test_solved_trials_are_exported_as_trajectories(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert main([str(run.path), "--tokens"]) == 0
    written = lines(run.path / "export-atif.jsonl")
    assert len(written) == 6
    for each in written:
        check_atif(each)
        assert each["extra"]["outcome"] == "solved"
    sources = [step["source"] for step in written[0]["steps"]]
    assert sources == ["system", "user", "agent", "agent", "agent", "agent"]
    first = written[0]["steps"][2]
    assert first["tool_calls"][0]["arguments"] == {"command": "cat a.py"}
    assert first["observation"]["results"][0]["source_call_id"] == first["tool_calls"][0]["tool_call_id"]
    assert len(first["metrics"]["completion_token_ids"]) == first["metrics"]["completion_tokens"] > 0
    assert written[0]["final_metrics"]["total_steps"] == 6
    assert main([str(run.path), "--all", "--last-step", "1", "--out", str(tmp_path / "all")]) == 0
    assert len(lines(tmp_path / "all")) == 4


def test_the_chat_form_is_what_the_policy_saw(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=1)
    assert main([str(run.path), "--form", "chat", "--limit", "1"]) == 0
    (line,) = lines(run.path / "export-chat.jsonl")
    roles = [message["role"] for message in line["messages"]]
    assert roles == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
    assert line["messages"][2]["tool_calls"][0]["function"] == {"name": "bash", "arguments": '{"command": "cat a.py"}'}
    assert line["messages"][3]["tool_call_id"] == line["messages"][2]["tool_calls"][0]["id"]
    assert line["tools"] == list(TOOLS)
    assert line["metadata"]["task"] == "task1"


def test_a_rewritten_history_and_a_subagent(tmp_path: Path) -> None:
    from lego_verl.capture.message import Request

    session = capture("ls")
    replies = session.replies
    # The harness goes on from a summary; then it starts an agent of its own.
    compacted = (Message("system", "Be brief."), Message("user", "Fix it."), replies[0],
                 Message("user", "So far: nothing was found."))  # fmt: skip
    for request in (
        Request(compacted, TOOLS),
        Request((Message("user", "Look for tests."),), TOOLS, origin="subagent"),
        Request((Message("user", "A title?"),), (), origin="side_call"),
    ):
        prepared = session.prepare(request)
        sample = session.calls[0].sample
        session.commit(prepared, sample, seconds=0.1, mint=lambda: "call_later")
    write_recording(tmp_path, session)
    recording = read_recording(tmp_path)
    line = atif_line(recording, ABOUT)
    check_atif(line)
    assert [step["message"] for step in line["steps"] if step["source"] == "user"] == [
        "Fix it.",
        "So far: nothing was found.",
    ]
    assert len(line["subagent_trajectories"]) == 1
    assert line["extra"]["side_calls"] == 1
    chat = list(chat_lines(recording, ABOUT))
    assert len(chat) == 2
    weights = [message.get("weight", 1) for message in chat[1]["messages"] if message["role"] == "assistant"]
    assert weights == [0, 1]  # the first reply was sampled in another context, and stands there to be trained


def test_malformed_arguments_are_kept_beside(tmp_path: Path) -> None:
    session = capture("ls")
    call = session.replies[0].tool_calls[0]
    session.replies[0] = session.replies[0]._replace(tool_calls=(call._replace(arguments='{"command": "ls'),))
    write_recording(tmp_path, session)
    line = atif_line(read_recording(tmp_path), ABOUT)
    check_atif(line)
    calls = [call for step in line["steps"] for call in step.get("tool_calls", ())]
    assert calls[0]["arguments"] == {}
    assert calls[0]["extra"] == {"malformed_arguments": '{"command": "ls'}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("AKIA" + "ABCDEFGHIJKLMNOP", "cloud key"),
        ("ghp_" + "a1B2" * 9, "access token"),
        ("sk-" + "a1B2c3D4" * 4, "api key"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "private key"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4", "signed token"),
        ("Authorization: Bearer " + "abcdef0123456789" * 2, "credential"),
        ("git clone https://me:hunter2secret@host.example/x.git", "credential"),
        ("export API_KEY=Zx81kQ90pLm27vTT", "named value"),
        ('"client_secret": "9f8e7d6c5b4a39281706"', "named value"),
        ("it printed correct-horse-battery", "environment"),
    ],
)
def test_secrets_are_taken_out(text: str, what: str) -> None:
    redactor = Redactor({"MY_TOKEN": "correct-horse-battery", "HOME": "/root", "PATH_TOKEN": "/usr/bin/token"})
    clean = redactor.any({"a": [f"before {text} after"]})["a"][0]
    assert redactor.found == {what: 1}
    assert f"[redacted: {what}]" in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after") or what == "private key"


@pytest.mark.parametrize(
    "text",
    [
        "token = self.lexer.next_token()",
        "PASSWORD_FIELD = 'password'",
        "tokens=12345 secret santa",
        "https://host.example/path@v1",
        "assert api_key is None",
        "task-sk-1",
    ],
)
def test_code_stays_as_it_is(text: str) -> None:
    redactor = Redactor({})
    assert redactor.text(text) == text


def test_what_an_agent_printed_of_the_environment_is_redacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "swordfish-and-chips")
    run = make_run(tmp_path / "run", steps=1, output="SOME_SECRET=swordfish-and-chips")
    assert main([str(run.path)]) == 0
    assert b"swordfish" not in (run.path / "export-atif.jsonl").read_bytes()


def test_nothing_that_fits_and_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run", steps=1)
    assert main([str(run.path), "--task", "none"]) == 1
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
