"""The proxy from its start to the signal that ends it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from lego_verl.capture.record import write_recording
from lego_verl.config import CaptureConfig, ServeConfig
from lego_verl.policies.replay import ReplayPolicy
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.dialects.registry import dialects
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session
from lego_verl.serve.behind import Behind
from lego_verl.serve.pointers import pointers


async def serve(behind: Behind, config: ServeConfig, capture: CaptureConfig | None = None) -> None:
    """Serve until SIGINT or SIGTERM, then end every session and write what was captured.

    Raises:
        OSError: when the address cannot be listened on, or the recordings cannot be written.
    """
    given = config.budget
    budget = Budget(given.turns, given.tokens, given.context, given.seconds)

    def new_session(name: str) -> Session:
        return behind.session(name, budget=budget, capture=capture)

    server = ProxyServer(host=config.host, port=config.port, new_session=new_session, max_sessions=config.sessions)
    out = None if config.out is None else Path(config.out)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # now, and not only when there is something to lose
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    try:
        await server.start()
        _say(server, behind)
        await ended.wait()
    finally:
        await server.stop()
        await behind.close()
    if out is not None:
        for name, session in server.sessions.items():
            write_session(out / name, session, behind)
        print(f"{len(server.sessions)} sessions written to {out}", flush=True)


def _say(server: ProxyServer, behind: Behind) -> None:
    """The address alone on the first line, for programs; the rest is for people."""
    lines = [
        server.url,
        f"{behind.policy.model} answers. Every path /s/SESSION is a session of its own, made at its first use:",
        *pointers(server.url, dialects().keys()),
        f"{server.url}/ lists the sessions, {server.url}/s/SESSION/proof is what was captured of one. Ctrl-C ends it.",
    ]
    print("\n".join(lines), flush=True)


def write_session(folder: Path, session: Session, behind: Behind) -> None:
    """Write a session's proof, its recording where it was captured, and where a replay differed."""
    folder.mkdir(parents=True, exist_ok=True)
    if session.capture is not None:
        write_recording(folder, session.capture)
    if isinstance(behind.policy, ReplayPolicy):
        found = behind.policy.differences.get(session.id, [])
        lines = [json.dumps({"call": each.call, "message": each.message, "how": each.how}) + "\n" for each in found]
        (folder / "differences.jsonl").write_text("".join(lines))
    (folder / "proof.json").write_text(json.dumps(session.proof().as_dict(), indent=1) + "\n")


def tell_difference(session: str, difference: object) -> None:
    """Say on the standard error that a request was not the recorded one."""
    print(f"session {session}: {difference}", file=sys.stderr, flush=True)
