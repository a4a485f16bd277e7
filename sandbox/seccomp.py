"""A system-call filter for what namespaces and a dropped uid leave open.

A process may change the limits and the priority of another of its uid, and the keeper has the agent's:
so those calls are refused when they name pid 1, or everybody. The kernel's key rings, which belong to
a uid and not to a sandbox, and a few interfaces that no test suite needs and that have a history
(io_uring, bpf, userfaultfd, perf) are not there at all.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_KEEPER = 1


@dataclass(frozen=True)
class _Machine:
    audit: int
    prlimit: int
    setparam: int
    setscheduler: int
    setaffinity: int
    setattr: int
    setpriority: int
    ioprio_set: int
    absent: tuple[int, ...]
    """add_key, request_key, keyctl, perf_event_open, bpf, userfaultfd, io_uring_setup"""


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 302, 142, 144, 203, 314, 141, 251, (248, 249, 250, 298, 321, 323, 425)),
    "aarch64": _Machine(0xC00000B7, 261, 118, 119, 122, 274, 140, 30, (217, 218, 219, 241, 280, 282, 425)),
}


def filter_program(machine: str | None = None) -> bytes | None:
    """The filter as ``bwrap --seccomp`` reads it; None where the numbers of the calls are not known here."""
    numbers = _MACHINES.get(machine or platform.machine())
    if numbers is None:
        return None
    refuse, absent = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, numbers.audit),
        (_RETURN, 0, 0, absent),  # a call of another architecture, which the numbers below do not describe
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, absent),
    ]
    for number in numbers.absent:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, absent)]
    everybody = {numbers.setpriority: 2, numbers.ioprio_set: 3}  # "all processes of a user"
    by_pid = (numbers.prlimit, numbers.setparam, numbers.setscheduler, numbers.setaffinity, numbers.setattr)
    for number in by_pid:
        code += _refuse_if(number, [(0, _KEEPER)], refuse)
    for number, which in everybody.items():
        code += _refuse_if(number, [(0, which), (1, _KEEPER)], refuse)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _refuse_if(number: int, arguments: list[tuple[int, int]], refuse: int) -> list[tuple[int, int, int, int]]:
    """Refuse a call when any of its arguments (index, value) is so; the lower half, as the kernel reads an int."""
    checks = []
    for index, value in arguments:
        checks += [(_LOAD, 0, 0, _ARGUMENTS + 8 * index), (_EQUAL, 0, 1, value), (_RETURN, 0, 0, refuse)]
    checks.append((_RETURN, 0, 0, _ALLOW))
    return [(_EQUAL, 0, len(checks), number), *checks]
