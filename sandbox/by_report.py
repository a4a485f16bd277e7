"""A verdict as SWE-bench has it: tests run in the sandbox, and what they print is judged on the host (``report``).

swebench marks in the output where the report begins, where it ends and how the tests left. Here nothing of that is in
the output, so that no line of the tested code's can say it: the report is all that one command prints and nothing
else, its end is the end of every process in the sandbox, and its exit code is the keeper's word, over a channel that
commands have no descriptor of (``guest``). A line that speaks as swebench's markers do is a sign of an attack. The
tests that count are named nowhere in the sandbox; their files are put in place from the host when nothing runs there.

What remains: tests and tested code share a process and its output. Code that prints, in place of the runner and under
the right names, that all went well, and leaves with success, is believed; and so is code that patches the runner. The
names it can read in the tests' files. What it prints *besides* the runner's own lines does not help it: where a test
is reported as failed, a later line that it passed is a sign. The control experiments (``control``) are over the same
files, turned around and denied, and tell most of the rest.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sandbox.by_script import run_in, take_peak
from sandbox.owned import files_in, put_owned, take_owned, with_files
from sandbox.report import FILE, FILES, Report, read_report
from sandbox.sandbox import Limits, Sandbox, SandboxError
from sandbox.signs import Screened
from sandbox.swebench import Judgement, ask_swebench
from sandbox.verdict import Status, Verdict

_OUTPUT_BYTES = 32 << 20
"""Reports of large suites are long, and the part that counts often comes last."""
_SETUP = r"""
set +x
. "$1/setup.sh" </dev/null
{ set +x; } 2>/dev/null
{ declare -px; shopt -p || true; set +o; printf 'cd %q\n' "$PWD"; } >"$1/state"
exit "$2"
"""
"""The test run gets the variables, options and folder that the script ends with."""
_READY = 217
"""What the shell that ran it says when it came to its end: a script that leaves by itself says something else."""
_OFFLINE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""There is no network: a script that installs again what the image has is to find that out at once."""
_NAMED = 5


def report_of(folder: Path) -> Report | None:
    """The report that a folder of tests asks for, if it does. ``SandboxError`` when it cannot be read."""
    if not (folder / FILE).is_file():
        return None
    try:
        return read_report(folder)
    except (ValueError, OSError) as error:
        raise SandboxError(f"{folder / FILE}: {error}") from error


def limits_of(limits: Limits) -> Limits:
    """The limits of a sandbox that has a report to give."""
    return replace(limits, output_bytes=max(limits.output_bytes, _OUTPUT_BYTES))


async def hold_tests(sandbox: Sandbox, report: Report) -> bytes:
    """The tests' own files, as a tar. Before anything of the patch is in the sandbox."""
    return with_files(await take_owned(sandbox, report.owned, report.test_patch), report.files)


async def by_report(
    sandbox: Sandbox, report: Report, held: bytes, screened: Screened, *, deadline: float, measure: bool
) -> Verdict:
    """Run the tests on the workdir as it stands, and judge what they say. ``seconds`` is 0."""
    here = f"/tmp/.report-{secrets.token_hex(8)}"
    before, left = "", deadline
    signs = screened.signs

    def verdict(reward: float | None, status: Status, said: str, *attacks: str) -> Verdict:
        lines = [before, said, *(f"[{attack}]" for attack in attacks)]
        return Verdict(reward, status, "\n".join(line for line in lines if line), 0.0, (*signs, *attacks))

    if report.setup.strip():
        await sandbox.put({f"{here}/setup.sh": report.setup})
        ready = await sandbox.exec(["bash", "-c", _SETUP, "setup", here, str(_READY)], deadline=deadline, env=_OFFLINE)
        before, left = f"{ready.output.decode(errors='replace')}\n[the tests]", max(1.0, deadline - ready.seconds)
        if ready.timed_out:
            return verdict(None, "timeout", f"[setup.sh did not end within {deadline:g} s]")
        if ready.out_of_memory:
            return verdict(None, "failed", f"[setup.sh took over {sandbox.spec.limits.memory_mb} MiB of memory]")
        if ready.exit_code != _READY:
            status: Status = "tampered" if signs else "graded"
            return verdict(0.0, status, f"[setup.sh ended before its end: exit {ready.exit_code}]")
    hindered = await put_owned(sandbox, report.owned, held)
    if hindered is not None:
        return verdict(0.0, "tampered", "", hindered)
    state = b". %s/state\n" % here.encode() if report.setup.strip() else b""
    await sandbox.put({f"{here}/test.sh": state + report.run})
    ran = await sandbox.exec(run_in(here, measure), deadline=left)
    output = ran.output.decode(errors="replace")
    if ran.timed_out:
        return verdict(None, "timeout", f"{output}\n[no verdict within {deadline:g} s]")
    if ran.out_of_memory:
        return verdict(None, "failed", f"{output}\n[over {sandbox.spec.limits.memory_mb} MiB of memory]")
    judgement = await ask_swebench(report, output, ran.exit_code)
    attacks = list(_attacks(judgement, ran.exit_code))
    told = "\n".join(f"[{line}]" for line in _told(judgement, ran.exit_code, ran.dropped_bytes))
    if judgement.resolved and not attacks:
        memory = await take_peak(sandbox) if measure else None
        return replace(verdict(1.0, "graded", f"{output}\n{told}"), memory_mb=memory)
    return verdict(0.0, "tampered" if attacks or signs else "graded", f"{output}\n{told}", *attacks)


def _attacks(judgement: Judgement, exit_code: int | None) -> Iterator[str]:
    if judgement.spoken:
        yield f"the output has lines of the grader's own: {', '.join(judgement.spoken)}"
    if judgement.overturned:
        names = ", ".join(judgement.overturned[:_NAMED])
        yield f"reported as not passed, and as passed further on: {names}"
    if exit_code == 0 and not judgement.reported and not judgement.fail_only and not judgement.unreadable:
        yield "the tests ended with success and reported nothing"


def _told(judgement: Judgement, exit_code: int | None, dropped: int) -> Iterator[str]:
    yield f"exit {exit_code}"
    if dropped:
        yield f"{dropped} bytes of output more than are kept"
    if judgement.unreadable:
        yield f"the report cannot be read: {judgement.unreadable}"
    elif not judgement.valid:
        yield "the report is not valid: it names no test, or no failed one although the tests did not end with success"
    for key, of in (("FAIL_TO_PASS", judgement.fail_to_pass), ("PASS_TO_PASS", judgement.pass_to_pass)):
        failed = f", not {', '.join(of.failed[:_NAMED])}" if of.failed else ""
        yield f"{key}: {len(of.passed)} of {len(of.passed) + len(of.failed)}{failed}"


@contextlib.contextmanager
def written_out(folder: Path, held: bytes) -> Iterator[Path]:
    """A copy of a folder of tests that has the tests' own files whole: ``control`` can change them there."""
    copy = Path(tempfile.mkdtemp(prefix="lego-report-"))
    try:
        copy.chmod(0o755)
        shutil.copytree(folder, copy / "tests", symlinks=True)
        for name, content in files_in(held).items():
            path = copy / "tests" / FILES / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield copy / "tests"
    finally:
        shutil.rmtree(copy, ignore_errors=True)
