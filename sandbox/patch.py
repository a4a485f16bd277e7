"""What the agent changed, as one patch against the tree it was given.

Nothing of the agent's git is trusted or needed: not its config, hooks, index, refs, or that there is
still a ``.git`` at all. Before the agent starts, a *baseline* is recorded: a bare repository of ours
with the base tree's objects and neither history nor configuration. Afterwards it is put back beside
the agent's files, and git compares the two with nobody's settings.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from sandbox.hardening import GIT_ENVIRONMENT, graders_paths
from sandbox.sandbox import ExecResult, Sandbox, SandboxError

_GIT = r"""
set -eu
git() {
    command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.untrackedCache=false -c gc.auto=0 \
        -c safe.directory='*' -c core.protectNTFS=false -c core.protectHFS=false -c core.compression=1 \
        -c core.fileMode=true -c core.symlinks=true -c core.autocrlf=false -c advice.addEmbeddedRepo=false \
        -c core.bigFileThreshold=8m "$@"
}
# Bytes are bytes: no attribute of the tree's own may translate, filter or hide them. This file outranks theirs.
neutral() {
    mkdir -p "$1/info"
    echo '* -text !eol -ident !filter !working-tree-encoding !diff !merge' >"$1/info/attributes"
}
"""

_RECORD = (
    _GIT
    + r"""
work=$1 here=$2
mkdir -p "$here"
git init -q --bare --template= "$here/git"
neutral "$here/git"
if [ -d "$work/.git" ]; then
    git --git-dir="$work/.git" --work-tree="$work" ls-files -z >"$here/tracked"
    cp "$work/.git/info/exclude" "$here/git/info/exclude" 2>/dev/null || true
else
    : >"$here/tracked"
fi
# By-products of running Python, which are nobody's change and, carried to the grader, could stand in for source.
printf '%s\n' '__pycache__/' '*.py[co]' '.pytest_cache/' >>"$here/git/info/exclude"
cd "$work"
export GIT_DIR="$here/git" GIT_WORK_TREE="$work"
# Files that are tracked although they are ignored are part of the base; `add` alone would not see them.
git update-index --add --remove -z --stdin <"$here/tracked"
git add -A
tree=$(git write-tree)
rm -f "$here/git/index"
tar -C "$here" -cf "$here/tar" git
echo "$tree"
"""
)

_TAKE = (
    _GIT
    + r"""
