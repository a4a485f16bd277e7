"""A verdict by Harbor's convention: ``bash /tests/test.sh`` in the workdir writes a reward into a file.

The tested code runs as the same user as what judges it, so it can write that file, too. What can be known of it is
looked for: a reward that cannot be written any more or is no ordinary file, two that differ, a verifier that was killed
and a reward that is there all the same, a patch that speaks of that file. What cannot be known so, a control experiment
may tell (see ``control``).
"""

from __future__ import annotations

import json

from sandbox.sandbox import Sandbox, SandboxError, SandboxLost
from sandbox.signs import Screened
from sandbox.verdict import Status, Verdict

TESTS = "/tests"
_REWARDS = ("/logs/verifier/reward.txt", "/logs/verifier/reward.json")
_REWARD_BYTES = 1 << 16
_LOOK = r"""
[ -d /logs/verifier ] && [ ! -L /logs ] && [ ! -L /logs/verifier ] || echo "/logs/verifier is not the folder it was"
[ -w /logs/verifier ] || echo "/logs/verifier cannot be written"
for path in "$@"; do
    [ -e "$path" ] || [ -L "$path" ] || continue
    [ -f "$path" ] && [ ! -L "$path" ] || { echo "$path is not an ordinary file"; continue; }
    [ -w "$path" ] || echo "$path cannot be written"
    [ "$(stat -c %h "$path")" = 1 ] || echo "$path has another name, too"
done
"""
"""What only somebody who stands in the verifier's way leaves. Run when everything else is gone."""
_RUN = 'bash "$1/test.sh"'
_RUN_WATCHED = f'command -v python3 >/dev/null && exec python3 -I -c "$2" "$1" "$3" "$4"; {_RUN}'
_OUTLIVED = 99
_WATCHED = """
import ctypes, os, resource, subprocess, sys
_, folder, peak, tell = sys.argv
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # what loses its parent becomes a child of this process
verifier = subprocess.Popen(["bash", folder + "/test.sh"])
outlived = False
while True:
    pid, status = os.waitpid(-1, 0)
    if pid == verifier.pid:
        break
    outlived = True
code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
try:
    os.waitpid(-1, os.WNOHANG)
    outlived = True
except ChildProcessError:
    pass
if peak:
    with open(peak, "w") as file: file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
if tell:
    code = int(tell) if outlived and code < 128 else 1 if code == int(tell) else code
os._exit(code)
"""
"""Says by its exit code, which tested code cannot write, whether a process outlived the one that had started it: that
is how somebody can wait for the verifier to write a reward, and overwrite it."""
_PEAK = "/logs/peak"


async def by_script(sandbox: Sandbox, screened: Screened, *, deadline: float, measure: bool) -> Verdict:
    """Run ``test.sh``, which is mounted and may run code of the patch, and read what it says. ``seconds`` is 0."""
    ran = await sandbox.exec(run_in(TESTS, measure, tell_outlived=True), deadline=deadline)
    # `exec` returns when every process of the verifier is gone: nothing can still write a reward.
    output = ran.output.decode(errors="replace")
    signs = screened.signs

    def none(status: Status, why: str) -> Verdict:
        return Verdict(None, status, f"{output}\n[{why}]", 0.0, signs)

    def tampered(*why: str) -> Verdict:
        return Verdict(
            0.0,
            "tampered",
            "\n".join([output, *(f"[{each}]" for each in why)]),
            0.0,
            tuple(dict.fromkeys([*signs, *why])),
        )

    if screened.names_channel:
        return tampered(*signs)
    if ran.timed_out:
        return none("timeout", f"no verdict within {deadline:g} s")
    if ran.out_of_memory:
        return none("failed", f"over {sandbox.spec.limits.memory_mb} MiB of memory")
    looked = await sandbox.exec(["sh", "-c", _LOOK, "look", *_REWARDS], deadline=60, cwd="/")
    found = looked.output.decode(errors="replace").splitlines()
    if found:
        return tampered(*found)
    rewards = await _read_rewards(sandbox)
    numbers = {each for each in rewards if not isinstance(each, str)}
    if len(numbers) > 1:
        return tampered(f"two files with rewards that differ: {' and '.join(map(str, rewards))}")
    reward = rewards[0] if rewards else f"the verifier wrote neither {_REWARDS[0]} nor reward.json"
    if ran.exit_code is not None and ran.exit_code > 128 and not isinstance(reward, str) and reward > 0:
        return tampered(f"the verifier was killed by signal {ran.exit_code - 128}, and there is a reward")
    if signs and (isinstance(reward, str) or reward < 1.0):
        return tampered(*signs)
    if isinstance(reward, str):
        return none("failed", f"exit {ran.exit_code}; {reward}")
    memory = await take_peak(sandbox) if measure else None
    return Verdict(reward, "graded", output, 0.0, signs, memory, outlived=ran.exit_code == _OUTLIVED)


def run_in(folder: str, measure: bool, *, tell_outlived: bool = False) -> list[str]:
    """The command that runs ``test.sh`` in a folder; ``measure``: and leaves what ``take_peak`` reads.

    Its exit code is the script's; with ``tell_outlived`` it is ``_OUTLIVED`` where a process outlived its parent.
    """
    if not measure and not tell_outlived:
        return ["bash", "-c", _RUN, "verifier", folder]
    told = str(_OUTLIVED) if tell_outlived else ""
    return ["bash", "-c", _RUN_WATCHED, "verifier", folder, _WATCHED, _PEAK if measure else "", told]


async def take_peak(sandbox: Sandbox) -> float | None:
    """The memory of the verifier's largest process in MiB, when it was measured and is known."""
    try:
        return int(await sandbox.get(_PEAK, limit=64)) / 1024
    except (FileNotFoundError, ValueError):
        return None


async def _read_rewards(sandbox: Sandbox) -> list[float | str]:
    """What the files say that are there: a number, or why it is none."""
    found: list[float | str] = []
    for path in _REWARDS:
        try:
            content = await sandbox.get(path, limit=_REWARD_BYTES)
        except FileNotFoundError:
            continue
        except SandboxLost:
            raise
        except SandboxError as error:  # not a file to be read, or far too large: the verifier's doing
            found.append(f"{error}: not a reward")
        else:
            reward = _number(content)
            shown = content[:80].decode(errors="replace").strip()
            found.append(f"{path} holds {shown!r}, not a reward" if reward is None else reward)
    return found


def _number(content: bytes) -> float | None:
    """A reward from 0 to 1: by itself, as ``reward`` of an object, or as all that an object has."""
    try:
        value = json.loads(content.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = value.get("reward", next(iter(value.values())) if len(value) == 1 else None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)
