"""What is to be solved: an instruction, a repository at a base commit, hidden tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class TaskError(ValueError):
    """A task that cannot be used; the message names the task, the file, and what to do."""


@dataclass(frozen=True)
class Task:
    """One task, as read from disk. Nothing of ``tests`` or ``solution`` is ever seen by an agent."""

    name: str
    instruction: str
    folder: Path
    environment: Path
    """The Harbor ``environment/`` folder."""
    tests: Path
    """The folder of hidden tests; ``test.sh`` in it is the verifier, or ``swebench.json`` says how they are judged."""
    solution: Path | None
    image: str | None
    workdir: str
    agent_timeout: float
    """Seconds of wall time."""
    verifier_timeout: float
    """Seconds of wall time."""
    memory_mb: int
    storage_mb: int
    digest: str
    """sha256 over all files of the task: what a verdict refers to."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
