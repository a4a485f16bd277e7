"""One trial's conversation with the policy: its capture, its budgets, its retries, its end."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from lego_verl.capture.call import Call, IncompleteSample
from lego_verl.capture.match import ReasoningPolicy
from lego_verl.capture.message import Request
from lego_verl.capture.parser import ToolParser
from lego_verl.capture.proof import Proof, not_captured
from lego_verl.capture.render import Renderer
from lego_verl.capture.segment import TrainingSegment
from lego_verl.capture.session import SessionCapture
from lego_verl.capture.split import Split
from lego_verl.capture.template import TemplateError
from lego_verl.deadline import deadline
from lego_verl.policies.policy import ChatPolicy, Policy, PolicyError, RequestPolicy, Sampling
from lego_verl.proxy.budget import Budget, Ending
from lego_verl.proxy.chat_policy import ask_chat_policy
from lego_verl.proxy.errors import BadRequest, PolicyFailed, PromptTooLong, ProxyError, SessionOver
from lego_verl.proxy.exchange import Answer, Ask, FinishReason
from lego_verl.proxy.generation import Generation, policy_boundary
from lego_verl.proxy.known import Known
from lego_verl.proxy.stored_replies import StoredReplies

_MAX_OVERFLOWS = 8
"""Overflows in a row after which a harness is taken not to compact."""
_UNBOUNDED = 1 << 20
"""Tokens of a reply that neither the harness nor the session bounds: the policy's own context does."""

logger = logging.getLogger(__name__)


