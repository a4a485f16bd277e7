"""A model class for mini-swe-agent that speaks chat completions with the standard library alone.

mini's default class imports litellm, which costs seconds of CPU at every start. This one sends the
same requests and keeps the same rules: mini's bash tool, its parsing and formatting of calls and
observations, its retries, and what it aborts on instead. Behaviour of the client below litellm (two
quick retries on 408, 409, 429, 5xx and lost connections, ``Retry-After``) is kept as well.
"""

from __future__ import annotations

import http.client
import json
import logging
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from minisweagent.exceptions import FormatError
from minisweagent.models import GLOBAL_MODEL_STATS
from minisweagent.models.utils.actions_toolcall import (
    BASH_TOOL,
    format_toolcall_observation_messages,
    parse_toolcall_actions,
)
from minisweagent.models.utils.openai_multimodal import expand_multimodal_content
from minisweagent.models.utils.retry import retry
from pydantic import BaseModel

logger = logging.getLogger("thin_model")

TIMEOUT = 600.0
QUICK_RETRIES = 2
FIRST_DELAY, MAX_DELAY, MAX_RETRY_AFTER = 0.5, 8.0, 120.0
OVERFLOW_SIGNS = ("context_length_exceeded", "maximum context length")
ECHOED = ("content", "role", "tool_calls", "reasoning_content")
"""Of a reply, what goes back to the server in the next request, unless it is null."""


class ThinModelConfig(BaseModel):
    model_name: str
    model_kwargs: dict[str, Any] = {}
    """``api_base`` and ``api_key`` say where to; the rest goes into the request's body."""
    format_error_template: str = "{{ error }}"
    observation_template: str = (
        "{% if output.exception_info %}<exception>{{output.exception_info}}</exception>\n{% endif %}"
        "<returncode>{{output.returncode}}</returncode>\n<output>\n{{output.output}}</output>"
    )
    multimodal_regex: str = ""


class APIError(Exception):
    """The server's answer is not a completion, or there was none."""

    def __init__(self, message: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class BadRequestError(APIError): ...


class AuthenticationError(APIError): ...


class NotFoundError(APIError): ...


class ContextWindowExceededError(BadRequestError): ...


# A 403 is not among them: litellm makes no PermissionDeniedError of an OpenAI server's, so mini tries again.
BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    404: NotFoundError,
}


class ThinModel:
    """mini's ``Model`` protocol."""

    abort_exceptions: list[type[BaseException]] = [  # noqa: RUF012  the name and form of mini's own classes
        NotFoundError,
        ContextWindowExceededError,
        AuthenticationError,
        KeyboardInterrupt,
    ]

    def __init__(self, **kwargs: Any) -> None:
        self.config = ThinModelConfig(**kwargs)
        options = dict(self.config.model_kwargs)
        self._api_key = options.pop("api_key", "")
        self._url = urlsplit(options.pop("api_base").rstrip("/") + "/chat/completions")
        options.pop("drop_params", None)  # an instruction to litellm, not to a server
        self._options = options

    def query(self, messages: list[dict[str, Any]], **kwargs: Any) -> dict[str, Any]:
        body = {
            "model": self.config.model_name.removeprefix("openai/"),
            "messages": [{key: value for key, value in message.items() if key != "extra"} for message in messages],
            "tools": [BASH_TOOL],
            **self._options,
            **kwargs,
        }
        for attempt in retry(logger=logger, abort_exceptions=self.abort_exceptions):  # type: ignore[arg-type]
            with attempt:
                response = self._post(json.dumps(body).encode())
        GLOBAL_MODEL_STATS.add(0.0)
        choice = response["choices"][0]
        try:
            actions = self._parse_actions(choice)
        except FormatError as error:
            error.messages[0]["extra"].update(cost=0.0, response=response)
            raise
        message = {key: choice["message"][key] for key in ECHOED if choice["message"].get(key) is not None}
        message["extra"] = {"actions": actions, "response": response, "cost": 0.0, "timestamp": time.time()}
        return message

    def _parse_actions(self, choice: dict[str, Any]) -> list[dict[str, Any]]:
        calls = [
            SimpleNamespace(id=call.get("id"), function=SimpleNamespace(**call["function"]))
            for call in choice["message"].get("tool_calls") or []
        ]
        return parse_toolcall_actions(
            calls,
            format_error_template=self.config.format_error_template,
            template_kwargs={"finish_reason": choice.get("finish_reason")},
        )

    def _post(self, body: bytes) -> dict[str, Any]:
        """One request, with the quick retries of the usual client."""
        for tries in range(QUICK_RETRIES + 1):
            try:
                return self._post_once(body)
            except APIError as error:
                transient = error.status in (0, 408, 409, 429) or error.status >= 500
                if tries == QUICK_RETRIES or not transient or (error.retry_after or 0) > MAX_RETRY_AFTER:
                    raise
                time.sleep(error.retry_after or min(FIRST_DELAY * 2**tries, MAX_DELAY))
        raise AssertionError("unreachable")

    def _post_once(self, body: bytes) -> dict[str, Any]:
        url = self._url
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=TIMEOUT)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        try:
            connection.request("POST", f"{url.path}?{url.query}" if url.query else url.path, body, headers)
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise APIError(f"no answer from {url.netloc}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise _error(response.status, text.decode(errors="replace"), response.headers.get("Retry-After"))
        try:
            answer = json.loads(text)
            if answer["choices"][0]["message"]["role"] != "assistant":
                raise ValueError("the reply is not the assistant's")
        except (ValueError, LookupError, TypeError) as error:
            raise APIError(f"the answer of {url.netloc} is not a chat completion: {error}", 200) from error
        return answer  # type: ignore[no-any-return]

    def format_message(self, **kwargs: Any) -> dict[str, Any]:
        return expand_multimodal_content(kwargs, pattern=self.config.multimodal_regex)  # type: ignore[no-any-return]

    def format_observation_messages(
        self,
        message: dict[str, Any],
        outputs: list[dict[str, Any]],
        template_vars: dict[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        return format_toolcall_observation_messages(  # type: ignore[no-any-return]
            actions=message.get("extra", {}).get("actions", []),
            outputs=outputs,
            observation_template=self.config.observation_template,
            template_vars=template_vars,
            multimodal_regex=self.config.multimodal_regex,
        )

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        return self.config.model_dump()

    def serialize(self) -> dict[str, Any]:
        kind = f"{type(self).__module__}.{type(self).__name__}"
        return {"info": {"config": {"model": self.config.model_dump(mode="json"), "model_type": kind}}}


def _error(status: int, text: str, retry_after: str | None) -> APIError:
    kind = BY_STATUS.get(status, APIError)
    if status == 400 and any(sign in text for sign in OVERFLOW_SIGNS):
        kind = ContextWindowExceededError
    try:
        seconds = float(retry_after) if retry_after else None
    except ValueError:
        seconds = None
    return kind(f"HTTP {status}: {text[:2000]}", status, seconds)
