"""What a session may use, and how it may end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Ending = Literal["turn_limit", "token_limit", "context_overflow", "time_limit", "policy_failed", "closed"]


@dataclass(frozen=True)
class Budget:
    """What a session may use; None sets no limit."""

    turns: int | None = None
    tokens: int | None = None
    """Sampled tokens of the whole session."""
    context: int | None = None
    """Prompt and sampled tokens of one call."""
    seconds: float | None = None
    """Wall time from the session's opening."""
    reply_seconds: float | None = None
    """Wall time of one reply; a policy that takes longer has failed."""
