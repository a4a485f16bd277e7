"""Who started what: so that what a killed process left can be told from what a living one uses.

A sandbox dies with the process that started it, but for one gap: bwrap's inner process waits for the
outer one to map its user, and only then asks to die with it. A kill in that millisecond leaves it
waiting for ever. It is found by what it is called.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_CALLED = "lego-sandbox"


def identity(pid: int) -> str:
    """A process, told apart from a later one with the same number by its start time. ``OSError`` when it is gone."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return f"{pid}-{stat.rpartition(')')[2].split()[19]}"


def is_alive(name: str) -> bool:
    """Whether the process of this identity still runs. One that has ended and is only not waited for does not."""
    pid = name.partition("-")[0]
    try:
        ended = Path(f"/proc/{int(pid)}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        return not ended and identity(int(pid)) == name
    except (OSError, ValueError):
        return False


def label(run: str, trial: str) -> str:
    """What a sandbox of ours is called in the list of processes."""
    words = (_CALLED, identity(os.getpid()), run, trial)
    return " ".join(word.replace(" ", "_").replace("\0", "_") or "_" for word in words)


def sandbox_processes() -> list[tuple[int, str, str]]:
    """Every bwrap process of ours on this machine: pid, identity of who started it, run."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                words = (
                    Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0", 1)[0].decode(errors="replace").split(" ")
                )
                if words[0] == _CALLED and len(words) == 4:
                    found.append((int(name), words[1], words[2]))
    return found


def orphans(run: str | None = None) -> list[tuple[int, str, str]]:
    """The sandbox processes, of one run or of any, whose starter is gone: pid, identity of the process, run."""
    found = []
    for pid, starter, of_run in sandbox_processes():
        if not is_alive(starter) and (run is None or of_run == run.replace(" ", "_")):
            with contextlib.suppress(OSError):
                found.append((pid, identity(pid), of_run))
    return found


def end_orphan(pid: int, name: str) -> None:
    """Kill a process if it is still the one of this identity. ``PermissionError`` when it is another user's."""
    if is_alive(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_orphans(run: str | None = None) -> int:
    """Kill the sandbox processes, of one run or of any, whose starter is gone. Returns how many."""
    ended = 0
    for pid, name, _ in orphans(run):
        with contextlib.suppress(PermissionError):  # another user's to clear
            end_orphan(pid, name)
            ended += 1
    return ended
