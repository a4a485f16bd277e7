"""Whole actions: each is a parseable tool call, and its command does in a toy repository what its name says."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from harness_adapters.adapter import ShellTool, ToolUse
from harness_adapters.mini_swe_agent import MiniSweAgent
from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.parser import HermesParser
from lego_verl.policies.tiny.actions import Action, toy_actions
from lego_verl.policies.tiny.conversation import Conversation, as_messages
from lego_verl.policies.tiny.demonstrator import Demonstrator, Habits
from lego_verl.tasks.toy import make_toy_tasks
from lego_verl.tasks.toy.kinds import KINDS

MINI = MiniSweAgent.shell
FORMS = [
    MINI,
    ShellTool("shell", "cmd", {"why": "to look"}, done="All is well."),
    ShellTool("terminal", done=ToolUse("finish", {"message": "mended"})),
]


def message_of(token: str) -> Message:
    """A turn as the proxy reads it from the policy's text."""
    parsed = HermesParser().parse(token)
    calls = tuple(ToolCall("call_1", call.name, call.arguments) for call in parsed.calls)
    return Message("assistant", parsed.text, tool_calls=calls)


@pytest.mark.parametrize("shell", FORMS)
def test_every_action_is_read_back_as_itself(shell: ShellTool) -> None:
    actions = toy_actions(shell)
    assert len(set(actions.tokens)) == len(actions.actions)
    for action, token in zip(actions.actions, actions.tokens, strict=True):
        message = message_of(token)
        assert actions.of_message(message) is action
        if isinstance(action.turn, ToolUse):
            (call,) = message.tool_calls
            assert (call.name, json.loads(call.arguments)) == (action.turn.name, dict(action.turn.arguments))


@pytest.mark.parametrize("shell", FORMS)
def test_an_echo_may_be_spelled_otherwise(shell: ShellTool) -> None:
    actions = toy_actions(shell)
    for action in actions.actions:
        if isinstance(action.turn, ToolUse):
            echoed = json.dumps({"timeout": 5, **action.turn.arguments}, separators=(",", ":"))
            assert (
                actions.of_message(Message("assistant", "", tool_calls=(ToolCall("x", action.turn.name, echoed),)))
                is action
            )
    for other in (ToolCall("x", "dance", "{}"), ToolCall("x", shell.name, '{"cut'), ToolCall("x", shell.name, "[]")):
        assert actions.of_message(Message("assistant", "", tool_calls=(other,))) is None
    assert actions.of_message(Message("assistant", "I wonder.")) is None


def command(action: Action) -> str:
    assert isinstance(action.turn, ToolUse)
    return str(action.turn.arguments["command"])


def test_edits_do_what_their_kind_says(tmp_path: Path) -> None:
    task = make_toy_tasks(tmp_path / "toy").train[0]
    actions = toy_actions(MINI)
    for kind in KINDS:
        repository = tmp_path / kind.name
        shutil.copytree(task.environment / "repo", repository)
        before = {path: path.read_text() for path in repository.glob("src/*/*.py")}
        subprocess.run(command(actions.named(f"edit_{kind.name}")), shell=True, cwd=repository, check=True)
        assert {path: path.read_text() for path in before} == {path: kind.repair(text) for path, text in before.items()}
        assert any(path.read_text() != text for path, text in before.items())


def test_looking_and_testing(tmp_path: Path) -> None:
    task = make_toy_tasks(tmp_path / "toy").train[0]
    actions = toy_actions(MINI)

    def run(name: str) -> str:
        done = subprocess.run(
            command(actions.named(name)),
            shell=True,
            cwd=task.environment / "repo",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert "tests/test_basics.py" in run("list").splitlines()
    module = task.metadata["module"]
    assert run(f"show_{module}") == next(task.environment.glob(f"repo/src/*/{module}.py")).read_text()
    assert run("test") == "OK\n"
    assert run("submit") == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n"


def test_unknown_action_is_named() -> None:
    with pytest.raises(KeyError, match="there is no action dance"):
        toy_actions(MINI).named("dance")


def test_demonstrator_is_imperfect_and_ends(conversations: list[Conversation]) -> None:
    """At every point its probabilities sum to 1; the right edit is the likeliest, and likelier wrong than right."""
    actions = toy_actions(MINI)
    for conversation in conversations:
        demonstrator = Demonstrator(actions, conversation.kind, conversation.module)
        messages = as_messages(conversation.messages)
        names = []
        for turn, message in enumerate(messages):
            if message.role == "assistant":
                found = demonstrator.distribution(messages[:turn])
                assert sum(found.values()) == pytest.approx(1.0)
                action = actions.of_message(message)
                assert action is not None
                assert action.name in found
                names.append(action.name)
                if f"show_{conversation.module}" in names[:-1] and not any(n.startswith("edit_") for n in names[:-1]):
                    edits = {name: share for name, share in found.items() if name.startswith("edit_")}
                    assert max(edits, key=edits.__getitem__) == f"edit_{conversation.kind}"
                    assert edits[f"edit_{conversation.kind}"] < 0.5
        assert names[-1] == "submit"


def test_the_demonstrator_acts_with_the_tool_of_the_harness() -> None:
    for shell in FORMS:
        demonstrator = Demonstrator(toy_actions(shell), "short_range", "labels", Habits(right_file=1.0, list_first=0.0))
        action = demonstrator.act([{"role": "user", "content": "x"}], random.Random(0))
        assert action.turn == shell.run("cat src/*/labels.py")
