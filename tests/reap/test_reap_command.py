"""``python -m lego_verl.reap`` on what is left here, dead and alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from lego_verl import training_process
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.reap import __main__ as command
from lego_verl.reap import find as find_module
from lego_verl.reap.__main__ import main
from lego_verl.training_process import TrainingProcess, run_scratches
from sandbox import local
from sandbox.leftover import Leftover
from sandbox.local import LocalBackend
from sandbox.orphans import identity, is_alive
from sandbox.sandbox import SandboxError
from sandbox.scratch import Scratch

Start = Callable[..., psutil.Process]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the scratch folders of these tests are: those of other runs of this machine are out of their reach."""
    monkeypatch.setattr(training_process, "scratch_root", lambda: tmp_path)
    monkeypatch.setattr(find_module, "LocalBackend", partial(LocalBackend, scratch=tmp_path / "sandboxes"))
    return tmp_path


@pytest.fixture
def alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For what asks for every dead run: the sandbox processes of others are not seen."""
    monkeypatch.setattr(local, "orphans", lambda _=None: [])
    return root


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, scratch: Path | None = None) -> psutil.Process:
        more = {} if scratch is None else {"LEGO_VERL_SCRATCH": str(scratch)}
        started.append(subprocess.Popen(words, executable="/bin/sleep", env={**os.environ, **more}))
        return psutil.Process(started[-1].pid)

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def gone() -> str:
    """The identity of a process that has ended."""
    process = subprocess.Popen(["sleep", "100"])
    name = identity(process.pid)
    process.kill()
    process.wait()
    return name


def scratch_of(root: Path, owner: str, run: Path | str) -> Path:
    folder = root / f"lego_verl-{owner.partition('-')[0]}-{uuid.uuid4().hex[:8]}"
    (folder / "ray/session").mkdir(parents=True)
    (folder / "owner").write_text(f"{owner}\n{run}\n")
    return folder


def sandbox_of(start: Start, owner: str, run: str) -> psutil.Process:
    return start(f"lego-sandbox {owner} {run} trial", "100")


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_dead_run_is_listed_then_removed_and_a_living_one_is_not_touched(
    alone: Path, start: Start, gone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dead, alive = scratch_of(alone, gone, "/runs/dead"), scratch_of(alone, identity(os.getpid()), "/runs/alive")
    theirs, ours = start("sleep", "100", scratch=dead), start("sleep", "100", scratch=alive)
    assert main(["--dry-run"]) == 1
    out = capsys.readouterr().out
    assert "2 things of 1 dead run would be removed" in out
    assert "/runs/alive" in next(line for line in out.splitlines() if line.startswith("left alone"))
    assert dead.exists()
    assert not ended(theirs)
    assert main([]) == 0
    assert "2 things of 1 dead run removed" in capsys.readouterr().out
    assert not dead.exists()
    assert ended(theirs)
    assert alive.exists()
    assert not ended(ours)
    assert main(["--all-dead"]) == 0
    assert "nothing of dead runs is left" in capsys.readouterr().out


def test_a_process_that_outlived_its_scratch_folder_is_found(alone: Path, start: Start, gone: str) -> None:
    orphan = start("sleep", "100", scratch=alone / f"lego_verl-{gone.partition('-')[0]}-aaaa")
    elsewhere = start("sleep", "100", scratch=alone / "of-somebody-else")
    assert main([]) == 0
    assert ended(orphan)
    assert not ended(elsewhere)


def test_a_process_number_used_again_does_not_keep_a_dead_run(alone: Path) -> None:
    dead = scratch_of(alone, f"{os.getpid()}-1", "/runs/dead")
    assert main([]) == 0
    assert not dead.exists()


def test_one_run_by_its_folder_and_no_other(root: Path, gone: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs may have one name in different folders."""
    name = f"run-{uuid.uuid4().hex[:8]}"
    runs = [RunFolder(root / parent / name) for parent in ("here", "there")]
    scratches = []
    for run in runs:
        run.create()
        scratches.append(scratch_of(root, gone, run.path))
    other = scratch_of(root, gone, "/runs/other")
    assert main([str(runs[0].path)]) == 0
    assert not scratches[0].exists()
    assert scratches[1].exists()
    assert other.exists()
    assert runs[0].trials.exists()
    assert main([str(runs[0].path)]) == 0
    assert "nothing of dead runs is left" in capsys.readouterr().out


