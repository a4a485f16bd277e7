"""A command line as simple commands, each with its words: enough of a shell's grammar to tell what was run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

_HERE = re.compile(r"<<(-?)\s*(['\"]?)([\w.]+)\2")
_ENDS = frozenset({"&&", "||", ";", "&", "\n", ";;", "(", ")", "{", "}", "|&"})
_NOTHING = frozenset(
    {"cd", "echo", "printf", "export", "set", "true", "false", ":", "sleep", "source", ".", "unset", "pushd", "popd"}
    | {"then", "do", "done", "fi", "else", "exit", "wait", "clear", "alias", "return", "esac", "trap", "umask"}
)
_BEFORE = frozenset({"sudo", "time", "nohup", "command", "exec", "if", "while", "!", "do", "then", "else", "until"})
_WITH_VALUE = {"timeout": 1, "nice": 0, "env": 0, "xargs": 0, "stdbuf": 0}
LONGEST = 20_000
"""Characters of a command line that are looked at."""


@dataclass
class Simple:
    """One simple command."""

    words: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    """Files that its output goes to."""
    appends: bool = False
    """It adds to them."""
    fed: str = ""
    """The here document that it reads."""
    piped: bool = False
    """It reads what the command before it prints."""

    @property
    def does_nothing(self) -> bool:
        return not self.words or self.words[0] in _NOTHING


def simple_commands(line: str) -> list[Simple]:
    """The commands of a line, in order, without what only sets the stage (``cd``, ``export``, ``timeout 60``)."""
    text, documents = _without_here_documents(line[:LONGEST])
    found: list[Simple] = []
    current, target = Simple(), False
    for token in _tokens(text):
        if token in _ENDS or token == "|" or set(token) == {"\n"}:
            if current.words or current.writes:
                found.append(current)
            current, target = Simple(piped=token in ("|", "|&")), False
        elif token.startswith((">", "&>")) and set(token) <= set(">&|"):
            target = True
            current.appends = ">>" in token
        elif token in ("<", "<<<"):
            current.words.append("<")
        elif target:
            target = False
            if not token.isdigit() and not token.startswith(("/dev/", "&")):
                current.writes.append(token)
        elif token.startswith("\0here"):
            current.fed = documents[int(token[5:])]
        else:
            current.words.append(token)
    if current.words or current.writes:
        found.append(current)
    return [_bare(each) for each in found]


def _tokens(text: str) -> list[str]:
    """Words and operators; of a line that a shell would refuse (a quote that is open), its words as they stand."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars="&|;<>()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        raw = list(lexer)
    except ValueError:
        raw = re.findall(r"\n|&&|\|\||[|;]|[^\s|;&]+", text)
    kept: list[str] = []
    comment = False
    for token in raw:
        comment = (comment or token.startswith("#")) and "\n" not in token
        if comment:
            continue
        # 2>&1 comes as "2", ">&", "1": the number before a redirection is no argument.
        if token.startswith((">", "<")) and kept and kept[-1] in ("1", "2"):
            kept.pop()
        kept.append(token if set(token) - set("\n;") else "\n")
    return kept


def _without_here_documents(line: str) -> tuple[str, list[str]]:
    """The line with a mark in place of each here document, and their texts."""
    documents: list[str] = []
    kept: list[str] = []
    waiting: list[tuple[str, list[str]]] = []
    for row in line.split("\n"):
        if waiting:
            end, body = waiting[0]
            if row.strip() == end:
                documents.append("\n".join(body))
                waiting.pop(0)
            else:
                body.append(row)
            continue

        def mark(match: re.Match[str]) -> str:
            waiting.append((match[3], []))
            return f" \0here{len(documents) + len(waiting) - 1} "

        kept.append(_HERE.sub(mark, row))
    documents += ["\n".join(body) for _, body in waiting]  # the line was cut before the end of the document
    return "\n".join(kept), documents


def _bare(command: Simple) -> Simple:
    words = command.words
    while words:
        if words[0] in _BEFORE or re.fullmatch(r"\w+=.*", words[0], re.DOTALL):
            words = words[1:]
        elif words[0] in _WITH_VALUE:
            skip = _WITH_VALUE[words[0]]
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[2:] if words[0] in ("-n", "-I", "-L", "-k", "-s", "-u") else words[1:]
            words = words[skip:]
        else:
            break
    command.words = words
    return command
