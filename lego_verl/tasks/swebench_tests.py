"""How a row's tests are run: the script that swebench wrote for it, or one made of what is known of its repository."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.signs import path_of, paths_of

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
_PYTEST = "pytest -rA"
_COMMANDS = {
    "astropy/astropy": "pytest -rA -vv -o console_output_style=classic --tb=no",
    "django/django": "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1",
    "mwaskom/seaborn": "pytest --no-header -rA",
    "sphinx-doc/sphinx": "tox --current-env -epy39 -v --",
    "sympy/sympy": "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
}
"""Where SWE-bench's own repositories are not tested by plain pytest."""
_COMMANDS_OF_VERSIONS = {("django/django", "1.9"): "./tests/runtests.py --verbosity 2"}
_UTF8 = "export LANG=C.UTF-8 LC_ALL=C.UTF-8 PYTHONIOENCODING=utf8"
_NO_TESTS = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
"""Of a patch of tests, what SWE-bench hands to no runner."""
_TEST_FILE = re.compile(r"(^|/)tests?/|(^|/)test_[^/]*$|_tests?\.\w+$")
_ENVIRONMENT = """\
if [ -d /opt/miniconda3/envs/testbed ]; then
    source /opt/miniconda3/bin/activate
    conda activate testbed
fi
"""


@dataclass(frozen=True)
class Scripts:
    """What runs before the tests, and what runs them."""

    setup: str
    run: str


def split_script(script: str) -> Scripts:
    """A script of swebench's, cut at the markers that it prints around its tests.

    Raises:
        ValueError: when it has not both of them.
    """
    lines = script.splitlines(keepends=True)
    begins = [number for number, line in enumerate(lines) if START in line]
    ends = [number for number, line in enumerate(lines) if END in line]
    if not begins or not ends or ends[0] <= begins[0] + 1:
        raise ValueError(f"it has no lines between {START!r} and {END!r}")
    return Scripts("".join(lines[: begins[0]]), "".join(lines[begins[0] + 1 : ends[0]]))


def make_scripts(
    repo: str, version: str, workdir: str, test_patch: bytes, owned: Sequence[str], command: str, setup: str
) -> Scripts:
    """Scripts as SWE-bench makes them: the repository's test command over the files that the patch of tests changes.

    ``command`` outranks what is known of the repository; ``{files}`` in it is where the files go, else they come last.
    ``owned`` are run where the patch changes no test. ``setup`` is added to what runs before.
    """
    command = command or _COMMANDS_OF_VERSIONS.get((repo, version)) or _COMMANDS.get(repo, _PYTEST)
    django = repo == "django/django"
    files = [path for path in _changed(test_patch) if not path.endswith(_NO_TESTS)] or list(owned)
    names = [_label(path) if django else path for path in files]
    said = " ".join(shlex.quote(name) for name in names)
    run = command.replace("{files}", said) if "{files}" in command else f"{command} {said}"
    lines = [_ENVIRONMENT.rstrip(), f"cd {shlex.quote(workdir)}", *([_UTF8] if django else []), setup.strip()]
    return Scripts("\n".join(line for line in lines if line) + "\n", run.rstrip() + "\n")


def owned_files(names: Sequence[str], reference: bytes) -> list[str]:
    """The files of tests in pytest's names (``tests/test_a.py::test_b``), but for those that the reference changes.

    A name may be a doctest's, in the very file that is to be mended: only what looks like a test's file is taken.
    """
    mended = {path.decode(errors="surrogateescape") for path in paths_of(reference)}
    found = {match[1] for name in names if (match := re.match(r"([^\s:]+\.\w+)::", name))}
    return sorted(
        path
        for path in found - mended
        if _TEST_FILE.search(path) and not path.startswith(("/", "../")) and posixpath.normpath(path) == path
    )


def _changed(patch: bytes) -> list[str]:
    """What a patch leaves changed or new, in its order."""
    parts = [part for part in re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE) if part.strip()]
    headers = [part.partition(b"\n")[0] for part in parts if b"\ndeleted file mode " not in part.split(b"\n@@", 1)[0]]
    return [path_of(header).decode(errors="surrogateescape") for header in headers]


def _label(path: str) -> str:
    """django's name of a module of tests."""
    return path.removesuffix(".py").removeprefix("tests/").replace("/", ".")
