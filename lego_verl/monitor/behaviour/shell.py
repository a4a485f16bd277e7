"""What a command line does: a list of acts, from the names of the programs that it runs."""

from __future__ import annotations

import re

from lego_verl.monitor.behaviour.act import Act, Kind
from lego_verl.monitor.behaviour.paths import is_file_name
from lego_verl.monitor.behaviour.words import Simple, simple_commands

SUBMITS = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""mini-swe-agent's way to say that it is done: the command's output begins with it."""
_READ = frozenset({"cat", "head", "tail", "less", "more", "nl", "bat", "tac", "awk", "gawk", "cut", "xxd", "od", "jq"})
_SEARCH = frozenset(
    {
        "ls",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "ack",
        "find",
        "fd",
        "tree",
        "git",
        "wc",
        "du",
        "file",
        "stat",
        "which",
    }
    | {"pwd", "whereis", "type", "locate", "diff", "cmp", "sort", "uniq", "env", "whoami", "uname", "date", "df", "ps"}
)
_TEST = frozenset(
    {"pytest", "py.test", "tox", "nox", "nose2", "nosetests", "jest", "mocha", "vitest", "ctest", "rspec", "phpunit"}
)
_TEST_AFTER = {
    "npm": ("test", "t"), "yarn": ("test",), "pnpm": ("test",), "bun": ("test",), "go": ("test",), "cargo": ("test",),
    "mvn": ("test", "verify"), "gradle": ("test", "check"), "./gradlew": ("test", "check"), "make": ("test", "check"),
    "dotnet": ("test",), "bazel": ("test",), "mix": ("test",), "zig": ("test",), "swift": ("test",), "sbt": ("test",),
}  # fmt: skip
_RUN = frozenset(
    {"node", "deno", "ruby", "perl", "php", "java", "javac", "gcc", "g++", "cc", "clang", "make", "cmake", "rustc"}
    | {"tsc", "npm", "yarn", "pnpm", "bun", "go", "cargo", "mvn", "gradle", "mypy", "ruff", "flake8", "pylint"}
    | {"black", "isort", "pyflakes", "eslint", "prettier", "pyright", "curl", "sqlite3", "uv", "poetry", "hatch"}
    | {"dotnet", "bundle", "Rscript"}
)
_INSTALLS = re.compile(r"^(install|add|ci|i|download|update|upgrade|sync)$")
_GIT_EDITS = frozenset({"apply", "checkout", "restore", "reset", "stash", "mv", "rm", "clean", "revert", "am", "merge"})
_GIT_OTHER = frozenset({"add", "commit", "config", "init", "push", "fetch", "pull", "branch", "tag", "clone", "switch"})
_TEST_FILE = re.compile(r"(^|/)(tests?|test_[^/]*|[^/]*_tests?|run_?tests?|tests?[-_.][^/]*)(\.\w+)?$")
_WRITES = re.compile(
    r"\.write_(?:text|bytes)\(|open\([^)]*,\s*(?:mode\s*=\s*)?['\"][wax]|writeFileSync?\(|\.writelines\(|shutil\.|os\.re"
)
_LITERAL = re.compile(r"['\"]([\w./*-]+)['\"]")
_DEPTH = 3


def acts_of_line(line: str, depth: int = 0) -> list[Act]:
    """The acts of a command line, in order. What only prints or sets the stage is none; a line of nothing else is
    ``other``."""
    if SUBMITS in line:
        return [Act(Kind.SUBMIT)]
    acts: list[Act] = []
    source = ""
    for command in simple_commands(line):
        if not command.piped:
            source = " ".join(command.words)
        acts += _acts(command, source, depth)
    return acts or ([Act(Kind.OTHER)] if depth == 0 else [])


def _acts(command: Simple, source: str, depth: int) -> list[Act]:
    words, found = command.words, []
    program = words[0].rsplit("/", 1)[-1] if words else ""
    written = tuple(command.writes)
    if written and (command.does_nothing or program in ("cat", "tee", "sed", "git", "printf")):
        if program == "cat" and not command.fed and (names := _names(words[1:])):
            found.append(Act(Kind.READ, names))
        found.append(Act(Kind.EDIT, written, creates=not command.appends))
        return found
    if command.does_nothing:
        return []
    if program in ("bash", "sh", "zsh") and depth < _DEPTH:
        return _of_shell(command, depth)
    if program == "tee":
        return [Act(Kind.EDIT, _names(words[1:]), creates=True)]
    if command.piped and (program in _READ or program in _SEARCH or program == "sed") and "-i" not in words:
        return []  # a filter of what the command before it found
    return _of_program(program, words, command, source)


def _of_shell(command: Simple, depth: int) -> list[Act]:
    words = command.words
    for place, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and "c" in word and place + 1 < len(words):
            return acts_of_line(words[place + 1], depth + 1)
    scripts = [word for word in words[1:] if not word.startswith("-") and word != "<"]
    if command.fed and not scripts:
        return acts_of_line(command.fed, depth + 1)
    return [Act(Kind.TEST if scripts and _TEST_FILE.search(scripts[0]) else Kind.RUN, tuple(scripts[:1]))]


def _of_program(program: str, words: list[str], command: Simple, source: str) -> list[Act]:
    arguments = words[1:]
    if re.fullmatch(r"python[\d.]*|pypy3?|ipython", program):
        return _of_python(arguments, command)
    if program in ("pip", "pip3", "apt", "apt-get", "conda", "brew"):
        return [Act(Kind.OTHER)]
    if program in _TEST or _tests_by_argument(words[0], arguments):
        return [Act(Kind.TEST)]
    if program == "npx" and arguments:
        return _of_program(arguments[0], arguments, command, source)
    if program in ("uv", "poetry", "hatch", "pipenv", "bundle") and arguments[:1] in (["run"], ["exec"]):
        inner = Simple(arguments[1:], command.writes, fed=command.fed)
        return _acts(inner, source, 0)
    if program == "sed":
        return _of_sed(arguments)
    if program == "perl" and any(re.fullmatch(r"-\w*i\S*", word) for word in arguments):
        return [Act(Kind.EDIT, _names(arguments))]
    if program in ("patch", "apply_patch", "applypatch"):
        return acts_of_patch(command.fed or " ".join(arguments))
    if program == "git":
        return _of_git(arguments)
    if program in ("cp", "mv", "install", "ln"):
        return [Act(Kind.EDIT, tuple(arguments[-1:]), creates=True)]
    if program in ("rm", "rmdir"):
        return [Act(Kind.EDIT)]
    if program in ("ed", "ex", "vim", "vi", "nano", "truncate", "dos2unix"):
        return [Act(Kind.EDIT, _names(arguments))]
    if program in _READ:
        return [Act(Kind.READ, names)] if (names := _names(arguments)) else []
    if program == "diff":
        return [Act(Kind.SEARCH, _names(arguments), checks=True)]
    if program in _SEARCH:
        return [Act(Kind.SEARCH)]
    if program in _RUN or words[0].startswith(("./", "/")):
        if any(_INSTALLS.match(word) for word in arguments[:2]):
            return [Act(Kind.OTHER)]
        return [Act(Kind.TEST if _TEST_FILE.search(words[0]) else Kind.RUN)]
    return [Act(Kind.OTHER)]


def _tests_by_argument(program: str, arguments: list[str]) -> bool:
    plain = [word for word in arguments if not word.startswith("-")]
    if plain[:1] == ["run"] and program in ("npm", "yarn", "pnpm", "bun"):
        plain = plain[1:]
    return bool(plain) and any(plain[0].split(":")[0] == word for word in _TEST_AFTER.get(program, ()))


def _of_python(arguments: list[str], command: Simple) -> list[Act]:
    script = command.fed
    for place, word in enumerate(arguments):
        following = arguments[place + 1 :]
        if word == "-m" and following:
            module = following[0].split(".")[0]
            if module in ("pip", "venv", "ensurepip"):
                return [Act(Kind.OTHER)]
            return [Act(Kind.TEST if module in ("pytest", "unittest", "nose", "doctest", "tox") else Kind.RUN)]
        if word == "-c" and following:
            script = following[0]
            break
        if not word.startswith("-") and word != "<":
            is_test = bool(_TEST_FILE.search(word)) or (word.endswith("manage.py") and following[:1] == ["test"])
            return [Act(Kind.TEST if is_test else Kind.RUN, (word,))]
    if _WRITES.search(script):
        names = tuple(dict.fromkeys(name for name in _LITERAL.findall(script) if is_file_name(name)))
        reads = [Act(Kind.READ, names)] if re.search(r"\.read|read_text|readlines", script) else []
        return [*reads, Act(Kind.EDIT, names, creates=not reads)]
    return [Act(Kind.RUN)]


def _of_sed(arguments: list[str]) -> list[Act]:
    in_place = any(word.startswith(("-i", "--in-place")) or re.fullmatch(r"-[nEre]*i\S*", word) for word in arguments)
    plain = [word for word in arguments if not word.startswith("-")]
    given = any(word in ("-e", "-f") or word.startswith("--expression") for word in arguments)
    names = tuple(plain if given and not in_place else plain[1:])
    if given and in_place:
        names = tuple(word for word in plain if is_file_name(word) and not re.match(r"s(.).*\1", word))
    return [Act(Kind.EDIT if in_place else Kind.READ, names)]


def _of_git(arguments: list[str]) -> list[Act]:
    while arguments and arguments[0].startswith("-"):
        arguments = arguments[2:] if arguments[0] in ("-C", "-c") else arguments[1:]
    verb = arguments[0] if arguments else ""
    if verb in _GIT_EDITS:
        return [Act(Kind.SEARCH)] if arguments[1:2] == ["list"] else [Act(Kind.EDIT)]
    if verb in _GIT_OTHER:
        return [Act(Kind.OTHER)]
    names = tuple(word for word in arguments[1:] if is_file_name(word) and ".." not in word)
    return [Act(Kind.SEARCH, names, checks=verb == "diff" and "--stat" not in arguments)]


def acts_of_patch(patch: str) -> list[Act]:
    """The edits of a patch in the form of ``apply_patch`` or of ``diff``: files that it makes apart from the others."""
    marked = re.findall(r"^\*\*\* (Add|Update|Delete) File: (.+)$", patch, re.MULTILINE)
    made = tuple(name.strip() for verb, name in marked if verb == "Add")
    changed = tuple(name.strip() for verb, name in marked if verb != "Add")
    if not marked:
        changed = tuple(dict.fromkeys(re.findall(r"^\+\+\+ (?:b/)?(\S+)", patch, re.MULTILINE)))
    acts = [Act(Kind.EDIT, made, creates=True)] if made else []
    return [*acts, Act(Kind.EDIT, changed)] if changed or not acts else acts


def _names(words: list[str]) -> tuple[str, ...]:
    """Arguments that can be files: no options, numbers, or programs in quotes."""
    return tuple(word for word in words if not word.startswith(("-", "<", "{", "$")) and is_file_name(word))
