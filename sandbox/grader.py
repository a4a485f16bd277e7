"""The verdict: the agent's patch, on a fresh copy of the base, judged by hidden tests.

Nothing that ran for the agent is here: a new sandbox, the base tree, and the patch as data, without the parts that
steer test runners (see ``signs``). Then one of three:

- The task asks questions (``tests/questions.json``, see ``questions``): the tests are not in the sandbox at all, the
  verdict is made on the host, and nothing that the tested code does can forge it.
- The task has a report of tests to be read (``tests/swebench.json``, see ``report``): the tests run in the sandbox,
  what they print is judged on the host, as SWE-bench judges (see ``by_report``).
- Else Harbor's convention (see ``by_script``): the tests as a read-only folder, and a reward in a file. Not every
  attack on that can be known; a control experiment (see ``control``) tells most. So it does of reports.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandbox.by_questions import by_questions, questions_of
from sandbox.by_report import by_report, hold_tests, limits_of, report_of, written_out
from sandbox.by_script import TESTS, by_script
from sandbox.control import against_controls
from sandbox.patch import PatchError, apply_patch
from sandbox.questions import FILE
from sandbox.report import FILE as REPORT
from sandbox.sandbox import Backend, Image, Limits, Mount, SandboxError, SandboxSpec
from sandbox.signs import screen
from sandbox.verdict import Status, Verdict

__all__ = ["Status", "Verdict", "grade"]

_PREPARE = r"""
set -eu
cd "$1"; shift
if [ $# -gt 0 ]; then
    git="git -c core.hooksPath=/dev/null -c core.fsmonitor=false"
    for path in "$@"; do
        rm -rf -- "./$path"
        if [ -n "$($git ls-tree HEAD -- "$path")" ]; then $git checkout -q HEAD -- "$path"; fi
    done
fi
[ ! -e /logs ] || find /logs -mindepth 1 -delete
mkdir -p /logs/verifier /logs/agent /logs/artifacts
"""


async def grade(
    backend: Backend,
    image: Image,
    patch: bytes,
    tests_folder: Path,
    *,
    deadline: float,
    limits: Limits,
    run: str,
    trial: str,
    restore: Sequence[str] = (),
    measure: bool = False,
    control: bool = False,
) -> Verdict:
    """Judge a patch in a fresh sandbox.

    ``deadline``: seconds of wall time for the verifier alone. ``restore``: paths of the repository that
    the tests own; whatever the patch did to them is undone. ``measure``: take the verifier's memory as well.
    ``control``: have a reward that a script or a report gave stand only if it meets the control experiments (see
    ``control``; only for tasks of which it is known that the reference patch does). An empty patch is judged like any
    other. A patch that does not apply is a verdict of 0. ``SandboxError`` and its kinds mean that the machine, not the
    patch, failed.
    """
    once = partial(
        _grade, backend, image, patch, deadline=deadline, limits=limits, run=run, trial=trial, restore=restore
    )
    verdict = await once(tests_folder, measure=measure)
    if not control or not verdict.reward or (tests_folder / FILE).is_file():
        return verdict
    report = report_of(tests_folder)
    if report is None:
        return await against_controls(verdict, tests_folder, partial(once, measure=False))
    sandbox = await backend.start(SandboxSpec(run, f"{trial}-tests", image, limits=limits))
    try:
        held = await hold_tests(sandbox, report)
    finally:
        await sandbox.close()
    with written_out(tests_folder, held) as whole:
        return await against_controls(verdict, whole, partial(once, measure=False))


async def _grade(
    backend: Backend,
    image: Image,
    patch: bytes,
    tests_folder: Path,
    *,
    deadline: float,
    limits: Limits,
    run: str,
    trial: str,
    restore: Sequence[str],
    measure: bool,
) -> Verdict:
    began = time.monotonic()
    _check_tests(tests_folder)
    questions, report = questions_of(tests_folder), report_of(tests_folder)
    screened = screen(patch)
    mounts = [Mount(tests_folder, TESTS)] if questions is None and report is None else []
    limits = limits if report is None else limits_of(limits)
    spec = SandboxSpec(run, f"{trial}-grade", image, mounts=mounts, limits=limits)
    sandbox = await backend.start(spec)
    try:
        held = b"" if report is None else await hold_tests(sandbox, report)
        try:
            await apply_patch(sandbox, screened.patch)
        except PatchError as error:
            status: Status = "tampered" if screened.signs else "patch_failed"
            return Verdict(0.0, status, str(error), time.monotonic() - began, screened.signs)
        prepared = await sandbox.exec(
            ["bash", "-c", _PREPARE, "prepare", image.workdir, *restore], deadline=60, cwd="/"
        )
        if prepared.exit_code != 0:
            raise SandboxError(f"trial {trial}: the grading could not be prepared: {prepared.output[-300:]!r}")
        if questions is not None:
            verdict = await by_questions(sandbox, questions, screened, deadline=deadline, measure=measure)
        elif report is not None:
            verdict = await by_report(sandbox, report, held, screened, deadline=deadline, measure=measure)
        else:
            verdict = await by_script(sandbox, screened, deadline=deadline, measure=measure)
        left_out = "".join(f"[not taken from the patch: {path}]\n" for path in screened.dropped)
        return replace(verdict, output=left_out + verdict.output, seconds=time.monotonic() - began)
    finally:
        await sandbox.close()


def _check_tests(folder: Path) -> None:
    script = folder / "test.sh"
    if (folder / REPORT).is_file():
        return  # nothing of it is mounted
    if not script.is_file():
        raise SandboxError(f"{script} does not exist: a task's tests folder has a test.sh")
    for path in [folder, *folder.rglob("*")]:
        need = 0o005 if path.is_dir() else 0o004
        if not path.is_symlink() and path.stat().st_mode & need != need:
            raise SandboxError(f"{path} is not readable for the sandbox's user: chmod -R a+rX {folder}")
