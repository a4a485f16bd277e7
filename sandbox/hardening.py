"""What a repository must not tell the agent: where it came from and what came after the base commit."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox.sandbox import ImageMissing, Sandbox

GIT_ENVIRONMENT = {
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
"""git that listens to nothing but the repository it is told of."""

_HARDEN = r"""
set -euo pipefail
cd "$1"
git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c safe.directory='*' "$@"; }
export GIT_AUTHOR_NAME=base GIT_AUTHOR_EMAIL=base@localhost GIT_COMMITTER_NAME=base GIT_COMMITTER_EMAIL=base@localhost
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
if [ ! -e .git ]; then git init -q -b main .; fi
if ! git rev-parse -q --verify 'HEAD^{commit}' >/dev/null; then
    git add -A
    git commit -q --allow-empty -m base
fi
dir=$(git rev-parse --absolute-git-dir)
case "$dir" in "$PWD"/*) ;; *) echo "the repository's .git is elsewhere: $dir"; exit 1 ;; esac
# Of the configuration only what the format of the repository depends on, and where a submodule's files are.
format='^(extensions\.|core\.(repositoryformatversion|filemode|bare|symlinks|ignorecase|precomposeunicode|worktree)$)'
keep=$(mktemp)
clean() {
    local dir=$1
    git() {
        command git --git-dir="$dir" -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 \
            -c safe.directory='*' "$@"
    }
    # Every ref but the branch that is checked out and the tags that are part of its history.
    {
        git symbolic-ref -q HEAD || true
        git for-each-ref --merged HEAD --format='%(refname)' refs/tags
    } >"$keep"
    git for-each-ref --format='%(refname)' |
        { grep -vxFf "$keep" || true; } |
        sed 's/^/delete /' | git update-ref --no-deref --stdin
    git config --local --list -z --name-only | sort -zu | { grep -zivE "$format" || true; } |
        while IFS= read -r -d '' key; do git config --local --unset-all "$key"; done
    # Of the files only what git itself needs; all else remembers something (logs, messages, heads, hooks, worktrees).
    find "$dir" -mindepth 1 -maxdepth 1 ! -name HEAD ! -name config ! -name index ! -name objects ! -name refs \
        ! -name packed-refs ! -name info ! -name shallow ! -name modules -exec rm -rf {} +
    find "$dir/info" -mindepth 1 ! -name exclude ! -name attributes ! -name sparse-checkout -delete 2>/dev/null || true
    rm -rf "$dir/objects/info/commit-graph" "$dir/objects/info/commit-graphs" "$dir"/objects/pack/multi-pack-index*
    # The index refers to objects too; what is staged but not committed would keep them alive.
    git read-tree HEAD
    git update-index -q --refresh || true
    # Packs what can be reached, borrowed objects too, and nothing else.
    rm -f "$dir"/objects/pack/*.keep
    git repack -a -d -q
    rm -f "$dir/objects/info/alternates" "$dir/objects/info/http-alternates"
    git prune --expire=now
    # And is it so? What is stored is as much as belongs to the history.
    local reached stored
    reached=$(git rev-list --objects --all HEAD | wc -l)
    stored=$(git count-objects -v)
    [[ $stored == "count: 0"*"in-pack: $reached"$'\n'* ]] || {
        echo "$dir holds objects that are not part of the history: $reached are," $stored
        exit 1
    }
}
if [ -d "$dir/modules" ]; then
    find "$dir/modules" -name HEAD -type f | while IFS= read -r inner; do
        inner=${inner%/HEAD}
        if [ -d "$inner/objects" ] && [ -d "$inner/refs" ]; then (clean "$inner"); fi
    done
fi
(clean "$dir")
rm -f "$keep"
# What was compiled, merged or rejected may be of a later version of its source; what git tracks is part of the base.
git ls-files -z --others -- ':(glob)**/__pycache__/*.py[co]' ':(glob)**/*.orig' ':(glob)**/*.rej' | xargs -0 -r rm -f --
git rev-parse HEAD
"""


async def harden(sandbox: Sandbox, *, deadline: float = 300.0) -> str:
    """Leave in the workdir's repository its current branch up to the base commit, and nothing else.

    Gone are remotes, other branches, tags outside the history, reflogs, stashes, hooks, and every
    object that the base commit does not reach; that it is so is verified there. So it is with the repositories of
    submodules. Gone, too, are Python's caches and what merges leave (``*.orig``, ``*.rej``), unless tracked. Where
    there is no repository, one is made with a single commit. Returns the base commit. ``ImageMissing`` with git's
    words when the repository is broken.
    """
    workdir = sandbox.spec.image.workdir
    done = await sandbox.exec(
        ["bash", "-c", _HARDEN, "harden", workdir], deadline=deadline, cwd="/", env=GIT_ENVIRONMENT
    )
    said = done.output.decode(errors="replace").strip()
    if done.exit_code != 0:
        raise ImageMissing(
            f"the repository {workdir} of {sandbox.spec.image.folder or sandbox.spec.image.reference} "
            f"cannot be prepared: {said.splitlines()[-1] if said else 'out of time'}"
        )
    return said.splitlines()[-1]


_LOOK = 'find "$@" -maxdepth 1 2>/dev/null | head -n 20'
PLANTED = "the agent has made "
_OF_THE_GRADER = ("/logs/verifier", "/tests/test.sh", "/tests/questions.json")


async def graders_paths(sandbox: Sandbox) -> tuple[str, ...]:
    """What there is where only the grader writes: before an agent has begun nothing, unless the image brings it."""
    found = await sandbox.exec(["sh", "-c", _LOOK, "look", *_OF_THE_GRADER], deadline=60, cwd="/")
    return tuple(found.output.decode(errors="replace").splitlines())


async def planted(sandbox: Sandbox, before: Sequence[str]) -> list[str]:
    """What an agent has put where only the grader writes, beside what was there ``before``. Grading never sees it.

    Each line begins with ``PLANTED``.
    """
    return [f"{PLANTED}{path}" for path in await graders_paths(sandbox) if path not in before]
