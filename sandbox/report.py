"""What tests have to say for a task to be solved: ``swebench.json`` in a task's folder of tests.

SWE-bench's way to judge: a script brings the repository into shape (``setup.sh``), the tests' own files are put in
place (``test.patch`` says how they differ from the base), a command runs them (``run.sh``), and what it prints is read
by the parser of swebench that knows this kind of report. All of that stays on the host but for what has to run::

    {"repo": "django/django", "version": "4.1", "parser": "parse_log_django", "eval_type": "pass_and_fail",
     "FAIL_TO_PASS": ["test_a (tests.A)", …], "PASS_TO_PASS": […], "owned": ["tests/data.json", …]}

All but the first list may be missing. The parser is then the repository's, or pytest's where swebench does not know
the repository. Files in ``files/`` beside it are put in place whole, where a task has them instead of a patch.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.signs import paths_of

FILE = "swebench.json"
SETUP, RUN, PATCH, FILES = "setup.sh", "run.sh", "test.patch", "files"
EVAL_TYPES = ("", "pass_and_fail", "fail_only")
_WORDS = ("repo", "version", "parser", "eval_type")
_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS", "owned")


@dataclass(frozen=True)
class Report:
    """How a task's tests are run, and what their report has to say."""

    run: bytes
    """A bash script; what it prints is the report, its exit code the tests'."""
    setup: bytes
    """A bash script that runs before it, in the same shell as far as variables, options and the folder go."""
    test_patch: bytes
    files: Mapping[str, bytes]
    """Whole files of the tests, by their paths in the repository; they outrank the patch."""
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    owned: tuple[str, ...]
    """Files of the repository that belong to the tests: what is done to them counts for nothing. With those of
    the patch and the whole ones."""
    repo: str = ""
    version: str = ""
    parser: str = ""
    """A name in swebench's registry; empty: the repository's parser, else pytest's."""
    eval_type: str = ""


def read_report(folder: Path) -> Report:
    """The report that a folder of tests asks for.

    Raises:
        ValueError: in one line, when its files do not say one.
        OSError: when they cannot be read.
    """
    content = json.loads((folder / FILE).read_text())
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    words = {key: content.get(key, "") for key in _WORDS}
    lists = {key: content.get(key, []) for key in _LISTS}
    for key, word in words.items():
        if not isinstance(word, str):
            raise ValueError(f"{key} is {word!r}, not a text")
    for key, names in lists.items():
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise ValueError(f"{key} is not a list of texts")
    if not lists["FAIL_TO_PASS"]:
        raise ValueError("FAIL_TO_PASS is empty: nothing would tell a solution")
    if words["eval_type"] not in EVAL_TYPES:
        raise ValueError(f"eval_type is {words['eval_type']!r}; it is {' or '.join(EVAL_TYPES[1:])}")
    for path in lists["owned"]:
        if not is_inside(path):
            raise ValueError(f"owned has {path!r}, which is no path inside the repository")
    run = _file(folder, RUN)
    if not run.strip():
        raise ValueError(f"{RUN} beside it is missing or empty: it is what runs the tests")
    patch = _file(folder, PATCH)
    files = _whole_files(folder / FILES)
    return Report(
        run=run,
        setup=_file(folder, SETUP),
        test_patch=patch,
        files=files,
        fail_to_pass=tuple(lists["FAIL_TO_PASS"]),
        pass_to_pass=tuple(lists["PASS_TO_PASS"]),
        owned=tuple(sorted({*lists["owned"], *files, *_of_patch(patch)})),
        **words,
    )


def is_inside(path: str) -> bool:
    """Whether it is a relative path that leads nowhere outside, and not into git's own files."""
    parts = path.split("/")
    return posixpath.normpath(path) == path and parts[0] not in ("", ".", "..", ".git") and "\0" not in path


def _file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError:
        return b""


def _whole_files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _of_patch(patch: bytes) -> set[str]:
    paths = {path.decode(errors="surrogateescape") for path in paths_of(patch)}
    for path in paths:
        if not is_inside(path):
            raise ValueError(f"{PATCH} changes {path!r}, which is no path inside the repository")
    return paths
