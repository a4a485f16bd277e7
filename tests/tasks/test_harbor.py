"""The Harbor reader and writer: what is written is read again, and every bad task is one clear line."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_verl.tasks.harbor import load_tasks, read_task
from lego_verl.tasks.harbor_writer import TaskFiles, write_task
from lego_verl.tasks.task import TaskError

FILES = TaskFiles(
    instruction="Repair it.\n",
    environment={"Dockerfile": b"FROM scratch\nCOPY repo /work\nWORKDIR /work\n", "repo/a.txt": b"a"},
    tests={"test.sh": b"#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"},
    solution={"solve.sh": b"#!/bin/sh\n", "reference.patch": b"diff\n"},
    name="org/one",
    metadata={"difficulty": "easy", "odd key": 3, "tags": ["a", "b"]},
    agent_timeout=90.0,
    memory_mb=700,
)


@pytest.fixture
def task_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks" / "one"
    write_task(folder, FILES)
    return folder


def toml(folder: Path, text: str) -> None:
    (folder / "task.toml").write_text(text)


def test_written_is_read(task_folder: Path) -> None:
    task = read_task(task_folder)
    assert (task.name, task.instruction, task.workdir, task.image) == ("one", "Repair it.", "/work", None)
    assert (task.agent_timeout, task.verifier_timeout, task.memory_mb, task.storage_mb) == (90.0, 600.0, 700, 10240)
    assert task.metadata["difficulty"] == "easy"
    assert task.metadata["odd key"] == 3
    assert task.metadata["tags"] == ["a", "b"]
    assert task.solution == task_folder / "solution"
    assert (task.tests / "test.sh").stat().st_mode & 0o111


@settings(max_examples=40, deadline=None)
@given(
    instruction=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip),
    value=st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-(2**60), 2**60), st.booleans()),
    key=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12),
    seconds=st.floats(0.5, 1e6),
)
def test_round_trip(tmp_path_factory, instruction: str, value: object, key: str, seconds: float) -> None:
    folder = tmp_path_factory.mktemp("round") / "t"
    write_task(folder, replace(FILES, instruction=instruction, metadata={key: value}, agent_timeout=seconds))
    task = read_task(folder)
    assert task.instruction == instruction.strip()
    assert task.metadata[key] == value
    assert task.agent_timeout == seconds


def test_older_spellings_and_unknown_keys(task_folder: Path) -> None:
    toml(
        task_folder,
        'version = "1.0"\nsource = "x"\n[environment]\nmemory = "2G"\nstorage = "512M"\ncpus = 2\n'
        '[agent]\nuser = "a"\n',
    )
    task = read_task(task_folder)
    assert (task.memory_mb, task.storage_mb) == (2048, 512)
    assert task.metadata["task.toml"] == {"source": "x", "environment": {"cpus": 2}, "agent": {"user": "a"}}


@pytest.mark.parametrize(
    ("dockerfile", "workdir"),
    [
        ("FROM a\n", "/"),
        ("FROM a\nWORKDIR /x\nworkdir y/../z\n", "/x/z"),
        ("FROM a AS b\nWORKDIR /build\nFROM c\nWORKDIR app\n", "/app"),
        ('FROM a\n# WORKDIR /no\nWORKDIR "/q"\n', "/q"),
    ],
)
def test_workdir_of_the_dockerfile(task_folder: Path, dockerfile: str, workdir: str) -> None:
    (task_folder / "environment" / "Dockerfile").write_text(dockerfile)
    assert read_task(task_folder).workdir == workdir


def test_image_instead_of_dockerfile(task_folder: Path) -> None:
    (task_folder / "environment" / "Dockerfile").unlink()
    toml(task_folder, '[environment]\ndocker_image = "a/b:c"\nworkdir = "/app/"\n')
    task = read_task(task_folder)
    assert (task.image, task.workdir) == ("a/b:c", "/app")


def test_digest_sees_every_change(task_folder: Path) -> None:
    seen = {read_task(task_folder).digest}
    assert read_task(task_folder).digest in seen
    changes = [
        lambda: (task_folder / "tests" / "test.sh").write_text("exit 0\n"),
        lambda: (task_folder / "tests" / "test.sh").chmod(0o644),
        lambda: (task_folder / "environment" / "repo" / "a.txt").rename(task_folder / "environment" / "repo" / "b.txt"),
        lambda: (task_folder / "tests" / "link").symlink_to("x"),
        lambda: (task_folder / "instruction.md").write_text("Repair it!\n"),
    ]
    for change in changes:
        change()
        digest = read_task(task_folder).digest
        assert digest not in seen
        seen.add(digest)


BAD = {
    "tests/test.sh: is missing": lambda f: (f / "tests" / "test.sh").unlink(),
    "tests/test.sh: is empty": lambda f: (f / "tests" / "test.sh").write_text("\n"),
    "instruction.md: is empty": lambda f: (f / "instruction.md").write_text(" \n"),
    "instruction.md: is missing": lambda f: (f / "instruction.md").unlink(),
    "instruction.md: is not UTF-8": lambda f: (f / "instruction.md").write_bytes(b"\xff\xfe\xfa"),
    "task.toml: is not TOML": lambda f: toml(f, "[agent\n"),
    "task.toml: has schema_version 2.0": lambda f: toml(f, 'schema_version = "2.0"\n'),
    "task.toml: agent is 3, not a table": lambda f: toml(f, "agent = 3\n"),
    "task.toml: agent.timeout_sec is -1": lambda f: toml(f, "[agent]\ntimeout_sec = -1\n"),
    "task.toml: verifier.timeout_sec is True": lambda f: toml(f, "[verifier]\ntimeout_sec = true\n"),
    "task.toml: environment.memory is 'much'": lambda f: toml(f, '[environment]\nmemory = "much"\n'),
    "task.toml: environment.memory_mb is 0": lambda f: toml(f, "[environment]\nmemory_mb = 0\n"),
    "task.toml: environment.docker_image is 3": lambda f: toml(f, "[environment]\ndocker_image = 3\n"),
    "task.toml: environment.workdir is 'app'": lambda f: toml(f, '[environment]\nworkdir = "app"\n'),
    "task.toml: tasks of several steps": lambda f: toml(f, '[[steps]]\nname = "a"\n'),
    "environment/Dockerfile: is missing": lambda f: (f / "environment" / "Dockerfile").unlink(),
    "environment/Dockerfile: WORKDIR /$HOME has": lambda f: (f / "environment" / "Dockerfile").write_text(
        "FROM a\nWORKDIR $HOME\n"
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_task_is_one_clear_line(task_folder: Path, message: str) -> None:
    BAD[message](task_folder)
    with pytest.raises(TaskError) as caught:
        load_tasks(task_folder.parent)
    text = str(caught.value)
    assert text.startswith("task one: ")
    assert message in text
    assert "\n" not in text


def test_bad_folders(tmp_path: Path, task_folder: Path) -> None:
    with pytest.raises(TaskError, match="does not exist"):
        load_tasks(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="holds no task"):
        load_tasks(tmp_path / "empty")
    with pytest.raises(TaskError, match="is itself a task"):
        load_tasks(task_folder)
    with pytest.raises(TaskError, match="is missing"):
        read_task(tmp_path / "empty")


def test_writer_overwrites_only_tasks(tmp_path: Path, task_folder: Path) -> None:
    (task_folder / "environment" / "old").write_text("x")
    write_task(task_folder, FILES)
    assert not (task_folder / "environment" / "old").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(TaskError, match="choose another folder"):
        write_task(tmp_path / "mine", FILES)
    assert (tmp_path / "mine" / "thesis.txt").exists()
    with pytest.raises(TaskError, match="outside"):
        write_task(tmp_path / "new", replace(FILES, tests={"../../escape.sh": b""}))
    assert not (tmp_path / "escape.sh").exists()


def test_tasks_are_sorted(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write_task(tmp_path / name, FILES)
    assert [task.name for task in load_tasks(tmp_path)] == ["a", "b", "c"]
