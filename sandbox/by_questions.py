"""A verdict by questions: the code answers in the sandbox; what is right is known on the host alone (``questions``)."""

from __future__ import annotations

import secrets
from pathlib import Path

from sandbox.questions import ASKED, FILE, Questions, compare, read_questions, report, to_ask
from sandbox.sandbox import ExecResult, Sandbox, SandboxError
from sandbox.signs import Screened
from sandbox.verdict import Status, Verdict


def questions_of(folder: Path) -> Questions | None:
    """The questions in a folder of tests, if it has any. ``SandboxError`` when they cannot be read."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return read_questions(path.read_text())
    except ValueError as error:
        raise SandboxError(f"{path}: {error}") from error


async def by_questions(
    sandbox: Sandbox, questions: Questions, screened: Screened, *, deadline: float, measure: bool
) -> Verdict:
    """Ask the code that stands in the workdir. ``seconds`` is 0."""
    nonce = secrets.token_hex(16)
    asked = await _ask(sandbox, questions, nonce, deadline)
    answers = compare(questions, nonce, asked.output, None if asked.dropped_bytes else asked.exit_code)
    lines = list(report(answers))
    signs = (*screened.signs, *answers.attacks)
    memory = answers.memory_mb if measure else None
    if answers.passed:  # whatever the patch tried as well: it knew every answer
        return Verdict(1.0, "graded", "\n".join(lines), 0.0, signs, memory)
    if asked.timed_out or asked.out_of_memory:
        why = f"no answer within {deadline:g} s" if asked.timed_out else "over the limit of memory"
        # Only tested code has run. If the machine can answer now, it was the code that could not: a verdict of 0.
        if not await _can_answer(sandbox, deadline):
            status: Status = "timeout" if asked.timed_out else "failed"
            return Verdict(None, status, "\n".join([*lines, f"[{why}]"]), 0.0, signs)
        lines.append(f"[{why}: the code's own doing]")
    lines += [f"[{sign}]" for sign in signs]
    return Verdict(0.0, "tampered" if signs else "graded", "\n".join(lines), 0.0, signs, memory)


async def _ask(
    sandbox: Sandbox, questions: Questions, nonce: str, deadline: float, cwd: str | None = None
) -> ExecResult:
    command = ["python3", "-I", "-B", "-c", ASKED]
    return await sandbox.exec(command, deadline=deadline, stdin=to_ask(questions, nonce), cwd=cwd)


async def _can_answer(sandbox: Sandbox, deadline: float) -> bool:
    """Whether a question of nobody's code is answered in this sandbox; not in the workdir, which may be spoilt."""
    plain, nonce = Questions((), (), ("1 + 1",), ("2",)), secrets.token_hex(16)
    asked = await _ask(sandbox, plain, nonce, deadline, cwd="/")
    return compare(plain, nonce, asked.output, asked.exit_code).passed