def test_sandboxes_of_a_run_whose_starter_is_gone(root: Path, start: Start, gone: str) -> None:
    run = f"run-{uuid.uuid4().hex[:8]}"
    orphan, of_its_demonstrations = sandbox_of(start, gone, run), sandbox_of(start, gone, f"{run}-demonstrations")
    mine, others = sandbox_of(start, identity(os.getpid()), run), sandbox_of(start, gone, f"{run}0")
    assert main([run]) == 0
    assert ended(orphan)
    assert ended(of_its_demonstrations)
    assert not ended(mine)
    assert not ended(others)


def test_folders_of_sandboxes_of_a_killed_driver(alone: Path) -> None:
    mine = Scratch(alone / "sandboxes").folder("mine", "trial")
    script = "import sys; from pathlib import Path; from sandbox.scratch import Scratch; s = Scratch(Path(sys.argv[1]))"
    script += "; s.folder('theirs', 'a'); s.folder('theirs', 'b'); s.folder('mine', 'c')"
    subprocess.run([sys.executable, "-c", script, str(alone / "sandboxes")], check=True)
    assert main(["theirs", "--dry-run"]) == 1
    assert main([]) == 0
    assert [path.name for path in (alone / "sandboxes").iterdir()] == ["mine"]
    assert mine.exists()


def test_what_cannot_be_removed_stays_and_is_told(
    alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed: list[str] = []

    async def refuse() -> None:
        raise PermissionError(1, "another user's")

    async def take() -> None:
        removed.append("taken")

    class Remote:
        name = "remote"

        async def left(self, run: str | None = None) -> list[Leftover]:
            found = [Leftover("container", "c1", "far", refuse), Leftover("container", "c2", "far", take)]
            return found[:1] if removed else found

    class Silent:
        name = "silent"

        async def reap(self, run: str | None = None) -> int:
            assert run is None  # of one run it would also take what is alive
            return 3

    class Broken:
        name = "broken"

        async def left(self, run: str | None = None) -> list[Leftover]:
            raise SandboxError("its daemon went away")

    async def backends() -> tuple[list[object], list[str]]:
        return [Remote(), Silent(), Broken()], ["moon: it does not answer"]

    monkeypatch.setattr(command, "open_backends", backends)
    assert main([]) == 1
    out = capsys.readouterr().out
    assert removed == ["taken"]
    assert "stays: another user's" in out
    assert "1 thing of 1 dead run removed; 1 could not be" in out
    assert "not looked at: moon: it does not answer" in out
    assert "silent: 3 more removed" in out
    assert "not looked at: broken: its daemon went away" in out
    assert main(["far"]) == 1
    assert "not looked at: silent: it can only remove what all dead runs left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["nobody-here"], "there is no such run"), (["x", "--all-dead"], "give one of them"), ([""], "not the name")],
)
def test_a_wrong_argument(root: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("lego_verl: ")
    assert says in error
    assert error.count("\n") == 1


def test_a_run_says_whose_its_scratch_folder_is(root: Path) -> None:
    run = RunFolder(root / "runs/mine")
    run.create()
    with TrainingProcess(run, use_cpu=True):
        (scratch,) = run_scratches()
        assert (scratch.alive, scratch.run, scratch.pid) == (True, str(run.path.resolve()), os.getpid())
        assert [process.ppid() for process in scratch.processes] == [os.getpid()]
    assert run_scratches() == []


def test_a_process_that_has_ended_and_was_not_waited_for_is_not_alive() -> None:
    process = subprocess.Popen(["sleep", "100"])
    name = identity(process.pid)
    assert is_alive(name)
    process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not is_alive(name)
    process.wait()


def test_help_names_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n  {code} " in out for code in (0, 1, 2, 130))
