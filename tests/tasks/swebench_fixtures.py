"""A small real repository as a row of a dataset in SWE-bench's columns, and patches that try their luck with it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path

ID = "acme__calc-1"
_VENDORED = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
_LEXERS = ("__init__", "_mapping", "python", "diff", "special", "_tzdata", "unicode")
DOCKERFILE = """\
FROM debian:12
ENV PYTHONPATH=/opt/site
COPY site/ /opt/site/
WORKDIR /testbed
COPY repo/ /testbed/
"""
_CALC = '''\
"""Arithmetic."""

CASES = [1, 2]


def add(a, b):
    return a - b


def zero():
    return 0
'''
_TESTS = """\
import calc
import pytest


def test_zero():
    assert calc.zero() == 0


@pytest.mark.parametrize("case", calc.CASES)
def test_case(case):
    assert case in (1, 2, 3)
"""
_NEW_TEST = """

def test_add():
    assert calc.add(2, 2) == 4
"""
F2P = ["tests/test_calc.py::test_add"]
P2P = ["tests/test_calc.py::test_zero", "tests/test_calc.py::test_case[1]", "tests/test_calc.py::test_case[2]"]
_EVAL = """\
#!/bin/bash
set -uxo pipefail
cd /testbed
git -c core.fileMode=false diff
export WHERE=tests
git checkout HEAD tests/test_calc.py
git apply -v - <<'EOF_1'
{test_patch}
EOF_1
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider $WHERE/test_calc.py
: '>>>>> End Test Output'
git checkout HEAD tests/test_calc.py
"""


_UNIT_TESTS = """\
import unittest

import calc


class Calculating(unittest.TestCase):
    def test_zero(self):
        \"\"\"Zero is nothing\"\"\"
        assert calc.zero() == 0
"""
_NEW_UNIT_TEST = """\

    def test_add(self):
        \"\"\"Two and two are four\"\"\"
        self.assertEqual(calc.add(2, 2), 4)
"""


def git(folder: Path, *arguments: str) -> str:
    """git with an identity and nobody's configuration."""
    who = {f"GIT_{who}_{what}": "someone@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **who}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


class Repository:
    """The repository, and patches against it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        (folder / "tests").mkdir(parents=True)
        (folder / "calc.py").write_text(_CALC)
        (folder / "tests" / "test_calc.py").write_text(_TESTS)
        (folder / "tests" / "test_unit.py").write_text(_UNIT_TESTS)
        (folder / ".gitignore").write_text("__pycache__/\n")
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "base")
        self.test_patch = self.patch({"tests/test_calc.py": _TESTS + _NEW_TEST}).decode()

    def patch(self, files: Mapping[str, str | None], links: Mapping[str, str] | None = None) -> bytes:
        """What changes the files so (None: deleted), with symbolic links in the place of what was there."""
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_text(content)
        for name, target in (links or {}).items():
            shutil.rmtree(self.path / name)
            (self.path / name).symlink_to(target)
        git(self.path, "add", "-A")
        found = git(self.path, "diff", "--cached", "--binary")
        git(self.path, "reset", "-q", "--hard")
        return f"{found}\n".encode()

    def calc(
        self, *, body: str = "return a + b", top: str = "", zero: str = "return 0", cases: str = "[1, 2]"
    ) -> bytes:
        """A patch of the module under test."""
        add = f"def add(a, b):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
        head = '"""Arithmetic."""' + (f"\n{top}" if top else "")
        return self.patch({"calc.py": f"{head}\n\nCASES = {cases}\n\n\n{add}\n\ndef zero():\n    {zero}\n"})

    def classic_row(self) -> dict[str, object]:
        """A row that does not say how tests are run; they are unittest's."""
        test_patch = self.patch({"tests/test_unit.py": _UNIT_TESTS + _NEW_UNIT_TEST}).decode()
        added = ("eval_script", "log_parser", "eval_type")
        row = {key: value for key, value in self.row().items() if key not in added}
        return row | {
            "instance_id": "acme__calc-2",
            "test_patch": test_patch,
            "FAIL_TO_PASS": '["Two and two are four"]',
            "PASS_TO_PASS": '["Zero is nothing"]',
        }

    def bare_row(self) -> dict[str, object]:
        """The same, and its script leaves it to the grader to put the tests in place."""
        row = self.row()
        script = str(row["eval_script"])
        begins, ends = script.index("git checkout"), script.index("EOF_1\n:") + len("EOF_1\n")
        return row | {"eval_script": script[:begins] + script[ends:]}

    def row(self) -> dict[str, object]:
        """A row of swebench 5's; its tests are pytest's."""
        return {
            "instance_id": ID,
            "repo": "acme/calc",
            "base_commit": git(self.path, "rev-parse", "HEAD"),
            "problem_statement": "add() subtracts.",
            "patch": self.calc().decode(),
            "test_patch": self.test_patch,
            "FAIL_TO_PASS": F2P,
            "PASS_TO_PASS": P2P,
            "version": "1.0",
            "eval_script": _EVAL.format(test_patch=self.test_patch.rstrip()),
            "log_parser": "parse_log_pytest",
            "eval_type": "pass_and_fail",
        }


def environment(folder: Path, repository: Repository) -> Path:
    """A folder that its image is made of: the repository, and pytest, which this machine's /usr may not have."""
    shutil.copytree(repository.path, folder / "repo")
    (folder / "site").mkdir()
    for name in _VENDORED:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, folder / "site" / name, ignore=_ignored)
        else:
            shutil.copy(origin, folder / "site")
    for name in ("pytest", "pluggy"):  # they look for themselves
        said = importlib.metadata.distribution(name)
        found = folder / "site" / f"{name}-{said.version}.dist-info"
        found.mkdir()
        (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {said.version}\n")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    return folder


def _ignored(folder: str, names: list[str]) -> list[str]:
    if folder.endswith("pygments/lexers"):
        return [name for name in names if name.removesuffix(".py") not in _LEXERS]
    return [name for name in names if name == "__pycache__"]


FORGED = "".join(f"PASSED {name}\\n" for name in [*F2P, *P2P])
AT_EXIT = f"""
import atexit, os
atexit.register(lambda: os.write(1, b"{FORGED}"))
"""
AT_EXIT_WITH_SUCCESS = f"""
import atexit, os
atexit.register(lambda: (os.write(1, b"{FORGED}"), os._exit(0)))
"""
MARKERS = f"""
import os
for fd in range(1, 20):
    try:
        os.write(fd, b">>>>> Start Test Output\\n{FORGED}>>>>> End Test Output\\n>>>>> Test Exit Code: 0\\n")
    except OSError:
        pass
"""
NOISE = """
import os
for fd in range(3, 20):
    try:
        os.write(fd, b"x" * 5000)
    except OSError:
        pass
"""
INSTEAD_OF_THE_RUNNER = f"""
import os
for fd in range(3, 20):
    try:
        os.write(fd, b"{FORGED}")
    except OSError:
        pass
os._exit(0)
"""
"""What remains: the runner's words in the runner's place."""
