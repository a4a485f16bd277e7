"""Tests as questions: code under test is asked for values, and never learns what they should be.

Where tests and tested code share a process, whatever the tests can say the tested code can say, too: an object that
equals everything, a patched ``unittest``, a line that looks like success and ``os._exit(0)``. Here they share
nothing. One process imports the code, gets expressions and tells what they are; the expected values stay with
whoever asks (the grader on the host, or this file run as a script), and the two are compared there, as text, after
everything that ran is gone. To be judged right without being right, code would have to guess.

``questions.json``: ``{"path": ["src"], "imports": ["from pkg.mod import f"], "questions": [["f(1)", "2"], …]}``; the
second of each pair is a Python literal. This file needs nothing but the standard library: a task brings a copy of it
along, so that its ``test.sh`` works under any runner.
"""

from __future__ import annotations

import ast
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

FILE = "questions.json"

ASKED = r"""
import json, os, resource, sys
write, parse = os.write, json.loads
asked = parse(sys.stdin.buffer.read())
answers = os.dup(1)
nowhere = os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2):
    os.dup2(nowhere, fd)

def plain(value, depth=0):
    if depth > 50:
        raise TypeError("nested too deeply")
    if value is None or isinstance(value, bool):
        return str(int(value)) if value is not None else "None"
    if isinstance(value, (int, float)):
        whole = float.is_integer(value) if isinstance(value, float) else True
        return int.__repr__(int(value)) if whole else float.__repr__(value)
    if isinstance(value, str):
        return str.__repr__(value)
    if isinstance(value, (bytes, bytearray)):
        return repr(bytes(value))
    if isinstance(value, (list, tuple)):
        inner = ",".join(plain(each, depth + 1) for each in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, (set, frozenset)):
        return "set(" + ",".join(sorted(plain(each, depth + 1) for each in value)) + ")"
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{plain(k, depth + 1)}:{plain(v, depth + 1)}" for k, v in value.items())) + "}"
    raise TypeError("equal to anything" if value == object() else f"not a plain value but a {type(value).__name__}")

def short(text):
    if len(text) <= 4096:
        return text
    import hashlib
    return "sha256 " + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

def say(what, text):
    write(answers, f"\n{asked['nonce']} {what} {json.dumps(text)}\n".encode())

def main():
    sys.path[:0] = [os.path.abspath(each) for each in asked["path"]]
    names = {}
    for line in asked["imports"]:
        try:
            exec(line, names)
        except BaseException as error:
            say("note", f"{line}: {type(error).__name__}: {error}"[:1000])
    for number, expression in enumerate(asked["expressions"]):
        try:
            answer = "=" + short(plain(eval(expression, names)))
        except BaseException as error:
            answer = f"!{type(error).__name__}: {error}"[:1000]
        say(number, answer)
    say("end", str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))

main()
os._exit(0)
"""
"""The program in whose process the code is imported. What the code prints goes nowhere, so that no amount of it crowds
out answers; what it has left to be done at the end is not waited for (``os._exit``)."""

_SHOWN = 300


@dataclass(frozen=True)
class Questions:
    """What is asked, and what is right."""

    path: tuple[str, ...]
    """Folders that are imported from, relative to where the code stands."""
    imports: tuple[str, ...]
    expressions: tuple[str, ...]
    expected: tuple[str, ...]
    """Canonical texts; they never leave the process that reads them."""


@dataclass
class Answers:
    """What came back."""

    right: int = 0
    asked: int = 0
    lines: list[str] = field(default_factory=list)
    """For people: every wrong answer and every import that failed."""
    attacks: list[str] = field(default_factory=list)
    """What no honest code does: two answers to one question, leaving with success before the end, values that equal
    everything."""
    memory_mb: float | None = None
    """As the asked process tells it."""

    @property
    def passed(self) -> bool:
        return self.asked > 0 and self.right == self.asked and not self.attacks