class Session:
    """A session. Its harness sees one address; whatever ends it, ``ending`` says so.

    Args:
        id: letters, digits, ``.``, ``_`` and ``-``; unique among a server's open sessions.
        policy: with a ``ChatPolicy`` nothing is captured, and neither renderer nor parser is needed.
        end_status: the HTTP status that the harness gets once the session is over.
        reasoning: whether reasoning that a harness leaves out of its history counts as a change.
        untrained: calls that begin for one of these reasons are answered and recorded, and not trained.
    """

    def __init__(
        self,
        id: str,
        policy: Policy | RequestPolicy | ChatPolicy,
        *,
        renderer: Renderer | None = None,
        parser: ToolParser | None = None,
        sampling: Sampling | None = None,
        budget: Budget | None = None,
        end_status: int = 401,
        reasoning: ReasoningPolicy = "keep",
        untrained: frozenset[Split] = frozenset({Split.SIDE_CALL}),
    ) -> None:
        self.id = id
        self.policy = policy
        self.budget = budget or Budget()
        self.end_status = end_status
        self.failure = ""
        """What went wrong, in one line; empty while nothing has."""
        self.turns = 0
        self.sampled_tokens = 0
        self.replays = 0
        """Requests that were answered with a reply that was already there, or in the making."""
        self.cut: Ending | None = None
        """What cut the last reply short; None where it is whole."""
        self.malformed = 0
        """Tool calls that were sampled and could not be read."""
        self.capture: SessionCapture | None = None
        if isinstance(policy, Policy | RequestPolicy):
            if renderer is None or parser is None:
                raise ValueError(f"session {id}: a policy whose tokens are captured needs a renderer and a parser")
            self.capture = SessionCapture(renderer, parser, reasoning=reasoning, untrained=untrained)
            self._generation = Generation(id, policy)
        self._sampling = sampling or Sampling()
        self._replies = StoredReplies()
        self._running = 0
        self._ended: Ending | None = None
        self._overflows = 0
        self._waiting: dict[asyncio.Future[Answer], asyncio.Task[Answer]] = {}
        self._known = Known()
        self._deadline: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to count the time budget."""
        if self.budget.seconds is not None and self._deadline is None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self.budget.seconds, self.close, "time_limit")

    def close(self, reason: Ending = "closed", failure: str = "") -> None:
        """End the session: calls in flight are given up, and every request gets the end status. The first reason
        stays."""
        if self._ended is not None:
            return
        self._ended = reason
        self.failure = self.failure or failure
        if self._deadline is not None:
            self._deadline.cancel()
        for task in self._replies:
            if not task.done():
                task.cancel()
        for answer, task in list(self._waiting.items()):
            # A call that ends its own session has something better to say.
            if not answer.done() and task is not asyncio.current_task():
                answer.set_exception(SessionOver(self.end_status, self.id, reason))

    @property
    def ending(self) -> Ending | None:
        """Why the session is over, or would be if the harness stopped now; None when nothing stands in the way."""
        return self._ended or ("context_overflow" if self._overflows else None)

    @property
    def over(self) -> bool:
        return self._ended is not None

    @property
    def calls(self) -> list[Call]:
        return self.capture.calls if self.capture else []

    def segments(self) -> list[TrainingSegment]:
        return self.capture.segments() if self.capture else []

    def proof(self) -> Proof:
        return self.capture.proof() if self.capture else not_captured(self.turns, self.sampled_tokens)

    @property
    def complete(self) -> bool:
        """Whether both promises hold: a trial whose session is not complete is never trained."""
        return self.proof().holds

    def ask(
        self, key: bytes, read: Callable[[Known], Ask], mint: Callable[[], str]
    ) -> tuple[Ask, asyncio.Future[Answer]]:
        """Take a request; its answer comes as a future, which ends with a ``ProxyError`` where there is none.

        The generation belongs to the session, not to the connection: a client that goes away loses nothing, and
        when it comes back with the same bytes (``key``) it gets the same reply, or joins the call in flight,
        unless it went on from that reply meanwhile.

        Raises:
            ProxyError: what the harness is to be told instead.
        """
        if self._ended is not None:
            raise SessionOver(self.end_status, self.id, self._ended)
        ask = read(self._known)
        task = self._replies.find(key)
        if task is None:
            self._check_budget()
            task = asyncio.create_task(self._generate(key, ask, mint), name=f"session {self.id}: call {self.turns}")
            self._replies.keep(key, task)
            self._running += 1
            task.add_done_callback(lambda done: self._finished(key, done))
        else:
            self.replays += 1
            if self.budget.turns is not None and self.replays > 4 * self.budget.turns + 16:
                # A harness that drops a reply and asks the same again would otherwise get it for ever.
                self._stop("turn_limit")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_seen)
        self._waiting[answer] = task
        task.add_done_callback(lambda done: self._tell(answer, done))
        return ask, answer

    async def answer(self, key: bytes, read: Callable[[Known], Ask], mint: Callable[[], str]) -> tuple[Ask, Answer]:
        """``ask``, and wait for the answer."""
        ask, answer = self.ask(key, read, mint)
        return ask, await answer

    def _tell(self, answer: asyncio.Future[Answer], task: asyncio.Task[Answer]) -> None:
        self._waiting.pop(answer, None)
        if answer.done():  # the session ended first, or nobody waits any more
            return
        error = SessionOver(self.end_status, self.id, self._ended or "closed") if task.cancelled() else task.exception()
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result())

    def count(self, request: Request) -> int:
        """Tokens of the prompt that the policy would see for a request; no turn is used and nothing is captured.

        Raises:
            ProxyError: when the session is over, nobody here knows the policy's tokens, or the template refuses.
        """
        if self._ended is not None:
            raise SessionOver(self.end_status, self.id, self._ended)
        if self.capture is None:
            raise BadRequest("tokens cannot be counted: the policy is an endpoint that is known only by its text")
        try:
            return len(self.capture.prepare(request).prompt_ids)
        except TemplateError as error:
            raise BadRequest(str(error)) from error

    def _finished(self, key: bytes, task: asyncio.Task[Answer]) -> None:
        self._running -= 1
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            self._replies.drop(key)
        if error is not None and not isinstance(error, ProxyError):
            logger.error("session %s: a call failed in the proxy", self.id, exc_info=error)
            self.close("policy_failed", f"the proxy failed: {error!r}")

    def _check_budget(self) -> None:
        if self.budget.turns is not None and self.turns + self._running >= self.budget.turns:
            self._stop("turn_limit")
        if self.budget.tokens is not None and self.sampled_tokens >= self.budget.tokens:
            self._stop("token_limit")

    def _stop(self, reason: Ending) -> None:
        self.close(reason)
        raise SessionOver(self.end_status, self.id, reason)

    async def _generate(self, key: bytes, ask: Ask, mint: Callable[[], str]) -> Answer:
        try:
            if self.capture is None:
                answer = await self._chat(ask, mint)
            else:
                answer = await self._captured(self.capture, key, ask, mint)
        except PromptTooLong:
            self._overflows += 1
            if self._overflows >= _MAX_OVERFLOWS:
                self.close("context_overflow")
            raise
        except (PolicyError, IncompleteSample) as error:
            self.close("policy_failed", str(error))
            raise PolicyFailed(str(error)) from error
        self._overflows = 0
        self.cut = self._cut_by(answer)
        self.turns += 1
        self.sampled_tokens += answer.completion_tokens
        return answer

    def _cut_by(self, answer: Answer) -> Ending | None:
        if answer.finish != "length":
            return None
        context = self.budget.context
        full = context is not None and answer.prompt_tokens + answer.completion_tokens >= context
        return "context_overflow" if full else "token_limit"

    async def _captured(self, capture: SessionCapture, key: bytes, ask: Ask, mint: Callable[[], str]) -> Answer:
        started = time.perf_counter()
        try:
            prepared = capture.prepare(ask.request)
        except TemplateError as error:
            raise BadRequest(str(error)) from error
        if prepared.base is not None:
            self._replies.gone_on_from(prepared.base_call)
        room = self._room(len(prepared.prompt_ids), ask.max_tokens)
        sampling = replace(self._sampling, stop=(*self._sampling.stop, *ask.stop))
        async with self._in_time():
            sample = await self._generation.sample(capture, prepared, room, sampling)
        try:
            committed = capture.commit(
                prepared,
                sample,
                seconds=time.perf_counter() - started,
                stop=sampling.stop,
                mint=mint,
                sampling=ask.sampling,
            )
        except IncompleteSample:
            capture.lose("incomplete", len(sample.ids))
            raise
        self._replies.committed(committed.call.index, key)
        self.malformed += committed.malformed
        finish: FinishReason = "tool_calls" if committed.message.tool_calls else "stop"
        if sample.finish == "length" and not committed.stopped:
            finish = "length"
        return Answer(
            id=uuid.uuid4().hex,
            created=int(time.time()),
            message=committed.message,
            finish=finish,
            prompt_tokens=len(prepared.prompt_ids),
            completion_tokens=len(sample.ids),
            stopped=committed.stopped,
        )

    def _in_time(self) -> AbstractAsyncContextManager[None]:
        return deadline(self.budget.reply_seconds, f"the policy to answer session {self.id}", PolicyError)

    def _room(self, prompt_tokens: int, asked: int | None) -> int:
        """Tokens that may be sampled: the least of what the harness asked for, the session has left, and fits."""
        limits = [asked] if asked is not None else []
        if self.budget.tokens is not None:
            limits.append(max(self.budget.tokens - self.sampled_tokens, 1))
        if self.budget.context is not None:
            if prompt_tokens >= self.budget.context:
                raise PromptTooLong(prompt_tokens, self.budget.context)
            limits.append(self.budget.context - prompt_tokens)
        return min(limits, default=_UNBOUNDED)

    async def _chat(self, ask: Ask, mint: Callable[[], str]) -> Answer:
        assert isinstance(self.policy, ChatPolicy)
        left = None if self.budget.tokens is None else max(self.budget.tokens - self.sampled_tokens, 1)
        limits = [limit for limit in (ask.max_tokens, left) if limit is not None]
        with policy_boundary(self.id):
            async with self._in_time():
                return await ask_chat_policy(
                    self.policy, ask, self._sampling, max_tokens=min(limits) if limits else None, mint=mint
                )


def _seen(answer: asyncio.Future[Answer]) -> None:
    """A client that went away leaves an answer that nobody reads; that is no fault to be logged."""
    if not answer.cancelled():
        answer.exception()
