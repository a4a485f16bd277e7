"""Policies under names of litellm: ``litellm.completion("lego/NAME", …)`` asks one without any server.

    provider = register({"script": behind.session})
    litellm.completion("lego/script", messages=…, tools=…, session="trial-1")

Each call goes through a session of this project, as a call through the proxy does: it is captured, and
``provider.session("script", "trial-1").proof()`` says what of it. This is the only file that imports litellm,
which takes seconds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from hashlib import sha256
from typing import Any, TypeVar

import litellm
import orjson
from litellm.llms.custom_llm import CustomLLMError

from lego_verl.policies.endpoint import EndpointPolicy
from lego_verl.proxy.dialects.chat import ChatCompletions
from lego_verl.proxy.errors import ProxyError
from lego_verl.proxy.exchange import Answer, Ask
from lego_verl.proxy.session import Session

SESSION = "session"
"""The argument of ``litellm.completion`` that names the session; without it there is one for each name."""
_DEFAULT = "default"
_END = b"[DONE]"

NewSession = Callable[[str], Session]
T = TypeVar("T")


class LegoProvider(litellm.CustomLLM):
    """What litellm asks for names that begin with the provider's.

    Sessions live on a thread of their own, so that calls from any thread and from any event loop share them.

    Args:
        policies: by name, what makes a session of a policy.
    """

    def __init__(self, name: str, policies: Mapping[str, NewSession]) -> None:
        super().__init__()
        self.name = name
        self._policies = dict(policies)
        self._sessions: dict[tuple[str, str], Session] = {}
        self._dialect = ChatCompletions()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"litellm provider {name}", daemon=True)
        self._thread.start()

    def session(self, policy: str, session: str = _DEFAULT) -> Session:
        """A session that has been used.

        Raises:
            KeyError: when it has not.
        """
        return self._sessions[policy, session]

    def close(self) -> None:
        """Close every session, and take the provider out of litellm's map. A second time does nothing."""
        litellm.custom_provider_map = [
            entry for entry in litellm.custom_provider_map if entry["custom_handler"] is not self
        ]
        if self._thread.is_alive():
            self._on_loop(self._close()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _close(self) -> None:
        for session in self._sessions.values():
            session.close()
            if isinstance(session.policy, EndpointPolicy):
                await session.policy.close()

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # litellm calls these with a dozen arguments by name, and adds more from release to release.

    def completion(self, **given: Any) -> litellm.ModelResponse:  # type: ignore[override]
        return self._whole(*self._on_loop(self._answer(given)).result())

    async def acompletion(self, **given: Any) -> litellm.ModelResponse:  # type: ignore[override]
        return self._whole(*await asyncio.wrap_future(self._on_loop(self._answer(given))))

    def streaming(self, **given: Any) -> Iterator[litellm.ModelResponseStream]:  # type: ignore[override]
        return self._chunks(*self._on_loop(self._answer(given)).result())

    async def astreaming(self, **given: Any) -> AsyncIterator[litellm.ModelResponseStream]:  # type: ignore[override]
        for chunk in self._chunks(*await asyncio.wrap_future(self._on_loop(self._answer(given)))):
            yield chunk

    async def _answer(self, given: Mapping[str, Any]) -> tuple[Ask, Answer]:
        """Answer in the session, on its loop; what the session refuses becomes litellm's error."""
        model, options = str(given["model"]), dict(given.get("optional_params") or {})
        name = str(options.pop(SESSION, _DEFAULT))
        # The usage is always wanted: litellm decides whether it is passed on.
        options.update(options.pop("extra_body", None) or {}, stream_options={"include_usage": True})
        body = orjson.dumps({"model": model, "messages": given["messages"], **options})
        try:
            session = self._session(model, name)
            return await session.answer(
                sha256(body).digest(), lambda known: self._dialect.read(body, {}, known), self._dialect.mint
            )
        except ProxyError as error:
            if error.code == "context_length_exceeded":
                raise litellm.ContextWindowExceededError(error.message, model, self.name) from error
            raise CustomLLMError(status_code=error.status, message=error.message) from error

    def _session(self, policy: str, name: str) -> Session:
        session = self._sessions.get((policy, name))
        if session is None:
            if policy not in self._policies:
                known = ", ".join(sorted(self._policies))
                raise ProxyError(404, f"{self.name}/{policy}: there is no such policy; there are {known}")
            session = self._sessions[policy, name] = self._policies[policy](name)
            session.start()
        return session

    def _whole(self, ask: Ask, answer: Answer) -> litellm.ModelResponse:
        return litellm.ModelResponse(**orjson.loads(self._dialect.whole(ask, answer)))

    def _chunks(self, ask: Ask, answer: Answer) -> Iterator[litellm.ModelResponseStream]:
        events = [event.removeprefix(b"data: ").strip() for event in self._dialect.events(ask, answer)]
        *chunks, finish, usage = [orjson.loads(event) for event in events if event != _END]
        # litellm reads nothing behind the finish reason, and would make up a usage that it was not told before.
        chunks[-1]["usage"] = usage["usage"]
        for chunk in (*chunks, finish):
            yield litellm.ModelResponseStream(**{name: value for name, value in chunk.items() if value is not None})


def register(policies: Mapping[str, NewSession], name: str = "lego") -> LegoProvider:
    """Make policies known to litellm as ``name/POLICY``, until the provider is closed.

    Args:
        policies: by name, what makes a session of a policy: ``Behind.session`` of ``lego_verl.serve``, for one.

    Raises:
        ValueError: when litellm has another provider of this name.
    """
    if any(entry["provider"] == name for entry in litellm.custom_provider_map):
        raise ValueError(f"litellm has a provider {name!r} already; close that one, or choose another name")
    provider = LegoProvider(name, policies)
    litellm.custom_provider_map = [*litellm.custom_provider_map, {"provider": name, "custom_handler": provider}]
    return provider
