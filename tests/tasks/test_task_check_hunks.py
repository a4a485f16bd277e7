"""Parts of a patch, and the patch without one of them: what is left applies, and lacks just that part."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lego_verl.taskcheck.hunks import takings


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    identity = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "core.autocrlf=false"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, input=stdin, capture_output=True, check=True
    ).stdout


def _diff(folder: Path, before: dict[str, str], after: dict[str, str]) -> bytes:
    _git(folder, "init", "-q")
    for name, text in before.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "base")
    for name in before.keys() - after.keys():
        (folder / name).unlink()
    for name, text in after.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    _git(folder, "add", "-A")
    return _git(folder, "diff", "--cached", "--no-renames")


def _applied(folder: Path, patch: bytes, names: list[str]) -> dict[str, str]:
    _git(folder, "reset", "-q", "--hard")
    _git(folder, "clean", "-fdq")
    _git(folder, "apply", "-", stdin=patch)
    return {name: (folder / name).read_text() for name in names if (folder / name).exists()}


def test_each_part_is_taken_back_alone(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(30)]
    changed = list(lines)
    changed[1] = "first"
    changed[3:5] = ["second", "second more", "second even more"]
    changed[26:27] = []  # the line that was 25
    before = {"src/a.py": "\n".join(lines) + "\n", "b.py": "b\n", "README.md": "old\n", "c.py": "x = 1\n"}
    after = {"src/a.py": "\n".join(changed) + "\n", "n.py": "new\n", "README.md": "new\n", "c.py": "x = 1\n# why\n"}
    patch = _diff(tmp_path, before, after)
    found = {taking.where: taking for taking in takings(patch)}
    assert sorted(found) == ["b.py", "n.py", "src/a.py:2-2", "src/a.py:26-26", "src/a.py:4-5"]
    names = sorted(before.keys() | after.keys())
    whole = _applied(tmp_path, patch, names)
    assert whole == after

    left = _applied(tmp_path, found["src/a.py:4-5"].patch, names)
    assert {name: text for name, text in left.items() if name != "src/a.py"} == {
        name: text for name, text in after.items() if name != "src/a.py"
    }
    assert left["src/a.py"].splitlines()[:6] == ["line 0", "first", "line 2", "line 3", "line 4", "line 5"]
    assert "line 25" not in left["src/a.py"]
    assert _applied(tmp_path, found["b.py"].patch, names)["b.py"] == "b\n"
    assert "n.py" not in _applied(tmp_path, found["n.py"].patch, names)
    assert "line 25\n" in _applied(tmp_path, found["src/a.py:26-26"].patch, names)["src/a.py"]


def test_a_patch_of_one_part_has_nothing_to_take() -> None:
    assert takings(b"") == []
    assert takings(b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n") == []


def test_the_end_of_a_file_and_a_signature(tmp_path: Path) -> None:
    before = {"f.py": "a\nb\nc\nd\nlast"}
    after = {"f.py": "A\nb\nc\nd\nend"}
    patch = _diff(tmp_path, before, after) + b"-- \n2.39.5\n"
    first, last = takings(patch)
    assert (first.where, last.where) == ("f.py:1-1", "f.py:5-5")
    assert _applied(tmp_path, first.patch, ["f.py"])["f.py"] == "a\nb\nc\nd\nend"
    assert _applied(tmp_path, last.patch, ["f.py"])["f.py"] == "A\nb\nc\nd\nlast"


@settings(max_examples=15, deadline=None)
@given(
    before=st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=25),
    edits=st.lists(st.tuples(st.integers(0, 24), st.sampled_from(["x", "y", None])), min_size=2, max_size=6),
    tail=st.booleans(),
)
def test_the_rest_always_applies_and_is_the_rest(
    tmp_path_factory: object, before: list[str], edits: list[tuple[int, str | None]], tail: bool
) -> None:
    folder: Path = tmp_path_factory.mktemp("git")  # type: ignore[attr-defined]
    after: list[str | None] = list(before)
    for where, what in edits:
        after[where % len(after)] = what
    text = "\n".join(before) + "\n" * tail
    patch = _diff(folder, {"f.py": text}, {"f.py": "\n".join(line for line in after if line is not None) + "\n" * tail})
    for taking in takings(patch):
        left = _applied(folder, taking.patch, ["f.py"]) if taking.patch else {"f.py": text}
        assert left["f.py"] != _applied(folder, patch, ["f.py"])["f.py"], taking.where
