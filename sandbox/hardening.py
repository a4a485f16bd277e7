"""What a repository must not tell the agent: where it came from and what came after the base commit."""

from __future__ import annotations

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
head=$(git symbolic-ref -q HEAD || true)
keep=$(mktemp)
# Every ref but the branch that is checked out and the tags that are part of its history.
{ echo "$head"; git for-each-ref --merged HEAD --format='%(refname)' refs/tags; } >"$keep"
git for-each-ref --format='%(refname)' |
    { grep -vxFf "$keep" || true; } |
    sed 's/^/delete /' | git update-ref --no-deref --stdin
# Of the configuration only what the format of the repository depends on.
format='^(extensions\.|core\.(repositoryformatversion|filemode|bare|symlinks|ignorecase|precomposeunicode)$)'
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
git repack -a -d -q
rm -f "$dir/objects/info/alternates" "$dir/objects/info/http-alternates"
git prune --expire=now
rm -f "$keep"
git rev-parse HEAD
"""


async def harden(sandbox: Sandbox, *, deadline: float = 300.0) -> str:
    """Leave in the workdir's repository its current branch up to the base commit, and nothing else.

    Gone are remotes, other branches, tags outside the history, reflogs, stashes, hooks, and every
    object that the base commit does not reach. Where there is no repository, one is made with a single
    commit. Returns the base commit. ``ImageMissing`` with git's words when the repository is broken.
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
