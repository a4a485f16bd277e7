"""One docker daemon: the SDK's blocking calls on a bounded pool of threads, and its errors in our words."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sandbox.channel import Writer
from sandbox.docker_attach import Address, AttachedReader, attach
from sandbox.docker_tunnel import Tunnel
from sandbox.sandbox import SandboxError, SandboxUnavailable

T = TypeVar("T")
THREADS = 16
CALL_SECONDS = 120
"""How long the daemon may be silent during one call."""
OLDEST_API = (1, 41)
"""Engine 20.10."""
_SOCKET = "unix:///var/run/docker.sock"


class DaemonGone(SandboxError):
    """The daemon does not answer."""


class Refused(SandboxError):
    """The daemon answered that it does not, or cannot."""


class NotThere(SandboxError):
    """The daemon knows no such container or image."""


class DockerHost:
    """A daemon that sandboxes can run on. Connects when it is first asked for something."""

    def __init__(self, url: str | None = None) -> None:
        """``url``: as in ``DOCKER_HOST``, which it defaults to with the TLS settings beside it."""
        verify = os.environ.get("DOCKER_TLS_VERIFY", "") not in ("", "0")
        certificates = Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
        url = url or os.environ.get("DOCKER_HOST") or _SOCKET
        self.url = url
        self._certificates = certificates if verify and url.startswith("tcp://") else None
        self._tunnel = Tunnel(url) if url.startswith("ssh://") else None
        self._address = Address(url, self._certificates)
        self.prefix = f"lego-{uuid.uuid4().hex[:12]}-"
        """How the names of this object's containers begin; another of this process has another."""
        self.sandboxes: set[str] = set()
        """The names of our containers that are, or are about to be, here."""
        self.importing = asyncio.Lock()
        """Held while the image of the machine's own files is made, which every task may need at the same time."""
        self._client: Any = None
        self._opening = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return self.url

    @property
    def is_local(self) -> bool:
        """Whether it is reached by a socket of this machine, so that paths mean the same here and there."""
        return self.url.startswith("unix://")

    def new_name(self) -> str:
        """A name for a container of ours."""
        return self.prefix + uuid.uuid4().hex[:12]

    async def check(self) -> None:
        """``SandboxUnavailable`` in one line when it is not there or cannot do."""
        try:
            version = await self.call(lambda api: api.version())
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            raise SandboxUnavailable(f"the docker sandbox cannot be used: {error}") from error
        if tuple(int(part) for part in version["ApiVersion"].split(".")) < OLDEST_API:
            raise SandboxUnavailable(f"{self} is docker {version['Version']}; the docker sandbox needs 20.10 or newer")
        if version.get("Os") != "linux":
            raise SandboxUnavailable(f"{self} runs {version.get('Os')} containers; the docker sandbox needs linux")

    async def call(self, what: Callable[[Any], T]) -> T:
        """``what(api)`` on a thread, with the SDK's ``APIClient``.

        Raises:
            DaemonGone: when it does not answer.
            NotThere: for a container, image or volume that it does not know.
            Refused: with its words for every other fault.
        """
        self._threads = self._threads or ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, what)

    def call_soon(self, what: Callable[[Any], object]) -> None:
        """The same without waiting, and without telling of a failure."""
        self._threads = self._threads or ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self._threads.submit(self._call, what)

    async def attach(self, container: str) -> tuple[AttachedReader, Writer]:
        """See ``docker_attach.attach``; ``call`` must have been used before. ``DaemonGone`` when it does not answer."""
        try:
            return await attach(self._address, str(self._client.api_version), container)
        except OSError as error:
            raise DaemonGone(f"the docker daemon {self} does not answer: {_words(error)}") from error

    def _call(self, what: Callable[[Any], T]) -> T:
        with plain_errors(str(self)):
            if self._client is None or (self._tunnel is not None and not self._tunnel.is_open):
                self._client = self._connect()
            return what(self._client)

    def _connect(self) -> Any:
        try:
            import docker
        except ImportError:
            raise SandboxUnavailable(
                "the docker sandbox needs the docker SDK: pip install 'lego_verl[docker]'"
            ) from None
        if self._tunnel is not None:
            with self._opening:
                if not self._tunnel.is_open:
                    self._address = Address(self._tunnel.open())
        tls: Any = False
        if (folder := self._certificates) is not None:
            pair = (str(folder / "cert.pem"), str(folder / "key.pem"))
            tls = docker.tls.TLSConfig(client_cert=pair, ca_cert=str(folder / "ca.pem"), verify=True)

        def client(version: str) -> Any:
            made = docker.APIClient(
                self._address.url, version=version, timeout=CALL_SECONDS, tls=tls, max_pool_size=THREADS
            )
            made.trust_env = False  # or a proxy or REQUESTS_CA_BUNDLE of the environment would come between
            return made

        with client(".".join(map(str, OLDEST_API))) as first:
            version = first.version(api_version=False)["ApiVersion"]
        return client(version)


@contextmanager
def plain_errors(daemon: str) -> Iterator[None]:
    """The SDK's errors, and those of the library below it, as ours."""
    try:
        import docker.errors
        import requests
        import urllib3
    except ImportError:
        raise SandboxUnavailable("the docker sandbox needs the docker SDK: pip install 'lego_verl[docker]'") from None
    try:
        yield
    except docker.errors.NotFound as error:
        raise NotThere(f"the docker daemon {daemon} has no such thing: {_words(error.explanation or error)}") from error
    except docker.errors.APIError as error:
        raise Refused(f"the docker daemon {daemon} refused: {_words(error.explanation or error)}") from error
    except (
        docker.errors.DockerException, docker.errors.StreamParseError, requests.RequestException, OSError,
        urllib3.exceptions.HTTPError,  # of a stream that breaks off: nobody wraps it
    ) as error:  # fmt: skip
        raise DaemonGone(f"the docker daemon {daemon} does not answer: {_words(error)}") from error


def _words(error: object) -> str:
    return " ".join(str(error).split())[:300]
