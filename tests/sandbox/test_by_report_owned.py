"""The tests' own files: taken before a patch, put in place after whatever was done to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sandbox_helpers import Start, git, output

from sandbox.owned import files_in, put_owned, take_owned, with_files
from sandbox.sandbox import Image, SandboxError

PATHS = ("calc.py", "deep/er/new.py", "link", "pkg/data.bin", "run.sh")


@pytest.fixture
def patch(environment: Path) -> bytes:
    """Changes a file, adds one in new folders, deletes one."""
    repo = environment / "repo"
    (repo / "calc.py").write_text("changed\r\n")
    (repo / "deep" / "er").mkdir(parents=True)
    (repo / "deep" / "er" / "new.py").write_text("new\n")
    (repo / "pkg" / "data.bin").unlink()
    git(repo, "add", "-A")
    found = git(repo, "diff", "--cached", "--binary").encode() + b"\n\n"
    git(repo, "reset", "-q", "--hard")
    return found


SPOIL = {
    "nothing": "true",
    "deleted": "rm -rf calc.py run.sh link pkg",
    "other contents": "echo no | tee calc.py >run.sh; chmod 644 run.sh; ln -sf run.sh link; mkdir deep; echo >deep/er",
    "links and folders": "rm -rf calc.py link pkg; mkdir calc.py link; >calc.py/x; ln -s /tmp pkg; ln -s /tmp deep",
    "no git": "rm -rf .git; echo '* text eol=crlf ident' >.gitattributes",
    "a link that leads back": "mkdir elsewhere; ln -s elsewhere deep; ln -s . pkg2; rm -rf pkg; ln -s pkg2 pkg",
}


@pytest.mark.parametrize("spoilt", SPOIL)
async def test_what_was_taken_is_put_back(start: Start, environment: Path, patch: bytes, spoilt: str) -> None:
    sandbox = await start(Image(environment))
    taken = await take_owned(sandbox, PATHS, patch)
    assert await output(sandbox, "git status --porcelain") == ""
    assert files_in(taken) == {
        "calc.py": b"changed\r\n",
        "deep/er/new.py": b"new\n",
        "run.sh": b"#!/bin/sh\necho run\n",
    }
    await output(sandbox, f"{SPOIL[spoilt]}; echo other >other.txt")
    assert await put_owned(sandbox, PATHS, taken) is None
    seen = await output(
        sandbox, "cat -A calc.py deep/er/new.py; ./run.sh; readlink link; ls pkg; cat other.txt; ls -d deep/. deep/er/."
    )
    assert seen.splitlines()[:4] == ["changed^M$", "new$", "run", "calc.py"]
    assert "data.bin" not in seen
    assert seen.splitlines()[-3:] == ["other", "deep/.", "deep/er/."]
    assert await output(sandbox, "find . -maxdepth 1 -type l ! -name link ! -name pkg2; ls /tmp") == ""


async def test_whole_files_outrank_what_was_taken(start: Start, environment: Path, patch: bytes) -> None:
    sandbox = await start(Image(environment))
    taken = await take_owned(sandbox, PATHS, patch)
    both = with_files(taken, {"run.sh": b"#!/bin/sh\necho whole\n", "one/more.py": b"more\n"})
    assert await put_owned(sandbox, (*PATHS, "one/more.py"), both) is None
    assert (
        await output(sandbox, "./run.sh; cat calc.py one/more.py; readlink link") == "whole\nchanged\r\nmore\ncalc.py"
    )
    assert with_files(taken, {}) is taken


async def test_no_file_at_all(start: Start, environment: Path) -> None:
    sandbox = await start(Image(environment))
    taken = await take_owned(sandbox, (), b"")
    assert files_in(taken) == {}
    assert await put_owned(sandbox, (), taken) is None


async def test_a_place_that_was_closed_is_somebodys_doing(start: Start, environment: Path, patch: bytes) -> None:
    sandbox = await start(Image(environment))
    taken = await take_owned(sandbox, PATHS, patch)
    await output(sandbox, "chmod 555 pkg")
    hindered = await put_owned(sandbox, PATHS, taken)
    assert hindered is not None
    assert hindered.startswith("the tests could not be put in their place: rm: cannot remove 'pkg/data.bin'")


async def test_a_patch_that_does_not_fit(start: Start, environment: Path, patch: bytes) -> None:
    sandbox = await start(Image(environment))
    with pytest.raises(SandboxError, match=r"the tests' own patch does not apply to the base: error: "):
        await take_owned(sandbox, PATHS, patch.replace(b"-def add", b"-def sub"))
