"""The folder of an evaluation: it is of one thing, one program writes into it, and what has a verdict stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evaluate_helpers import make_task

from lego_verl.config import ConfigError
from lego_verl.evaluate.__main__ import main
from lego_verl.evaluate.kept import STEP, begin_or_go_on, held, open_folder, read_records
from lego_verl.evaluate.plan import plan
from lego_verl.evaluate.request import spelt_out
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.tasks.harbor import read_task
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import FinishedTrial, TrialRecord, write_trial


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return open_folder(tmp_path / "out")


def test_it_goes_on_with_more_and_not_with_other_things(run: RunFolder) -> None:
    begun = {"policy": {"model": "m"}, "runtime": {"a": "a-1"}}
    begin_or_go_on(run, begun)
    begin_or_go_on(run, {"policy": {"model": "m"}, "runtime": {"b": "b-1"}})
    begin_or_go_on(run, begun)
    for other, says in (
        ({"policy": {"model": "n"}}, "policy.model=m, and now it is n: name another folder"),
        ({"runtime": {"b": "b-2"}}, "runtime.b=b-1, and now it is b-2"),
    ):
        with pytest.raises(ConfigError, match=says):
            begin_or_go_on(run, other)


@pytest.mark.parametrize("content", ["", "[]", '{"policy": 3}'])
def test_a_file_that_is_none_is_said(run: RunFolder, content: str) -> None:
    (run.path / "evaluation.json").write_text(content)
    with pytest.raises(ConfigError, match="not what an evaluation writes: name another folder"):
        begin_or_go_on(run, {"policy": {"model": "m"}})


def test_one_at_a_time(run: RunFolder) -> None:
    with held(run), pytest.raises(ConfigError, match="another evaluation is writing into it"), held(run):
        pass
    with held(run):
        pass


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used: "):
        open_folder(tmp_path / "file")


def kept(run: RunFolder, name: str, outcome: Outcome, digest: str) -> None:
    record = TrialRecord(name, "mend", outcome, reward=1.0, versions={"task": digest})
    write_trial(run.trial(STEP, name), FinishedTrial(record))


def test_what_is_whole_and_of_the_task_as_it_is_counts(run: RunFolder, tmp_path: Path) -> None:
    task = make_task(tmp_path / "mend")
    planned = plan(["a"], [3], [task], repeat=4)
    kept(run, "a-3-mend-1", Outcome.SOLVED, task.digest)
    kept(run, "a-3-mend-2", Outcome.SOLVED, "another digest")
    kept(run, "a-3-mend-3", Outcome.SOLVED, task.digest)
    (run.trial(STEP, "a-3-mend-3") / "trial.json").write_text('{"trial": "a-3-me')
    run.trial(STEP, "a-3-mend-4").mkdir()
    assert list(read_records(run, planned)) == ["a-3-mend-1"]
    (task.tests / "test.sh").write_text("exit 1\n")
    assert read_records(run, plan(["a"], [3], [read_task(task.folder)], repeat=4)) == {}


def test_lists_may_be_written_with_commas(tmp_path: Path) -> None:
    make_task(tmp_path / "mend")
    assert spelt_out(["harness=a,b", "budgets=3,8", "only=x", "repeat=2", "harnesses=[a,b]", "out=a,b"]) == [
        *("harnesses=[a,b]", "budgets=[3,8]", "only=[x]", "repeat=2", "harnesses=[a,b]", "out=a,b"),
    ]
    assert spelt_out([f"tasks={tmp_path}"]) == ["tasks=harbor", f"lego.tasks.heldout='{tmp_path}'"]
    assert spelt_out(["tasks=toy"]) == ["tasks=toy"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["harness=kodex"], "harnesses: harness=kodex: there is no such harness; there are "),
        (["harness=mix"], "harness=mix: there is no such harness"),
        (["harness.options.model_class=thin"], "harnesses has no model_class"),
        (["harness.options.mini_swe_agent.model_class=fat"], "model_class=fat: mini_swe_agent has thin, litellm"),
        (["budgets=many"], "could not be converted to Integer"),
        (["split=trian"], "expected one of [heldout, train, all]"),
        (["only=nothing"], "only=nothing: there is no such task; there are apiary, "),
        (["tasks=harbor"], "split=heldout: there is no such task; name their folder, tasks=FOLDER"),
        (["policy=tiny"], "policy=tiny needs an engine: serve the checkpoint and take policy=endpoint"),
        (["policy=endpoint"], "policy.base_url"),
        (["policy.script=/nowhere.jsonl"], "/nowhere.jsonl cannot be read"),
        (["sandbox.backend=nothing"], "lego.sandbox.backend=nothing: there is no such sandbox"),
        (["repeet=2"], "did you mean repeat?"),
    ],
)
def test_what_cannot_be_is_one_plain_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([f"out={tmp_path}/out", *arguments]) == 2
    errors = capsys.readouterr().err
    assert says in errors
    assert errors.count("\n") == 1
    assert not list((tmp_path / "out").glob("trials/*/*"))


def test_a_server_that_is_not_there_is_said_before_any_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = ["policy=endpoint", "policy.base_url=http://127.0.0.1:9/v1", "policy.model=m", "policy.api_key=secret"]
    assert main([f"out={tmp_path}/out", *nowhere]) == 1
    assert "lego.policy.base_url=http://127.0.0.1:9/v1: nothing answers there" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("trials/*/*"))
    assert all("secret" not in path.read_text() for path in (tmp_path / "out").glob("*.*"))
    assert json.loads((tmp_path / "out/evaluation.json").read_text())["policy"] == {"kind": "endpoint", "model": "m"}


def test_a_task_without_a_solution_has_no_oracle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = make_task(tmp_path / "tasks/mend")
    assert task.solution is not None
    (task.solution / "solve.sh").unlink()
    arguments: list[Any] = [f"out={tmp_path}/out", f"tasks={tmp_path}/tasks"]
    assert main(arguments) == 2
    assert "there is no solution/solve.sh" in capsys.readouterr().err
