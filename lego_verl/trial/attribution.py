"""What ended the agent's part of a trial: one decision, from what sandbox, session and harness say.

The order is the point. What infrastructure did comes before what it made the harness do: a harness that
crashes because the policy failed, the memory ran out or the budget was used up did not fail by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness_adapters.adapter import Ending
from lego_verl.trial.outcome import Outcome
from sandbox.sandbox import ExecResult, ImageMissing, SandboxError, SandboxLost

_TAIL_LINES = 12
_TAIL_CHARACTERS = 1500
_BUDGETS = {
    "turn_limit": Outcome.TURN_LIMIT,
    "token_limit": Outcome.TOKEN_LIMIT,
    "context_overflow": Outcome.CONTEXT_OVERFLOW,
    "time_limit": Outcome.TIME_LIMIT,
}


class Attributed(Exception):
    """Something that ends a trial, with the outcome that it is."""

    def __init__(self, outcome: Outcome, error: str) -> None:
        super().__init__(error)
        self.outcome, self.error = outcome, error


@dataclass(frozen=True)
class Seen:
    """What was seen once the harness was gone."""

    result: ExecResult
    ending: Ending
    """The harness's own word."""
    turns: int
    """Requests that reached the policy's session."""
    answered: int
    """Of these, those that the policy answered."""
    trainable: bool
    """Whether anything of what was sampled can be trained: not where all of it was asked beside the task."""
    budget: str | None
    """What ended the session before the harness did: ``Session.ending``."""
    failure: str
    """The session's line on what went wrong."""
    captured: bool
    """Whether every sampled token is accounted for."""
    disk_full: bool
    seconds: float
    """The deadline it ran under."""
    cut: str | None = None
    """What cut the last reply short: ``Session.cut``."""


def attribute(seen: Seen) -> Outcome | None:
    """The limit that ended the agent; None when it ended by itself. What it left is graded in both cases.

    Raises:
        Attributed: with an outcome that is dropped.
    """
    result = seen.result
    if result.out_of_memory:
        raise Attributed(Outcome.OUT_OF_MEMORY, f"the sandbox ran out of memory\n{tail(result)}")
    if seen.budget == "policy_failed":
        raise Attributed(Outcome.POLICY_FAILED, seen.failure or "the policy failed")
    if seen.answered == 0:
        raise _never_answered(seen)
    if not seen.captured:
        raise Attributed(Outcome.CAPTURE_INCOMPLETE, seen.failure or "not every sampled token is accounted for")
    if not seen.trainable:
        raise Attributed(
            Outcome.HARNESS_FAILED, f"the harness asked the model beside its task only, never for it\n{tail(result)}"
        )
    if result.timed_out:
        return Outcome.TIME_LIMIT
    if seen.budget in _BUDGETS:
        return _BUDGETS[seen.budget]
    if seen.ending in _BUDGETS:
        return _BUDGETS[seen.ending]
    if seen.ending == "failed":
        if seen.disk_full:
            raise Attributed(Outcome.DISK_FULL, f"the sandbox's disk is full\n{tail(result)}")
        if seen.cut in _BUDGETS:  # some take a reply that was cut for an error and end on it
            return _BUDGETS[seen.cut]
        raise Attributed(Outcome.HARNESS_FAILED, f"the harness ended with exit code {result.exit_code}\n{tail(result)}")
    return None


def _never_answered(seen: Seen) -> Attributed:
    """Without one reply there is nothing of the policy's to judge, or to train."""
    result = seen.result
    how = f"within {seen.seconds:g} s" if result.timed_out else f"and ended with exit code {result.exit_code}"
    if seen.budget == "context_overflow":
        why = "the harness's first prompt does not fit into the policy's context"
    elif seen.turns == 0:
        why = f"the harness never called the model {how}"
    elif result.timed_out:
        return Attributed(Outcome.POLICY_FAILED, f"the policy was called and did not answer {how}")
    else:
        why = f"the harness did not wait for its first reply {how}"
    return Attributed(Outcome.HARNESS_FAILED, f"{why}\n{tail(result)}")


def of_sandbox(error: SandboxError | OSError) -> Attributed:
    """What an error of the sandbox means while it starts or works for the agent."""
    if isinstance(error, ImageMissing):
        return Attributed(Outcome.IMAGE_MISSING, str(error))
    if isinstance(error, SandboxLost):
        return Attributed(Outcome.SANDBOX_LOST, str(error))
    return Attributed(Outcome.SANDBOX_FAILED, str(error))


def tail(result: ExecResult) -> str:
    """The last lines of a command's output, for an error's text."""
    text = result.output[-4 * _TAIL_CHARACTERS :].decode(errors="replace").strip()
    if not text:
        return "(it printed nothing)"
    return "\n".join(text.splitlines()[-_TAIL_LINES:])[-_TAIL_CHARACTERS:]
