"""One sample of a policy, whole: what a weight update aborts goes on where it stopped."""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from lego_verl.capture.call import Sample
from lego_verl.capture.resume import joined
from lego_verl.capture.session import Prepared, SessionCapture
from lego_verl.policies.policy import ContextOverflow, Policy, PolicyError, RequestPolicy, Sampling
from lego_verl.proxy.errors import PromptTooLong

_MAX_RESUMES = 64
"""Weight updates that one generation may span before it counts as failed."""

logger = logging.getLogger(__name__)


class Generation:
    """Asks one policy for the samples of one session."""

    def __init__(self, session: str, policy: Policy | RequestPolicy) -> None:
        self._session = session
        # Which kind it is, is asked once: a check against a protocol is too slow for every call.
        self._answering = policy if isinstance(policy, RequestPolicy) else None
        self._generating = policy if isinstance(policy, Policy) else None

    async def sample(self, capture: SessionCapture, prepared: Prepared, max_tokens: int, sampling: Sampling) -> Sample:
        """Generate, and go on after every abort, until the sample is whole.

        Raises:
            PromptTooLong: when the policy says so.
            PolicyError: when the policy fails, or is aborted again and again; what was sampled is recorded as lost.
        """
        sample: Sample | None = None
        prompt = prepared.prompt_ids
        try:
            for _ in range(_MAX_RESUMES):
                sent, room = prompt, max_tokens
                if sample is not None and len(sample.ids):
                    sent = prompt[:]
                    sent.extend(sample.ids.tolist())
                    room = max_tokens - len(sample.ids)
                part = await self._ask(prepared, sent, room, sampling)
                sample = joined(sample, part, len(prompt))
                if sample.finish != "aborted":
                    return sample
                if len(sample.ids) >= max_tokens:
                    return replace(sample, finish="length")
            raise PolicyError(f"session {self._session}: a generation was aborted {_MAX_RESUMES} times")
        except (PolicyError, asyncio.CancelledError) as error:
            reason = "closed" if isinstance(error, asyncio.CancelledError) else "policy_failed"
            capture.lose(reason, 0 if sample is None else len(sample.ids))
            raise

    async def _ask(self, prepared: Prepared, sent: array[int], max_tokens: int, sampling: Sampling) -> Sample:
        with policy_boundary(self._session):
            if self._answering is not None:
                return await self._answering.answer(
                    prepared.request, session=self._session, prompt_ids=sent, max_tokens=max_tokens, sampling=sampling
                )
            assert self._generating is not None
            return await self._generating.generate(
                session=self._session, prompt_ids=sent, max_tokens=max_tokens, sampling=sampling
            )


@contextmanager
def policy_boundary(session: str) -> Iterator[None]:
    """Where a policy is asked. It may be anybody's code and raise anything: whatever it is, the call did not happen,
    nothing of it is committed, and the trial ends as ``policy_failed``.

    Raises:
        PromptTooLong: for a ``ContextOverflow``.
        PolicyError: for everything else.
    """
    try:
        yield
    except PolicyError:
        raise
    except ContextOverflow as error:
        raise PromptTooLong(None, None, str(error)) from error
    except Exception as error:
        logger.exception("session %s: the policy raised", session)
        raise PolicyError(f"session {session}: the policy raised {error!r}") from error
