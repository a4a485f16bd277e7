"""The table of the chaos run: what is done to each trial, and the only right ending of each of its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from trial_helpers import MEND, SUBMIT, bash

from lego_verl.trial.outcome import Outcome

Fault = Literal[
    "", "kill", "stop", "remove", "kill_grader", "cut", "close_link", "daemon", "daemon_grading", "daemon_down",
]  # fmt: skip
Kind = Literal["mend", "hung_grader", "no_image"]
O = Outcome  # noqa: E741

AGENT = 'said=$(ask) || exit 3; eval "$said"'
"""A harness that asks once and does what the model says."""
EAT = "python3 -c \"b = 'x' * (1 << 30); import time; time.sleep(9)\""
FILL = "dd if=/dev/zero of=/tmp/big bs=1M; echo x >/tmp/more || exit 1"
FILL_PLEASED = "dd if=/dev/zero of=big bs=1M; dd if=/dev/zero of=/tmp/big bs=1M; true"
_FORK = "python3 -c 'import os, time\nwhile True:\n  if os.fork() == 0: time.sleep(3600)'"
BOMB = "exec python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'"
UNKILLABLE = "trap '' TERM INT HUP; (trap '' TERM; setsid sleep 3600) & sleep 3600"
_HIT = (O.SANDBOX_LOST, O.SOLVED)
_SHORT = {"seconds": 30.0}
"""For a harness that hangs: long enough to ask first, also on a machine that is busy with all the others."""


@dataclass(frozen=True)
class Case:
    """One trial: what the model says in each attempt, what is done from outside, and how each attempt must end."""

    name: str
    ends: tuple[Outcome, ...] = (O.SOLVED,)
    says: tuple[str, ...] = (MEND,)
    """The last one counts for the attempts that follow, too."""
    fault: Fault = ""
    every: bool = False
    """The fault comes each time, not only the first."""
    script: str = AGENT
    reward: float | None = 1.0
    error: str = ""
    """A pattern of the last attempt's error."""
    limits: dict[str, Any] = field(default_factory=dict)
    reply: dict[str, Any] = field(default_factory=dict)
    """More of the policy's reply: its faults."""
    mini: bool = False
    """The real mini-swe-agent; ``says`` is then its first command, and it submits."""

    def replies(self, attempt: int) -> list[dict[str, Any]]:
        said = self.says[min(attempt, len(self.says)) - 1]
        if self.mini:
            return [bash(said), bash(SUBMIT)]
        return [{"text": said, **self.reply}]


@dataclass(frozen=True)
class Group:
    """The trials of one task."""

    name: str
    cases: Sequence[Case]
    task: Kind = "mend"
    where: Literal["steady", "killed", "restored"] = "steady"
    """On a daemon that stays, on one that is killed, or on one with live-restore that is killed."""


def dropped(name: str, *ends: Outcome, **more: Any) -> Case:
    return Case(name, ends, reward=None, **more)


def honest(group: str, count: int) -> list[Case]:
    return [Case(f"{group}-honest{number}") for number in range(count)]


def everywhere() -> list[Group]:
    """What can be done on every backend."""
    return [
        Group("harness", [
            dropped("hangs-at-once", O.HARNESS_FAILED, O.HARNESS_FAILED, script="sleep 3600",
                    limits={"seconds": 2.0}, error="never called the model within 2 s"),
            Case("hangs-after-work", (O.TIME_LIMIT,), says=(f"{MEND}; sleep 3600",), limits=_SHORT),
            Case("hangs-and-cannot-be-killed", (O.TIME_LIMIT,), says=(UNKILLABLE,), reward=0.0, limits=_SHORT),
            *honest("harness", 1),
        ]),
        Group("policy", [
            dropped("policy-fails", O.POLICY_FAILED, reply={"error": "the engine is gone"}, error="engine is gone"),
            dropped("policy-hangs", O.POLICY_FAILED, reply={"delay": 3600}, limits=_SHORT,
                    error="waited 15 s for the policy to answer session policy-hangs-a1"),
            *honest("policy", 2),
        ]),
        Group("memory", [
            dropped("eats-memory", O.OUT_OF_MEMORY, O.OUT_OF_MEMORY, says=(EAT,), error="out of memory"),
            Case("eats-memory-once", (O.OUT_OF_MEMORY, O.SOLVED), says=(EAT, MEND)), *honest("memory", 2),
        ]),
        Group("disk", [
            dropped("fills-disk-pleased", O.DISK_FULL, O.DISK_FULL, says=(FILL_PLEASED,), error="no room left"),
            Case("fills-disk-once", (O.DISK_FULL, O.SOLVED), says=(FILL, MEND)), *honest("disk", 2),
        ]),
        Group("processes", [
            Case("forks-and-fails", (O.HARNESS_FAILED, O.SOLVED), says=(f"{_FORK} || exit 4", MEND)),
            Case("forks-and-goes-on", says=(f"{_FORK}; {MEND}",)),
            Case("fork-bomb", (O.TIME_LIMIT,), says=(BOMB,), reward=0.0, limits=_SHORT), *honest("processes", 1),
        ]),
        Group("hung-grader", [
            dropped(f"not-judged{number}", O.GRADER_TIMEOUT, limits={"grading_seconds": 2.0},
                    error="no verdict within 2 s") for number in range(2)
        ], task="hung_grader"),
        Group("proxy", [
            Case("cut-and-gives-up", (O.HARNESS_FAILED, O.SOLVED), fault="cut"),
            Case("cut-and-asks-again", fault="cut", script='said=$(ask || ask) || exit 3; eval "$said"'),
            Case("link-closed", (O.HARNESS_FAILED, O.SOLVED), fault="close_link", script=f"ask; {AGENT}"),
            *honest("proxy", 1),
        ]),
        Group("graders", [
            Case("grader-killed", fault="kill_grader"),
            dropped("grader-killed-each-time", O.GRADER_FAILED, fault="kill_grader", every=True,
                    error="could not be graded"),
            *honest("graders", 2),
        ]),
        Group("sandboxes", [
            Case("killed", _HIT, fault="kill"),
            dropped("killed-each-time", O.SANDBOX_LOST, O.SANDBOX_LOST, fault="kill", every=True),
            *honest("sandboxes", 1),
        ]),
        Group("no-image", [
            dropped(f"no-image{number}", O.IMAGE_MISSING) for number in range(2)
        ], task="no_image"),
    ]  # fmt: skip


def of_docker() -> list[Group]:
    """What is done to containers and to the daemon."""
    return [
        Group("containers", [
            Case("stopped", _HIT, fault="stop"), Case("removed", _HIT, fault="remove"),
            *honest("containers", 1),
        ]),
        Group("mini", [
            Case("mini-killed", _HIT, fault="kill", mini=True), Case("mini-cut", fault="cut", mini=True),
            Case("mini-honest0", mini=True), Case("mini-honest1", mini=True),
        ]),
        Group("daemon-killed", [
            *(Case(f"killed-working{number}", _HIT, fault="daemon") for number in range(4)),
            Case("killed-grading", fault="daemon_grading"),
            Case("killed-down", (O.SANDBOX_FAILED, O.SOLVED), fault="daemon_down"),
        ], where="killed"),
        Group("daemon-restored", [
            *(Case(f"restored-working{number}", _HIT, fault="daemon") for number in range(4)),
            Case("restored-grading", fault="daemon_grading"),
            Case("restored-down", (O.SANDBOX_FAILED, O.SOLVED), fault="daemon_down"),
        ], where="restored"),
    ]  # fmt: skip
