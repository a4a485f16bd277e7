"""A sandbox that has a keeper inside (``guest.py``): what every backend does the same way over its channel."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.channel import Channel, RequestFailed
from sandbox.sandbox import ExecResult, SandboxError, SandboxLost, SandboxSpec

LINK_PORT = 4747
START_SECONDS = 60.0
GRACE_SECONDS = 30.0
"""How long after a request's deadline a keeper that does not answer is given up."""
_NEARLY_FULL = 1 << 20


class KeptSandbox:
    """Commands and files of a running sandbox. A backend gives it a channel, and ends it when it must."""

    def __init__(self, spec: SandboxSpec, defaults: Mapping[str, str]) -> None:
        """``defaults``: what a command's environment has beside what it is given."""
        self.spec = spec
        self.base_url = None if spec.link is None else f"http://127.0.0.1:{LINK_PORT}"
        self._defaults = dict(defaults)
        self._channel: Channel | None = None
        self._closed = False
        self._turn = asyncio.Lock()
        """Commands take turns, and a command's time counts from its own: each ends whatever else runs."""

    async def exec(
        self,
        command: Sequence[str],
        *,
        deadline: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> ExecResult:
        return await self._run(command, deadline, cwd=cwd, env=env, stdin=stdin)

    async def _run(
        self,
        command: Sequence[str],
        deadline: float,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        reads_tree: bool = False,
    ) -> ExecResult:
        """``reads_tree``: its input is what the keeper was given at its start to be read once."""
        header = {
            "op": "exec",
            "reads_tree": reads_tree,
            "command": list(command),
            "deadline": deadline,
            "cwd": cwd or self.spec.image.workdir,
            "env": {**self._defaults, **(env or {})},
        }
        try:
            async with self._turn:
                answer, output = await self._request(header, stdin, deadline, f"the command {command[0]!r}")
        except RequestFailed as error:
            raise SandboxError(f"{self._label}: {command[0]!r} could not be started: {error.strerror}") from error
        return ExecResult(
            exit_code=answer["exit_code"],
            output=output,
            dropped_bytes=answer["dropped"],
            timed_out=answer["timed_out"],
            out_of_memory=answer["out_of_memory"],
            seconds=answer["seconds"],
        )

    async def put(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        async def put_one(path: str, content: bytes) -> None:
            if not path.startswith("/"):
                raise ValueError(f"{path!r} is not an absolute path")
            header = {"op": "put", "path": path, "executable": executable}
            try:
                await self._request(header, content, START_SECONDS, f"writing {path}")
            except RequestFailed as error:
                raise SandboxError(f"{self._label}: {path} could not be written: {error.strerror}") from error

        await asyncio.gather(*(put_one(path, content) for path, content in files.items()))

    async def get(self, path: str, *, limit: int = 64 << 20) -> bytes:
        header = {"op": "get", "path": path, "limit": limit}
        try:
            _, data = await self._request(header, b"", START_SECONDS, f"reading {path}")
        except RequestFailed as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise FileNotFoundError(errno.ENOENT, f"{self._label}: there is no such file", path) from None
            raise SandboxError(f"{self._label}: {path} cannot be read: {error.strerror}") from error
        return data

    async def disk_full(self) -> bool:
        answer, _ = await self._request({"op": "disk"}, b"", START_SECONDS, "asking for disk room")
        return bool(answer["free"] < min(_NEARLY_FULL, answer["size"] // 64))

    async def close(self) -> None:
        raise NotImplementedError

    # --- the rest is for the backend

    @property
    def _label(self) -> str:
        return f"sandbox of trial {self.spec.trial}"

    def _kill(self) -> None:
        """End it from outside, without waiting: its keeper does not answer."""
        raise NotImplementedError

    async def _request(
        self, header: Mapping[str, object], data: bytes, deadline: float, what: str
    ) -> tuple[Mapping[str, Any], bytes]:
        if self._channel is None or self._closed:
            raise SandboxLost(f"{self._label} is closed")
        asking = asyncio.ensure_future(self._channel.request(header, data))
        try:
            await asyncio.wait({asking}, timeout=deadline + GRACE_SECONDS)
            if not asking.done():
                # Was it the keeper that was silent, or this process that did not listen? Its answer would be here.
                await asyncio.wait({asking}, timeout=1)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        why = f"{self._label} did not answer: {what} was to end within {deadline:g} s; it was ended from outside"
        self._channel.fail(why)
        self._kill()
        raise SandboxLost(why)
