"""A policy that says what a script says, as sampled tokens: for tests, dry runs of a harness, and people.

A script is a list of replies, a JSON-lines file of them, or a callable from a request's messages to one. A
reply is an object with any of

- ``text``, ``reasoning``, ``tool_calls`` (``[{"name", "arguments"}]``, arguments an object or a raw string),
- ``raw``: the whole text as sampled, or ``ids``: the very ids,
- ``when``: a pattern; the first reply whose pattern is found in the request's text answers it, however often.
  Replies without it are used in turn, counted for each session,
- faults: ``error`` (the policy fails with this message), ``delay`` (seconds), ``cut`` (true: in the middle of
  the tool call, or of the text; a number: after so many tokens).
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson

from lego_verl.capture.call import Finish, Sample
from lego_verl.capture.message import Message, Request
from lego_verl.capture.parser import ParsedCall, ToolParser
from lego_verl.capture.render import Renderer
from lego_verl.policies.policy import PolicyError, Sampling

Reply = Mapping[str, Any]
Script = Sequence[Reply] | Path | Callable[[Sequence[Message]], Reply]

_KEYS = {"text", "reasoning", "tool_calls", "raw", "ids", "when", "error", "delay", "cut"}


class ScriptError(ValueError):
    """A script that cannot be used; the message names the reply and what is wrong with it."""


class ScriptedPolicy:
    """Plays a script.

    Log-probabilities are made up, and distinct for every token of a session, so that a test can tell each
    token from all others. ``version`` is the weight version it reports, and may be set between calls.

    Args:
        repeat: what follows the last reply: ``none`` (the policy fails), ``last`` (again and again) or ``cycle``.

    Raises:
        ScriptError: when a reply is not one.
    """

    def __init__(
        self,
        script: Script,
        *,
        renderer: Renderer,
        parser: ToolParser,
        version: int = 0,
        repeat: Literal["none", "last", "cycle"] = "none",
        model: str = "scripted",
    ) -> None:
        self.model = model
        self.version = version
        self._renderer, self._parser, self._repeat = renderer, parser, repeat
        self._choose: Callable[[Sequence[Message]], Reply] | None = None
        self._in_turn: list[Reply] = []
        self._rules: list[tuple[re.Pattern[str], Reply]] = []
        self._used: Counter[str] = Counter()
        self._sampled: Counter[str] = Counter()
        if callable(script):
            self._choose = script
            return
        for number, reply in enumerate(read_script(script) if isinstance(script, Path) else script, start=1):
            check_reply(reply, f"reply {number}")
            if "when" in reply:
                self._rules.append((re.compile(reply["when"]), reply))
            else:
                self._in_turn.append(reply)

    async def generate(self, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling) -> Sample:
        """Answer ids: the request's text is then the decoded prompt."""
        request = Request((Message("user", self._renderer.decode(prompt_ids)),))
        return await self.answer(
            request, session=session, prompt_ids=prompt_ids, max_tokens=max_tokens, sampling=sampling
        )

    async def answer(
        self, request: Request, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling
    ) -> Sample:
        """Play the reply that is due.

        Raises:
            PolicyError: when the script is used up, or says so.
        """
        reply = self._next(request, session)
        if reply.get("delay"):
            await asyncio.sleep(float(reply["delay"]))
        if "error" in reply:
            raise PolicyError(str(reply["error"]))
        ids, finish = self._sampled_ids(reply, sampling.stop)
        if len(ids) > max_tokens:
            ids, finish = ids[:max_tokens], "length"
        first = self._sampled[session]
        self._sampled[session] += len(ids)
        return Sample(
            ids=np.asarray(ids, dtype=np.int32),
            # Multiples of 2^-10: exact in float32 for the first 2^24 tokens, so no two of a session are the same.
            logprobs=-(np.arange(first + 1, first + 1 + len(ids), dtype=np.float64) / 1024).astype(np.float32),
            versions=np.full(len(ids), self.version, dtype=np.int32),
            finish=finish,
        )

    def _next(self, request: Request, session: str) -> Reply:
        if self._choose is not None:
            reply = self._choose(request.messages)
            check_reply(reply, "what the script's function returned")
            return reply
        if self._rules:
            text = "\n".join(_text_of(message) for message in request.messages)
            for pattern, reply in self._rules:
                if pattern.search(text):
                    return reply
        turn = self._used[session]
        count = len(self._in_turn)
        if turn >= count:
            if self._repeat == "none" or not count:
                raise PolicyError(f"session {session}: the script is used up after {count} replies in turn")
            turn = count - 1 if self._repeat == "last" else turn % count
        self._used[session] += 1
        return self._in_turn[turn]

    def _sampled_ids(self, reply: Reply, stop: Sequence[str]) -> tuple[list[int], Finish]:
        if "ids" in reply:
            return list(reply["ids"]), "stop" if reply["ids"][-1] in self._renderer.eos_ids else "length"
        text = reply["raw"] if "raw" in reply else self._written(reply)
        ends = [place + len(string) for string in stop if string and (place := text.find(string)) >= 0]
        if ends:
            return self._renderer.encode(text[: min(ends)]), "stop"
        cut = reply.get("cut")
        if cut is True:
            begin = max(text.find("<tool_call>"), 0)
            return self._renderer.encode(text[: (begin + len(text)) // 2]), "length"
        ids = self._renderer.encode(text)
        if cut:
            return ids[: int(cut)], "length"
        if not ids or ids[-1] not in self._renderer.eos_ids:
            ids.append(self._renderer.close_id)
        return ids, "stop"

    def _written(self, reply: Reply) -> str:
        calls = [
            ParsedCall(
                call["name"],
                call["arguments"] if isinstance(call["arguments"], str) else orjson.dumps(call["arguments"]).decode(),
            )
            for call in reply.get("tool_calls", [])
        ]
        return self._parser.write(
            reply.get("text", ""), reply.get("reasoning", ""), calls, reasoning_open=self._renderer.reasoning_open
        )


def _text_of(message: Message) -> str:
    calls = " ".join(f"{call.name} {call.arguments}" for call in message.tool_calls)
    return f"{message.role}: {message.text} {calls}".rstrip()


def read_script(path: Path) -> list[Reply]:
    """Read a JSON-lines file of replies.

    Raises:
        ScriptError: naming the file and the line.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ScriptError(f"script {path} cannot be read: {error.strerror}") from error
    replies = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            reply = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ScriptError(f"{path}, line {number} is not JSON: {error}") from error
        check_reply(reply, f"{path}, line {number}")
        replies.append(reply)
    return replies


def check_reply(reply: Any, where: str) -> None:
    """Raise ``ScriptError`` unless ``reply`` is one."""
    if not isinstance(reply, Mapping):
        raise ScriptError(f"{where} is not an object but {type(reply).__name__}")
    if unknown := set(reply) - _KEYS:
        raise ScriptError(f"{where} has unknown keys {sorted(unknown)}; there are {sorted(_KEYS)}")
    for key in ("text", "reasoning", "raw", "when", "error"):
        if not isinstance(reply.get(key, ""), str):
            raise ScriptError(f"{where}: {key} is not a string")
    calls = reply.get("tool_calls", [])
    if not isinstance(calls, Sequence) or not all(
        isinstance(call, Mapping)
        and isinstance(call.get("name"), str)
        and isinstance(call.get("arguments"), str | Mapping)
        for call in calls
    ):
        raise ScriptError(f"{where}: tool_calls are objects with a name and arguments (an object or a raw string)")
    if "ids" in reply and (
        not isinstance(reply["ids"], Sequence) or not reply["ids"] or not all(isinstance(i, int) for i in reply["ids"])
    ):
        raise ScriptError(f"{where}: ids is not a list of token ids")
    if "when" in reply:
        try:
            re.compile(reply["when"])
        except re.error as error:
            raise ScriptError(f"{where}: when is not a pattern: {error}") from error
