"""Whole actions: each is a parseable tool call, and its command does in a toy repository what its name says."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from lego_verl.capture.parser import HermesParser
from lego_verl.policies.tiny.actions import ToolForm, toy_actions
from lego_verl.policies.tiny.conversation import Conversation, as_messages
from lego_verl.policies.tiny.demonstrator import Demonstrator, Habits
from lego_verl.tasks.toy import make_toy_tasks
from lego_verl.tasks.toy.kinds import KINDS


@pytest.mark.parametrize("form", [ToolForm(), ToolForm("execute_bash", "cmd")])
def test_every_action_is_one_parseable_tool_call(form: ToolForm) -> None:
    actions = toy_actions(form)
    assert len(set(actions.tokens)) == len(actions.actions)
    for action, token in zip(actions.actions, actions.tokens, strict=True):
        parsed = HermesParser().parse(token)
        (call,) = parsed.calls
        assert call.name == form.tool
        assert json.loads(call.arguments) == {form.argument: action.command}
        assert actions.of_command(action.command) is action


def test_edits_do_what_their_kind_says(tmp_path: Path) -> None:
    task = make_toy_tasks(tmp_path / "toy").train[0]
    actions = toy_actions()
    for kind in KINDS:
        repository = tmp_path / kind.name
        shutil.copytree(task.environment / "repo", repository)
        before = {path: path.read_text() for path in repository.glob("src/*/*.py")}
        subprocess.run(actions.named(f"edit_{kind.name}").command, shell=True, cwd=repository, check=True)
        assert {path: path.read_text() for path in before} == {path: kind.repair(text) for path, text in before.items()}
        assert any(path.read_text() != text for path, text in before.items())


def test_looking_and_testing(tmp_path: Path) -> None:
    task = make_toy_tasks(tmp_path / "toy").train[0]
    actions = toy_actions()

    def run(name: str) -> str:
        command = actions.named(name).command
        done = subprocess.run(
            command, shell=True, cwd=task.environment / "repo", capture_output=True, text=True, check=True
        )
        return done.stdout

    assert "tests/test_basics.py" in run("list").splitlines()
    module = task.metadata["module"]
    assert run(f"show_{module}") == next(task.environment.glob(f"repo/src/*/{module}.py")).read_text()
    assert run("test") == "OK\n"
    assert run("submit") == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n"


def test_unknown_action_is_named() -> None:
    with pytest.raises(KeyError, match="there is no action dance"):
        toy_actions().named("dance")


def test_demonstrator_is_imperfect_and_ends(conversations: list[Conversation]) -> None:
    """At every point its probabilities sum to 1; the right edit is the likeliest, and likelier wrong than right."""
    actions = toy_actions()
    for conversation in conversations:
        demonstrator = Demonstrator(actions, conversation.kind, conversation.module)
        messages = as_messages(conversation.messages)
        names = []
        for turn, message in enumerate(messages):
            if message.role == "assistant":
                found = demonstrator.distribution(messages[:turn])
                assert sum(found.values()) == pytest.approx(1.0)
                action = actions.of_command(json.loads(message.tool_calls[0].arguments)["command"])
                assert action is not None
                assert action.name in found
                names.append(action.name)
                if f"show_{conversation.module}" in names[:-1] and not any(n.startswith("edit_") for n in names[:-1]):
                    edits = {name: share for name, share in found.items() if name.startswith("edit_")}
                    assert max(edits, key=edits.__getitem__) == f"edit_{conversation.kind}"
                    assert edits[f"edit_{conversation.kind}"] < 0.5
        assert names[-1] == "submit"


def test_demonstrator_reply_drives_a_scripted_policy() -> None:
    actions = toy_actions()
    demonstrator = Demonstrator(actions, "short_range", "labels", Habits(right_file=1.0, list_first=0.0))
    reply = demonstrator.reply([{"role": "user", "content": "x"}], random.Random(0))
    assert reply == {"tool_calls": [{"name": "bash", "arguments": {"command": "cat src/*/labels.py"}}]}