def read_questions(text: str) -> Questions:
    """``ValueError`` (or a kind of it) when it is not such a file, or asks nothing."""
    try:
        content = json.loads(text)
        pairs = [(str(expression), canonical(ast.literal_eval(value))) for expression, value in content["questions"]]
        path, imports = content.get("path", []), content.get("imports", [])
    except (KeyError, TypeError, AttributeError, SyntaxError) as error:
        raise ValueError(f"not a file of questions: {error!r}") from error
    if not pairs:
        raise ValueError("it asks nothing")
    return Questions(tuple(path), tuple(imports), tuple(one for one, _ in pairs), tuple(one for _, one in pairs))


def canonical(value: object) -> str:
    """The text of a plain value, or a digest of a long one; equal values have equal texts (as 1, 1.0 and True do)."""
    made: dict[str, object] = {"__name__": "asked"}
    exec(_PLAIN, made)
    return str(made["short"](made["plain"](value)))  # type: ignore[operator]


_PLAIN = ASKED[ASKED.index("def plain") : ASKED.index("def say")]


def to_ask(questions: Questions, nonce: str) -> bytes:
    """The standard input of the asked process."""
    return json.dumps(
        {
            "nonce": nonce,
            "path": questions.path,
            "imports": questions.imports,
            "expressions": questions.expressions,
        }
    ).encode()


def compare(questions: Questions, nonce: str, output: bytes, exit_code: int | None) -> Answers:
    """Judge what the asked process has said. Nothing of it is evaluated or parsed but as a JSON string.

    ``exit_code`` is None where it did not end by itself, or not all that it said is here.
    """
    answers = Answers(asked=len(questions.expressions))
    got: dict[str, str] = {}
    mark = f"{nonce} ".encode()
    for line in output.split(b"\n"):
        if not line.startswith(mark):
            continue
        what, _, text = line[len(mark) :].decode(errors="replace").partition(" ")
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, str):
            answers.attacks.append(f"an answer that the asked program does not give: {text[:80]!r}")
        elif what == "note":
            answers.lines.append(said[:_SHOWN])
        elif what in got:
            answers.attacks.append(f"two answers to question {what}")
        else:
            got[what] = said
    for number, (expression, right) in enumerate(zip(questions.expressions, questions.expected, strict=True)):
        said = got.get(str(number), "!no answer")
        if said == f"={right}":
            answers.right += 1
        else:
            answers.lines.append(f"{expression} is {said.lstrip('=')[:_SHOWN]}, not {right[:_SHOWN]}")
        if said == "!TypeError: equal to anything":
            answers.attacks.append(f"{expression} is an object that equals everything")
    if "end" not in got:
        answers.lines.append(f"the code left before it had answered everything (exit {exit_code})")
        if exit_code == 0:
            answers.attacks.append("the code ended the process with success before it had answered everything")
    elif got["end"].isdecimal():
        answers.memory_mb = int(got["end"][:12]) / 1024
    answers.attacks = sorted(set(answers.attacks))
    return answers


def report(answers: Answers) -> Iterable[str]:
    """The answers for a log; the last line says how it ended."""
    yield from answers.lines
    yield from answers.attacks
    yield "all tests passed" if answers.passed else f"some tests failed: {answers.right} of {answers.asked} are right"


def main(folder: str, workdir: str) -> int:
    """Ask as a script: ``python3 -I questions.py [WORKDIR]`` beside ``questions.json``."""
    with open(os.path.join(folder, FILE)) as file:
        questions = read_questions(file.read())
    nonce = secrets.token_hex(16)
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", ASKED],
        input=to_ask(questions, nonce),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=workdir,
        check=False,
    )
    answers = compare(questions, nonce, done.stdout, done.returncode)
    print("\n".join(report(answers)))
    return 0 if answers.passed else 1


if __name__ == "__main__":
    sys.exit(main(os.path.dirname(os.path.abspath(__file__)), sys.argv[1] if len(sys.argv) > 1 else "/testbed"))
