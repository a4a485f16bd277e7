"""A verdict by Harbor's convention: ``bash /tests/test.sh`` in the workdir writes a reward into a file.

The tested code runs as the same user as what judges it, so it can write that file, too. What can be known of it is
looked for: a reward that cannot be written any more or is no ordinary file, a verifier that was killed and a reward
that is there all the same, a patch that speaks of that file. What cannot be known so, a control experiment may tell
(see ``control``).
"""

from __future__ import annotations

import json
import math

from sandbox.sandbox import Sandbox, SandboxError, SandboxLost
from sandbox.signs import Screened
from sandbox.verdict import Status, Verdict

TESTS = "/tests"
_REWARDS = ("/logs/verifier/reward.txt", "/logs/verifier/reward.json")
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
_RUN_MEASURED = f'command -v python3 >/dev/null && exec python3 -I -c "$2" "$1"; {_RUN}'
_MEASURED = """
import resource, subprocess, sys
code = subprocess.call(["bash", sys.argv[1] + "/test.sh"])
with open("/logs/peak", "w") as file: file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code if code >= 0 else 128 - code)
"""


async def by_script(sandbox: Sandbox, screened: Screened, *, deadline: float, measure: bool) -> Verdict:
    """Run ``test.sh``, which is mounted and may run code of the patch, and read what it says. ``seconds`` is 0."""
    command = ["bash", "-c", _RUN, "verifier", TESTS]
    if measure:
        command = ["bash", "-c", _RUN_MEASURED, "verifier", TESTS, _MEASURED]
    ran = await sandbox.exec(command, deadline=deadline)
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
    reward = await _read_reward(sandbox)
    if ran.exit_code is not None and ran.exit_code > 128 and not isinstance(reward, str) and reward > 0:
        return tampered(f"the verifier was killed by signal {ran.exit_code - 128}, and there is a reward")
    if signs and (isinstance(reward, str) or reward < 1.0):
        return tampered(*signs)
    if isinstance(reward, str):
        return none("failed", f"exit {ran.exit_code}; {reward}")
    return Verdict(reward, "graded", output, 0.0, signs, await _peak(sandbox) if measure else None)


async def _peak(sandbox: Sandbox) -> float | None:
    try:
        return int(await sandbox.get("/logs/peak", limit=64)) / 1024
    except (FileNotFoundError, ValueError):
        return None


async def _read_reward(sandbox: Sandbox) -> float | str:
    """The number; or why there is none."""
    for path in _REWARDS:
        try:
            text = (await sandbox.get(path, limit=1 << 20)).decode(errors="replace").strip()
        except FileNotFoundError:
            continue
        except SandboxLost:
            raise
        except SandboxError as error:  # not a file to be read, or far too large: the verifier's doing
            return f"{error}: not a reward"
        try:
            value = json.loads(text)
        except ValueError:
            return f"{path} holds {text[:80]!r}, not a reward"
        if isinstance(value, dict):
            value = value.get("reward", next(iter(value.values())) if len(value) == 1 else None)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return f"{path} holds {text[:80]!r}, not a reward"
        return float(value)
    return f"the verifier wrote neither {_REWARDS[0]} nor reward.json"
