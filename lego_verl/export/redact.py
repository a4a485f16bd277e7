"""Takes secrets out of what is handed on: an agent may have printed its environment, or a task may hold a key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

_SHAPES = {
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "cloud key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}\b",
    "access token": r"\b(?:gh[pousr]_[0-9A-Za-z]{36,255}|github_pat_[0-9A-Za-z_]{22,255}|glpat-[0-9A-Za-z_-]{20,}"
    r"|hf_[0-9A-Za-z]{30,}|xox[abposr]-[0-9A-Za-z-]{10,}|npm_[0-9A-Za-z]{36}|pypi-[0-9A-Za-z_-]{50,})",
    "api key": r"\bsk-[0-9A-Za-z_-]{20,}",
    "signed token": r"\beyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}",
    "credential": r"(?i:(?<=bearer )|(?<=basic ))[0-9A-Za-z._~+/-]{20,}=*|(?<=://)[^\s:/@'\"]{1,100}:[^\s:/@'\"]{1,200}(?=@)",
}
_NAMED = re.compile(
    r"(?P<name>\b\w*(?:SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|CREDENTIAL)S?[\"']?\s*[=:]\s*[\"']?)"
    r"(?P<value>[^\s\"',;]{16,})",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL|PRIVATE", re.IGNORECASE)
_SHORTEST = 8


class Redactor:
    """Replaces secrets by ``[redacted: WHAT]``, and counts them.

    Known shapes (keys, tokens, credentials in addresses), values that are given to a name like ``API_KEY`` and look
    drawn by chance, and the very values that secret-sounding variables have in an environment.

    Args:
        environment: of whoever exports.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.found: Counter[str] = Counter()
        values = {
            value
            for name, value in (environment or {}).items()
            if _SECRET_NAME.search(name) and len(value) >= _SHORTEST and not value.startswith("/")
        }
        shapes = dict(_SHAPES)
        if values:
            shapes["environment"] = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
        self._names = dict(enumerate(shapes))
        self._shapes = re.compile("|".join(f"(?P<k{i}>{shapes[name]})" for i, name in self._names.items()), re.DOTALL)

    def text(self, text: str) -> str:
        text = self._shapes.sub(self._replace, text)
        return _NAMED.sub(self._replace_named, text)

    def any(self, value: Any) -> Any:
        """Every text within a JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.any(each) for key, each in value.items()}
        return [self.any(each) for each in value] if isinstance(value, list | tuple) else value

    def _replace(self, match: re.Match[str]) -> str:
        name = self._names[int(str(match.lastgroup)[1:])]
        self.found[name] += 1
        return f"[redacted: {name}]"

    def _replace_named(self, match: re.Match[str]) -> str:
        value = match["value"]
        # A name in code (``token = self.next_token``) is no secret: those have digits and letters in disorder.
        digits = sum(character.isdigit() for character in value)
        if digits < 3 or not any(character.isalpha() for character in value) or "(" in value or "[redacted" in value:
            return match[0]
        self.found["named value"] += 1
        return f"{match['name']}[redacted: named value]"
