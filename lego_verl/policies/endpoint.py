"""Any OpenAI-compatible server as a policy: it can be evaluated, never trained."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson

from lego_verl.policies.policy import ChatReply, ContextOverflow, PolicyError

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_OVERFLOW = ("context_length_exceeded", "maximum context length", "context window", "prompt is too long")


class EndpointPolicy:
    """Chat completions of a server.

    Args:
        base_url: up to and including ``/v1``.
        model: the server's name of the model.
        timeout: seconds for one reply, all attempts together.
        attempts: how often a fault of the server or of the connection is tried again, first try included.
    """

    def __init__(
        self, base_url: str, *, model: str, api_key: str = "", timeout: float = 600.0, attempts: int = 4
    ) -> None:
        self.model = model
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._timeout, self._attempts = timeout, attempts
        self._client: aiohttp.ClientSession | None = None

    async def reply(self, body: Mapping[str, Any]) -> ChatReply:
        """Ask the server.

        Raises:
            ContextOverflow: when it says that the prompt is too long.
            PolicyError: when it refuses, answers with something else, or does not answer in time.
        """
        if self._client is None:
            self._client = aiohttp.ClientSession()
        data = orjson.dumps({**body, "model": self.model, "stream": False})
        deadline = time.monotonic() + self._timeout
        problem = "no attempt was made"
        for attempt in range(self._attempts):
            if attempt:
                pause = min(0.5 * 2**attempt, 8.0)
                if time.monotonic() + pause >= deadline:
                    break
                await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    async with self._client.post(self._url, data=data, headers=self._headers) as response:
                        status, answer = response.status, await response.read()
            except aiohttp.ClientError as error:
                problem = f"the connection failed: {error}"
                continue
            except TimeoutError:
                problem = f"no answer within {self._timeout:.0f} s"
                break
            if status == 200:
                return _read(answer, self._url)
            text = answer[:500].decode(errors="replace")
            if status in (400, 413) and any(words in text.lower() for words in _OVERFLOW):
                raise ContextOverflow(text)
            problem = f"HTTP {status}: {text}"
            if status not in _RETRIED:
                break
        raise PolicyError(f"{self._url}: {problem}")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


def _read(answer: bytes, url: str) -> ChatReply:
    try:
        reply = orjson.loads(answer)
        choice = reply["choices"][0]
        message, usage = choice["message"], reply.get("usage") or {}
        if not isinstance(message, dict) or not isinstance(usage, dict):
            raise TypeError("message and usage are not objects")
        return ChatReply(message, str(choice.get("finish_reason") or "stop"), usage)
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        raise PolicyError(f"{url}: the answer is no chat completion ({error!r}): {answer[:200]!r}") from error
