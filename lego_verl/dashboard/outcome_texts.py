"""What docs/07 says of every outcome, to be shown where there are no docs: a copy of its section, made by

    python -m lego_verl.dashboard.outcome_texts docs/07-when-trials-fail.md

A test holds the two alike.
"""

from __future__ import annotations

import json
import re
import sys
from functools import lru_cache
from pathlib import Path

COPY = Path(__file__).with_name("outcomes.json")
_PART = re.compile(r"\*(Symptom|Cause|Ruled\s+out|Fix)\*:\s*")


@lru_cache(maxsize=1)
def outcome_texts() -> dict[str, dict[str, str]]:
    """By outcome: ``symptom, cause, ruled_out, fix``, plain text."""
    found: dict[str, dict[str, str]] = json.loads(COPY.read_text())
    return found


def read_docs(text: str) -> dict[str, dict[str, str]]:
    """The paragraphs of docs/07's section on outcomes."""
    section = text.split("## Every outcome", 1)[1].split("\n## ", 1)[0]
    found = {}
    for paragraph in section.split("\n\n"):
        named = re.match(r"\*\*`(\w+)`\*\*", paragraph)
        if named is None:
            continue
        parts = _PART.split(paragraph[named.end() :])
        found[named[1]] = {
            re.sub(r"\s+", "_", name).lower(): _plain(said) for name, said in zip(parts[1::2], parts[2::2], strict=True)
        }
    return found


def _plain(text: str) -> str:
    """Without what marks links and code."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(text.replace("`", "").split())


if __name__ == "__main__":
    COPY.write_text(json.dumps(read_docs(Path(sys.argv[1]).read_text()), indent=1) + "\n")