work=$1 here=$2 tree=$3 most=$4
mkdir -p "$here" "$work"
tar -C "$here" -xf -
neutral "$here/git"
export GIT_DIR="$here/git" GIT_WORK_TREE="$work"
cd "$work"
git read-tree "$tree"
# Folders and files that their owner made unreadable, and repositories within the repository, which git would
# record as a link to a commit that nobody has (links that the base has stay).
find . -name .git -prune -o -type d ! -perm -700 -exec chmod u+rwx {} \;
find . -name .git -prune -o -type f ! -perm -400 -exec chmod u+r {} +
find . -mindepth 2 -iname .git -prune -print0 | while IFS= read -r -d '' nested; do
    if [ -z "$(git ls-files -s -- ":(literal)${nested%/*}" | grep '^160000')" ]; then rm -rf "$nested"; fi
done
find . -mindepth 1 -maxdepth 1 -iname .git ! -name .git -exec rm -rf {} +
git add -A
# What is small as a patch may be large as files, and whoever applies it would have to hold them.
whole=$(git diff --cached --raw --abbrev=64 --no-renames --ignore-submodules=all "$tree" | cut -d ' ' -f 4 |
    git cat-file --batch-check='%(objectsize)' |
    { sum=0; while read -r size rest; do [ -n "$rest" ] || sum=$((sum + size)); done; echo "$sum"; })
if [ "$whole" -gt "$most" ]; then
    echo "what was changed has $whole bytes, over the limit of $most"
    exit 3
fi
git diff --cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv \
    --src-prefix=a/ --dst-prefix=b/ --ignore-submodules=none "$tree" >"$here/patch"
wc -c <"$here/patch"
"""
)

_APPLY = (
    _GIT
    + r"""
work=$1 here=$2
mkdir -p "$here"
cat >"$here/patch"
if [ ! -s "$here/patch" ]; then rm -rf "$here"; exit 0; fi
git init -q --bare --template= "$here/git"
neutral "$here/git"
cd "$work"
status=0
git --git-dir="$here/git" --work-tree="$work" apply --whitespace=nowarn "$here/patch" || status=$?
rm -rf "$here"
exit "$status"
"""
)
_TOO_MUCH = 3
_WHOLE = 8
"""Bytes of changed files for each byte that a patch may have: text is deflated to a fifth."""


class PatchError(Exception):
    """What the agent left cannot be made a patch, or the patch does not apply. The agent's doing."""


@dataclass(frozen=True)
class Baseline:
    """The tree an agent was given; the same for every trial of an image."""

    tree: str
    """git's id of the tree."""
    repository: bytes
    """A tar of the bare repository that holds it."""
    graders: tuple[str, ...] = ()
    """Paths of the grader's that the image has itself (see ``planted``)."""


async def record_baseline(sandbox: Sandbox, *, deadline: float = 120.0) -> Baseline:
    """Record the workdir as it stands now: before anything of the agent's has run."""
    here = _fresh_folder()
    done = await _run(sandbox, _RECORD, here, deadline=deadline)
    if done.exit_code != 0:
        raise SandboxError(f"trial {sandbox.spec.trial}: the base tree could not be recorded: {_said(done)}")
    repository = await sandbox.get(f"{here}/tar", limit=1 << 30)
    await sandbox.exec(["rm", "-rf", here], deadline=60, cwd="/")
    return Baseline(_said(done), repository, await graders_paths(sandbox))


async def take_patch(
    sandbox: Sandbox, baseline: Baseline, *, limit_bytes: int = 8 << 20, deadline: float = 120.0
) -> bytes:
    """Everything that differs from the baseline: edits, new files, deletions, modes, links, binary files.

    Files that the tree's ignore rules name, and Python's caches, are left out unless the base had them.
    Empty when nothing changed. ``PatchError`` when it is over ``limit_bytes``, when the files that it makes are over
    eight times as much together, or when git cannot record what is there.
    """
    here = _fresh_folder()
    most = str(_WHOLE * limit_bytes)
    done = await _run(sandbox, _TAKE, here, baseline.tree, most, deadline=deadline, stdin=baseline.repository)
    try:
        if done.out_of_memory:
            raise SandboxError(f"trial {sandbox.spec.trial}: out of memory while the patch was taken")
        if done.timed_out:
            raise PatchError(f"trial {sandbox.spec.trial}: no patch within {deadline:g} s: too much was left behind")
        if done.exit_code != 0:
            if await sandbox.disk_full():
                raise SandboxError(f"trial {sandbox.spec.trial}: no room left on the sandbox's disk to take the patch")
            what = "" if done.exit_code == _TOO_MUCH else "git cannot record what was left: "
            raise PatchError(f"trial {sandbox.spec.trial}: {what}{_said(done)}")
        size = int(_said(done))
        if size > limit_bytes:
            raise PatchError(f"trial {sandbox.spec.trial}: the patch has {size} bytes, over the limit of {limit_bytes}")
        return await sandbox.get(f"{here}/patch", limit=limit_bytes)
    finally:
        await sandbox.exec(["rm", "-rf", here], deadline=60, cwd="/")


async def apply_patch(sandbox: Sandbox, patch: bytes, *, deadline: float = 120.0) -> None:
    """Apply a patch to the workdir, wholly or not at all. ``PatchError`` with git's words when it does not fit."""
    if not patch.strip():
        return
    done = await _run(sandbox, _APPLY, _fresh_folder(), deadline=deadline, stdin=patch)
    if done.exit_code is None:  # that it took too long or too much says nothing of whether it fits
        why = "out of memory" if done.out_of_memory else "out of time"
        raise SandboxError(f"trial {sandbox.spec.trial}: the patch could not be applied: {why}")
    if done.exit_code != 0:
        if await sandbox.disk_full():
            raise SandboxError(f"trial {sandbox.spec.trial}: no room left on the sandbox's disk to apply the patch")
        raise PatchError(f"the patch does not apply: {_said(done)}")


def _fresh_folder() -> str:
    """Not to be guessed, so that nothing can have been prepared there."""
    return f"/tmp/.patch-{secrets.token_hex(8)}"


async def _run(sandbox: Sandbox, script: str, *arguments: str, deadline: float, stdin: bytes = b"") -> ExecResult:
    command = ["bash", "-c", script, "patch", sandbox.spec.image.workdir, *arguments]
    return await sandbox.exec(command, deadline=deadline, cwd="/", env=GIT_ENVIRONMENT, stdin=stdin)


def _said(done: ExecResult) -> str:
    if done.timed_out:
        return "out of time"
    lines = done.output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit {done.exit_code}"
