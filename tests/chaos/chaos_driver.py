"""A driver that is to be killed: trials whose policy never answers, on docker and local, until somebody ends it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "trial")]

from trial_helpers import ScriptHarness, make_task, trial  # noqa: E402

from lego_verl.proxy.server import ProxyServer  # noqa: E402
from lego_verl.trial.bench import Bench  # noqa: E402
from sandbox.docker import DockerBackend  # noqa: E402
from sandbox.local import LocalBackend  # noqa: E402
from sandbox.sandbox import Backend, Limits  # noqa: E402


async def main(run: str, daemon: str, folder: Path) -> None:
    task = make_task(folder / "mend")
    server = ProxyServer()
    await server.start()
    backends: dict[str, Backend] = {"docker": DockerBackend([daemon]), "local": LocalBackend()}
    trials = []
    for name, backend in backends.items():
        bench = Bench(
            run=run,
            backend=backend,
            scratch=backend.scratch,
            server=server,
            adapter=ScriptHarness("trap '' TERM; ask; sleep 3600"),
            runtime=None,
            slots=asyncio.Semaphore(8),
            starts=asyncio.Semaphore(2),
            sandbox=Limits(memory_mb=256, processes=64, disk_mb=32),
        )
        limits = {"seconds": 3600.0}
        trials += [trial(bench, f"{name}{number}", task, limits=limits) for number in range(2)]
    running = [asyncio.create_task(each) for each in trials]
    while sum(session.turns for session in server.sessions.values()) < len(running):
        await asyncio.sleep(0.05)
    print("ready", flush=True)
    await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
