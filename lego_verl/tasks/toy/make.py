"""Puts toy repositories together and writes them as Harbor tasks. Deterministic: the same seed, the same bytes."""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lego_verl.tasks.harbor import load_tasks
from lego_verl.tasks.harbor_writer import TaskFiles, remove_task, write_task
from lego_verl.tasks.task import Task
from lego_verl.tasks.toy import wording
from lego_verl.tasks.toy.fillers import FILLERS
from lego_verl.tasks.toy.git_repository import git_folder
from lego_verl.tasks.toy.kinds import KINDS
from lego_verl.tasks.toy.snippet import Kind, Snippet
from sandbox import questions

_DOCKERFILE = "FROM python:3.11\nCOPY repo /testbed\nWORKDIR /testbed\n"
_SOLVE = "#!/bin/sh\nset -e\ncd /testbed\ngit apply /solution/reference.patch\n"
_TEST = """#!/bin/sh
# The repository's code is asked for values, in a process that does not know the right ones: see questions.py.
mkdir -p /logs/verifier
if python3 -I -B "$(dirname "$0")/questions.py" /testbed; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


@dataclass(frozen=True)
class ToyTasks:
    """Tasks to train on, and tasks of other repositories to see whether what was learned carries over."""

    train: list[Task]
    heldout: list[Task]


@dataclass(frozen=True)
class _Module:
    name: str
    snippets: tuple[Snippet, ...]

    def source(self, repaired: Kind | None = None) -> str:
        body = "\n\n".join(snippet.code for snippet in self.snippets)
        return repaired.repair(body) if repaired else body


def make_toy_tasks(folder: Path, *, seed: int = 0) -> ToyTasks:
    """Write 32 tasks to ``folder/train`` and 8 to ``folder/heldout``, in Harbor's layout, and read them.

    Both folders are replaced; ``TaskError`` when something that is not a task stands in one of them.

    In each repository one of four kinds of bug is planted in one of four modules, and every other module has a
    function that the repairs of the other kinds would break. ``metadata`` of a task names ``kind`` and ``module``.
    """
    rng = random.Random(f"toy tasks {seed}")
    train = [(kind, bug) for kind in KINDS for bug in kind.bugs]
    heldout = [(kind, bug) for kind in KINDS for bug in kind.heldout_bugs]
    _write_split(folder / "train", train, wording.TRAIN_PACKAGES, wording.TRAIN_REPORTS, rng, heldout=False)
    _write_split(folder / "heldout", heldout, wording.HELDOUT_PACKAGES, wording.HELDOUT_REPORTS, rng, heldout=True)
    return ToyTasks(load_tasks(folder / "train"), load_tasks(folder / "heldout"))


def _write_split(
    folder: Path,
    bugs: Sequence[tuple[Kind, Snippet]],
    packages: Sequence[str],
    reports: Sequence[str],
    rng: random.Random,
    *,
    heldout: bool,
) -> None:
    for old in folder.iterdir() if folder.is_dir() else ():
        remove_task(old)
    names = rng.sample(packages, len(bugs))
    # The bug's module goes round all names, so that no kind of bug belongs to one of them.
    offset = rng.randrange(len(wording.MODULES))
    for index, (kind, bug) in enumerate(bugs):
        module = wording.MODULES[(offset + index + index // len(KINDS)) % len(wording.MODULES)]
        report = reports[index % len(reports)]
        files = _task(names[index], kind, bug, module, report, rng, heldout=heldout)
        write_task(folder / names[index], files)


def _task(
    package: str, kind: Kind, bug: Snippet, module: str, report: str, rng: random.Random, *, heldout: bool
) -> TaskFiles:
    others = [other for other in KINDS if other is not kind]
    traps = [rng.choice(other.heldout_traps if heldout else other.traps) for other in others]
    names = rng.sample([name for name in wording.MODULES if name != module], len(traps))
    fillers = rng.sample(FILLERS, len(KINDS))
    planted = _Module(module, _ordered(rng, bug, fillers[0]))
    modules = [planted] + [
        _Module(name, _ordered(rng, trap, filler)) for name, trap, filler in zip(names, traps, fillers[1:], strict=True)
    ]
    modules.sort(key=lambda one: one.name)
    repository = _repository(package, modules)
    path = f"src/{package}/{module}.py"
    return TaskFiles(
        instruction=wording.write_report(report, symptom=bug.symptom, module=module, package=package),
        environment={"Dockerfile": _DOCKERFILE.encode()} | {f"repo/{name}": data for name, data in repository.items()},
        tests={
            "test.sh": _TEST.encode(),
            questions.FILE: _questions(package, modules).encode(),
            "questions.py": Path(questions.__file__).read_bytes(),
        },
        solution={
            "solve.sh": _SOLVE.encode(),
            "reference.patch": _patch(path, planted.source(), planted.source(kind)).encode(),
        },
        name=f"toy/{package}",
        metadata={"kind": kind.name, "module": module, "split": "heldout" if heldout else "train"},
        agent_timeout=60.0,
        verifier_timeout=30.0,
        memory_mb=512,
        storage_mb=64,
    )


def _ordered(rng: random.Random, snippet: Snippet, filler: Snippet) -> tuple[Snippet, ...]:
    pair = [snippet, filler]
    rng.shuffle(pair)
    return tuple(pair)


def _repository(package: str, modules: Sequence[_Module]) -> dict[str, bytes]:
    files = {
        "README.md": f"# {package}\n\nTests: `PYTHONPATH=src python3 -m unittest discover -s tests`\n",
        ".gitignore": "__pycache__/\n",
        f"src/{package}/__init__.py": "",
        "tests/test_basics.py": _visible_tests(package, modules),
    }
    files |= {f"src/{package}/{module.name}.py": module.source() for module in modules}
    contents = {path: text.encode() for path, text in files.items()}
    return contents | git_folder(contents, f"{package}: first version")


def _imports(package: str, modules: Sequence[_Module]) -> str:
    return "".join(
        f"from {package}.{module.name} import {', '.join(sorted(s.function for s in module.snippets))}\n"
        for module in modules
    )


def _cases(modules: Sequence[_Module]) -> str:
    lines = []
    for module in modules:
        for snippet in module.snippets:
            lines.append(f"    def test_{snippet.function}(self):\n")
            lines += [f"        self.assertEqual({expression}, {value!r})\n" for expression, value in snippet.weak]
            lines.append("\n")
    return "".join(lines)


def _visible_tests(package: str, modules: Sequence[_Module]) -> str:
    return (
        f"import unittest\n\n{_imports(package, modules)}\n\nclass Basics(unittest.TestCase):\n"
        f"{_cases(modules)}\nif __name__ == '__main__':\n    unittest.main()\n"
    )


def _questions(package: str, modules: Sequence[_Module]) -> str:
    """The hidden tests: expressions, and what they must be (see ``sandbox.questions``)."""
    pairs = [
        [expression, repr(value)]
        for module in modules
        for snippet in module.snippets
        for expression, value in snippet.weak + snippet.strong
    ]
    content = {"path": ["src"], "imports": _imports(package, modules).splitlines(), "questions": pairs}
    return json.dumps(content, indent=1) + "\n"


def _patch(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return f"diff --git a/{path} b/{path}\n" + "".join(lines)
