"""Datasets in SWE-bench's columns become tasks; a row that cannot is named, with the column."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, typed
from lego_verl.consistency import check_consistency
from lego_verl.recipe_tasks import named_tasks, recipe_tasks
from lego_verl.taskcheck.convert import convert
from lego_verl.tasks.check import reference_patch
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.swebench import swebench_tasks
from lego_verl.tasks.swebench_options import OPTIONS, SwebenchOptions
from lego_verl.tasks.swebench_tests import END, START, split_script
from lego_verl.tasks.task import TaskError


def diff(path: str, line: str = "x") -> str:
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1,2 @@\n y\n+{line}\n"


def row(**more: object) -> dict[str, object]:
    return {
        "instance_id": "acme__calc-1",
        "repo": "acme/calc",
        "base_commit": "0" * 40,
        "problem_statement": "add() subtracts.\n",
        "hints_text": "",
        "patch": diff("calc.py"),
        "test_patch": diff("tests/test_calc.py") + diff("tests/data.json"),
        "FAIL_TO_PASS": '["tests/test_calc.py::test_add"]',
        "PASS_TO_PASS": '["tests/test_calc.py::test_zero", "tests/test_more.py::test_it", "calc.py::calc.add"]',
        "version": "1.0",
        **more,
    }


def write(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return str(path)


def said(tmp_path: Path, **more: object) -> dict[str, object]:
    """What the one task of a row has in its file, and the text of its scripts."""
    options = more.pop("options", None)
    assert options is None or isinstance(options, SwebenchOptions)
    task = swebench_tasks(write(tmp_path / "rows.jsonl", row(**more)), tmp_path / "tasks", options)[0]
    content: dict[str, object] = json.loads((task.tests / "swebench.json").read_text())
    return content | {
        "run": (task.tests / "run.sh").read_text(),
        "setup": (task.tests / "setup.sh").read_text(),
        "image": task.image,
    }


def test_a_row_is_a_task(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl", row(), row(instance_id="acme__calc-2"))
    first, second = swebench_tasks(source, tmp_path / "tasks")
    assert (first.name, second.name) == ("acme__calc-1", "acme__calc-2")
    assert first.instruction == "add() subtracts."
    assert (first.image, first.workdir) == ("sweb.eval.x86_64.acme__calc-1:latest", "/testbed")
    assert first.metadata == {"repo": "acme/calc", "base_commit": "0" * 40, "version": "1.0"}
    assert (first.verifier_timeout, first.memory_mb) == (1800.0, 8192)
    assert (first.tests / "test.patch").read_text() == row()["test_patch"]
    assert first.solution is not None
    assert (first.solution / "reference.patch").read_text() == row()["patch"]
    assert (first.solution / "solve.sh").read_text().endswith("cd /testbed\ngit apply /solution/reference.patch\n")
    content = json.loads((first.tests / "swebench.json").read_text())
    assert content["FAIL_TO_PASS"] == ["tests/test_calc.py::test_add"]
    # A doctest's file is what is to be mended.
    assert content["owned"] == ["tests/test_calc.py", "tests/test_more.py"]
    assert (first.tests / "run.sh").read_text() == "pytest -rA tests/test_calc.py\n"
    assert read_task(first.folder) == first


def test_a_row_without_a_reference_is_a_task_that_cannot_be_checked(tmp_path: Path) -> None:
    task = swebench_tasks(write(tmp_path / "rows.jsonl", row(patch=None)), tmp_path / "tasks")[0]
    assert task.solution is None
    with pytest.raises(TaskError, match=r"reference\.patch: is missing"):
        reference_patch(task)


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_patches_that_were_stripped_are_whole_again(tmp_path: Path, end: str) -> None:
    text = diff("tests/a.py").rstrip()
    binary = "diff --git a/b b/b\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91"
    made = swebench_tasks(
        write(tmp_path / "rows.jsonl", row(patch=text + end, test_patch=binary + end)), tmp_path / "a"
    )
    assert made[0].solution is not None
    assert (made[0].solution / "reference.patch").read_text() == text + (end or "\n")
    assert (made[0].tests / "test.patch").read_text() == f"{binary}\n\n"


def test_a_source_that_shrank_leaves_no_old_task(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    swebench_tasks(write(source, row(), row(instance_id="b")), tmp_path / "tasks")
    assert [task.name for task in swebench_tasks(write(source, row()), tmp_path / "tasks")] == ["acme__calc-1"]
    assert [path.name for path in (tmp_path / "tasks").iterdir()] == ["acme__calc-1"]
    (tmp_path / "tasks" / "mine").mkdir()
    (tmp_path / "tasks" / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(TaskError, match="not a task and is not overwritten"):
        swebench_tasks(str(source), tmp_path / "tasks")


def test_every_form_of_a_dataset_reads_the_same(tmp_path: Path) -> None:
    lists = row(FAIL_TO_PASS=["tests/test_calc.py::test_add"], PASS_TO_PASS=json.loads(str(row()["PASS_TO_PASS"])))
    pq.write_table(pa.Table.from_pylist([lists]), tmp_path / "rows.parquet")
    (tmp_path / "rows.json").write_text(json.dumps([row()]))
    folder = tmp_path / "snapshot" / "data"
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row()]), folder / "test-00000-of-00001.parquet")
    pq.write_table(pa.Table.from_pylist([row(instance_id="other")]), folder / "train-00000-of-00001.parquet")
    sources = ["rows.parquet", "rows.json", "snapshot", "rows.jsonl"]
    write(tmp_path / "rows.jsonl", row())
    digests = {
        name: [task.digest for task in swebench_tasks(str(tmp_path / name), tmp_path / f"of-{name}")]
        for name in sources
    }
    assert len({tuple(each) for each in digests.values()}) == 1, digests
    train = swebench_tasks(str(tmp_path / "snapshot"), tmp_path / "train", SwebenchOptions(split="train"))
    assert [task.name for task in train] == ["other"]
    again = swebench_tasks(str(tmp_path / "of-rows.json"), tmp_path / "unused")
    assert [task.digest for task in again] == digests["rows.json"]


def test_a_dataset_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def load(name: str, *, split: str) -> datasets.Dataset:
        asked.append((name, split))
        if split == "none":
            raise ValueError("Unknown split\nnone")
        return datasets.Dataset.from_list([row()])

    monkeypatch.setattr(datasets, "load_dataset", load)
    tasks = swebench_tasks("acme/tasks", tmp_path / "tasks", SwebenchOptions(split="train"))
    assert [task.name for task in tasks] == ["acme__calc-1"]
    assert asked == [("acme/tasks", "train")]
    with pytest.raises(TaskError, match=r"acme/tasks: cannot be had: Unknown split none$"):
        swebench_tasks("acme/tasks", tmp_path / "tasks", SwebenchOptions(split="none"))


def new_format(folder: Path, **more: object) -> Path:
    """A task as swebench 5 keeps it."""
    task = {"instance_id": folder.name, "repo": "acme/calc", "version": "1.0", "base_commit": "0" * 40}
    task |= {"split": "test", "image": "swebench/sweb.eval.x86_64.acme_1776_calc-1:latest"}
    task |= {"log_parser": "parse_log_pytest_v2", "eval_type": "pass_and_fail", **more}
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(yaml.safe_dump(task))
    (folder / "tests.json").write_text(json.dumps({"FAIL_TO_PASS": ["tests/test_a.py::t"], "PASS_TO_PASS": []}))
    (folder / "problem_statement.md").write_text("Mend it.\n")
    (folder / "gold.patch").write_text(diff("calc.py"))
    (folder / "test.patch").write_bytes(diff("tests/test_a.py", "caf\r").encode() + b"+\xff\n")
    (folder / "Dockerfile").write_text("FROM debian\nWORKDIR /testbed\n")
    (folder / "eval.sh").write_text(
        f"#!/bin/bash\nset -uxo pipefail\ncd /testbed\n: '{START}'\npytest -rA tests/test_a.py\n: '{END}'\ngit status\n"
    )
    return folder


@pytest.mark.parametrize("named", ["repo", "repo/tasks", "repo/tasks/acme__calc-1"])
def test_folders_of_swebench_5(tmp_path: Path, named: str) -> None:
    folder = new_format(tmp_path / "repo/tasks/acme__calc-1")
    task = swebench_tasks(str(tmp_path / named), tmp_path / "tasks")[0]
    assert (task.name, task.image) == (folder.name, "swebench/sweb.eval.x86_64.acme_1776_calc-1:latest")
    assert (task.tests / "run.sh").read_text() == "pytest -rA tests/test_a.py\n"
    assert (task.tests / "setup.sh").read_text() == "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n"
    assert (task.tests / "test.patch").read_bytes() == (folder / "test.patch").read_bytes()
    assert json.loads((task.tests / "swebench.json").read_text())["parser"] == "parse_log_pytest_v2"
    assert (task.environment / "Dockerfile").read_text() == "FROM debian\nWORKDIR /testbed\n"
    built = swebench_tasks(str(tmp_path / named), tmp_path / "built", SwebenchOptions(build=True))[0]
    assert built.image is None


def test_folders_of_swebench_5_that_cannot_be_read(tmp_path: Path) -> None:
    folder = new_format(tmp_path / "acme__calc-1")
    (folder / "tests.json").unlink()
    with pytest.raises(TaskError, match=r"tests\.json: is missing"):
        swebench_tasks(str(tmp_path), tmp_path / "tasks")
    (folder / "tests.json").write_text("{")
    with pytest.raises(TaskError, match="acme__calc-1: cannot be read"):
        swebench_tasks(str(tmp_path), tmp_path / "tasks")
    (folder / "tests.json").write_text("[]")
    with pytest.raises(TaskError, match="are to hold names with values"):
        swebench_tasks(str(tmp_path), tmp_path / "tasks")


@pytest.mark.parametrize(
    ("more", "run", "parser"),
    [
        (
            {"repo": "django/django", "version": "4.1"},
            "./tests/runtests.py --verbosity 2 --settings=test_sqlite --pa",
            "",
        ),
        ({"repo": "django/django", "version": "1.9"}, "./tests/runtests.py --verbosity 2 test_calc\n", ""),
        (
            {"repo": "sympy/sympy"},
            "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose t",
            "",
        ),
        (
            {"install_config": {"test_cmd": "pytest -x", "log_parser": "parse_log_pytest"}},
            "pytest -x tests/test_calc.py",
            "p",
        ),
        ({"install_config": '{"test_cmd": ["make", "pytest"]}'}, "make\npytest tests/test_calc.py\n", ""),
        (
            {"test_cmd": "nose {files} -v", "log_parser": "pytest_v2"},
            "nose tests/test_calc.py -v\n",
            "parse_log_pytest_v2",
        ),
        ({"test_patch": ""}, "pytest -rA tests/test_calc.py tests/test_more.py\n", ""),
        ({"test_patch": diff("tests/test b.py")}, "pytest -rA 'tests/test b.py'\n", ""),
        (
            {"test_patch": diff("t/b.py").replace("---", "deleted file mode 100644\n---") + diff("t/c.py")},
            "pytest -rA t/c.py\n",
            "",
        ),
        (
            {"test_patch": "diff --git a/t/a.py b/t/b.py\nrename from t/a.py\nrename to t/b.py\n"},
            "pytest -rA t/b.py\n",
            "",
        ),
        (
            {"options": SwebenchOptions(test_command="make {files}", log_parser="django")},
            "make tests/test_calc.py\n",
            "parse_log_d",
        ),
    ],
)
def test_how_tests_are_run(tmp_path: Path, more: dict[str, object], run: str, parser: str) -> None:
    found = said(tmp_path, **more)
    assert str(found["run"]).startswith(run)
    assert str(found["parser"]).startswith(parser)
    assert bool(found["parser"]) == bool(parser)


def test_what_runs_before_the_tests(tmp_path: Path) -> None:
    options = SwebenchOptions(setup="export A=1", workdir="/src/a b")
    setup = str(said(tmp_path, options=options)["setup"])
    assert "conda activate testbed" in setup
    assert setup.endswith("cd '/src/a b'\nexport A=1\n")
    assert "LC_ALL=C.UTF-8" in str(said(tmp_path, repo="django/django")["setup"])
    script = f"export B=1\n: '{START}'\nmake check\n: '{END}'\n"
    found = said(tmp_path, eval_script=script, options=options)
    assert (found["setup"], found["run"]) == ("export B=1\nexport A=1\n", "make check\n")
    over = said(tmp_path, eval_script=script, options=SwebenchOptions(test_command="tox"))
    assert over["run"] == "tox tests/test_calc.py\n"


@pytest.mark.parametrize(
    ("more", "image"),
    [
        ({"instance_id": "Acme__Calc-1"}, "sweb.eval.x86_64.acme__calc-1:latest"),
        ({"docker_image": "some/where:1"}, "some/where:1"),
        ({"image": "first", "docker_image": "second"}, "first"),
        ({"image_name": "third", "image": None, "docker_image": ""}, "third"),
        ({"image": "a", "options": SwebenchOptions(image="my/{id}:2")}, "my/acme__calc-1:2"),
        (
            {"options": SwebenchOptions(image="swebench/sweb.eval.x86_64.{id}:latest", image_dunder="_1776_")},
            "swebench/sweb.eval.x86_64.acme_1776_calc-1:latest",
        ),
    ],
)
def test_the_image(tmp_path: Path, more: dict[str, object], image: str) -> None:
    assert said(tmp_path, **more)["image"] == image


BAD = {
    "column instance_id: is missing or empty": {"instance_id": ""},
    "column instance_id: '../x' cannot be the name of a folder": {"instance_id": "../x"},
    "(acme__calc-1): column repo: is missing or empty": {"repo": None},
    "(acme__calc-1): column problem_statement: is missing": {"problem_statement": " "},
    "(acme__calc-1): column version: it is 3, not a text": {"version": 3},
    "(acme__calc-1): column FAIL_TO_PASS: is missing": {"FAIL_TO_PASS": None},
    "(acme__calc-1): column FAIL_TO_PASS: it is empty": {"FAIL_TO_PASS": "[]"},
    "(acme__calc-1): column FAIL_TO_PASS: 'a, b' is not JSON": {"FAIL_TO_PASS": "a, b"},
    "(acme__calc-1): column FAIL_TO_PASS: it is [1], not a list": {"FAIL_TO_PASS": [1]},
    "(acme__calc-1): column PASS_TO_PASS: it is {'a': 1}": {"PASS_TO_PASS": '{"a": 1}'},
    "(acme__calc-1): column patch: it is not a git patch": {"patch": "--- a\n+++ b\n"},
    "(acme__calc-1): column test_patch: it is not a git patch": {"test_patch": "x"},
    "(acme__calc-1): column test_patch: it is empty, and": {
        "test_patch": "",
        "FAIL_TO_PASS": ["a"],
        "PASS_TO_PASS": [],
    },
    "(acme__calc-1): column eval_script: it has no lines between": {"eval_script": "pytest\n"},
    "(acme__calc-1): column eval_type: 'some' is neither": {"eval_type": "some"},
    "(acme__calc-1): column log_parser: 'a b' is not": {"log_parser": "a b"},
    "(acme__calc-1): column install_config: 'x' is not JSON": {"install_config": "x"},
    "(acme__calc-1): column install_config: test_cmd is 3": {"install_config": {"test_cmd": 3}},
    "(acme__calc-1): column image_assets: tests with files": {"image_assets": '{"test_patch": [{"path": "a.png"}]}'},
    "(acme__calc-1): column docker_image: it is 3, not a text": {"docker_image": 3},
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_row_is_one_clear_line(tmp_path: Path, message: str) -> None:
    source = write(tmp_path / "rows.jsonl", row(instance_id="good"), row(**BAD[message]))
    with pytest.raises(TaskError) as caught:
        swebench_tasks(source, tmp_path / "tasks")
    text = str(caught.value)
    assert text.startswith(f"{source}: row 2")
    assert message in text
    assert "\n" not in text
    assert not (tmp_path / "tasks").exists()


def test_bad_sources(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"row 2 .*: column instance_id: it is that of .*row 1 as well"):
        swebench_tasks(write(tmp_path / "rows.jsonl", row(), row()), tmp_path / "tasks")
    with pytest.raises(TaskError, match="it has no row"):
        swebench_tasks(write(tmp_path / "rows.jsonl"), tmp_path / "tasks")
    with pytest.raises(TaskError, match="row 1: it is 3, not names with values"):
        swebench_tasks(write(tmp_path / "rows.jsonl", 3), tmp_path / "tasks")
    (tmp_path / "rows.json").write_text("3")
    with pytest.raises(TaskError, match="it is not a list of rows"):
        swebench_tasks(str(tmp_path / "rows.json"), tmp_path / "tasks")
    for name in ("rows.jsonl", "rows.parquet"):
        (tmp_path / name).write_text("{nonsense")
        with pytest.raises(TaskError, match=f"{name}: cannot be read"):
            swebench_tasks(str(tmp_path / name), tmp_path / "tasks")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match=r"holds neither tasks with a task\.yaml nor a file"):
        swebench_tasks(str(tmp_path / "empty"), tmp_path / "tasks")
    for name in ("nothing.jsonl", "nothing", "./no/where", "/no/where"):
        with pytest.raises(TaskError, match="there is no such file or folder"):
            swebench_tasks(name, tmp_path / "tasks")


def test_some_of_a_dataset(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl", row(), row(instance_id="b"))
    only = SwebenchOptions(only=["b"])
    assert [task.name for task in swebench_tasks(source, tmp_path / "tasks", only)] == ["b"]
    assert [task.name for task in swebench_tasks(str(tmp_path / "tasks"), tmp_path / "unused", only)] == ["b"]
    for where in (source, str(tmp_path / "tasks")):
        with pytest.raises(TaskError, match="none of c is in it"):
            swebench_tasks(where, tmp_path / "unused", SwebenchOptions(only=["c"]))


_TEXT = st.text(alphabet=st.characters(exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", codec="utf-8"))


@given(_TEXT, _TEXT, _TEXT)
def test_a_script_is_cut_where_the_markers_are(before: str, tests: str, after: str) -> None:
    if any(mark in part for mark in (START, END) for part in (before, tests, after)) or not tests:
        return
    script = f"{before}\n: '{START}'\n{tests}\n: '{END}'\n{after}"
    scripts = split_script(script)
    assert (scripts.setup, scripts.run) == (f"{before}\n", f"{tests}\n")


# --- the recipe and the verb


def test_the_recipe(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl", row(), row(instance_id="b"))
    heldout = write(tmp_path / "heldout.jsonl", row(instance_id="c"))
    config = compose_recipe(["tasks=swe_bench", f"tasks.train={source}", f"tasks.heldout={heldout}"])
    lego = typed(config)
    check_consistency(config, lego)
    train, held = recipe_tasks(lego, tmp_path / "tasks")
    assert ([task.name for task in train], [task.name for task in held]) == (["acme__calc-1", "b"], ["c"])
    assert train[0].folder == tmp_path / "tasks" / "train" / "acme__calc-1"
    assert [task.name for task in named_tasks("b", lego, tmp_path / "tasks")] == ["b"]
    assert [task.name for task in named_tasks(str(train[0].folder), lego, tmp_path / "tasks")] == ["acme__calc-1"]
    with pytest.raises(TaskError, match="task=d: there is no such task or folder; there are acme__calc-1, b, c"):
        named_tasks("d", lego, tmp_path / "tasks")


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["tasks.train=x.jsonl", "+tasks.options.split=3", "+tasks.options.only=[a]"], "there is no such file"),
        (["tasks.train=x.jsonl", "+tasks.options.colour=red"], r"lego\.tasks\.options\.colour"),
        (["tasks.train=x.jsonl", "+tasks.options.build=perhaps"], r"lego\.tasks\.options\.build"),
    ],
)
def test_recipes_that_cannot_be(tmp_path: Path, overrides: list[str], told: str) -> None:
    def tasks() -> None:
        recipe_tasks(typed(compose_recipe(["tasks=swe_bench", *overrides], config_name="trial")), tmp_path)

    with pytest.raises((ConfigError, TaskError), match=told) as caught:
        tasks()
    assert "\n" not in str(caught.value)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.swebench.find_spec", lambda name: None)
    overrides = ["tasks=swe_bench", f"tasks.train={write(tmp_path / 'rows.jsonl', row())}"]
    lego = typed(compose_recipe(overrides, config_name="trial"))
    with pytest.raises(ConfigError, match=r"pip install 'lego_verl\[swebench\]'"):
        recipe_tasks(lego, tmp_path / "tasks")


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "rows.jsonl", row())
    assert convert([f"source={source}", f"out={tmp_path / 'out'}", "image=my/{id}"]) == 0
    assert capsys.readouterr().out == f"1 tasks in {tmp_path / 'out'}\n"
    assert read_task(tmp_path / "out" / "acme__calc-1").image == "my/acme__calc-1"
    for arguments, told in (
        ([f"source={source}"], "convert takes source="),
        ([f"source={source}", "out=x", "colour=red"], "colour"),
        ([f"source={source}x", "out=x"], "there is no such file"),
        ([f"source={source}", f"out={source}"], "rows.jsonl"),
    ):
        assert convert(arguments) in (1, 2)
        errors = capsys.readouterr().err
        assert told in errors
        assert errors.count("\n") == 1
    assert convert(["--help"]) == 0
    usage = capsys.readouterr().out
    assert all(option in usage for option in OPTIONS)
    assert max(map(len, usage.splitlines())) <= 120
    done = subprocess.run([sys.executable, "-m", "lego_verl.tasks", "convert"], capture_output=True, check=False)
    assert done.returncode == 2
