"""verl's rollout servers as a ``Policy``: what stands behind the proxy in training."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from verl.workers.rollout.llm_server import LLMServerClient

from lego_verl.capture.call import Finish, Sample
from lego_verl.policies.policy import PolicyError, Sampling


class VerlPolicy:
    """Samples from verl's ``LLMServerClient`` (verl/workers/rollout/llm_server.py), which routes a session
    to one server so that its prefix cache is used.

    Args:
        eos_ids: ids that end a generation; tells a stop from a cut, which verl does not report.
        seconds: deadline of one generation.
    """

    def __init__(self, client: LLMServerClient, *, model: str, eos_ids: frozenset[int], seconds: float) -> None:
        self.model = model
        self._client, self._eos_ids, self._seconds = client, eos_ids, seconds

    async def generate(self, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling) -> Sample:
        """Sample a continuation.

        Raises:
            PolicyError: when the server fails, gives no log-probabilities, or does not answer in time.
        """
        params = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "repetition_penalty": 1.0,
            "logprobs": True,
            "max_tokens": max_tokens,
            **sampling.extra,
        }
        if sampling.stop:
            params["stop"] = list(sampling.stop)
        try:
            async with asyncio.timeout(self._seconds):
                output = await self._client.generate(
                    request_id=session, prompt_ids=[int(token) for token in prompt_ids], sampling_params=params
                )
        except TimeoutError as error:
            raise PolicyError(
                f"session {session}: waited {self._seconds:.0f} s for the rollout server to generate"
            ) from error
        except Exception as error:  # Ray wraps what the server raised in classes of its own making
            raise PolicyError(f"session {session}: the rollout server failed: {error}") from error
        if output.log_probs is None:
            raise PolicyError(
                f"session {session}: the rollout server returned no log-probabilities; "
                "set actor_rollout_ref.rollout.calculate_log_probs=true"
            )
        version = output.extra_fields.get("global_steps")
        if version is None:
            raise PolicyError(f"session {session}: the rollout server does not say which weights it used")
        ids = np.asarray(output.token_ids, dtype=np.int32)
        return Sample(
            ids=ids,
            logprobs=np.asarray(output.log_probs, dtype=np.float32),
            versions=np.full(len(ids), version, dtype=np.int32),
            finish=self._finish(output.stop_reason, ids),
            routes=output.routed_experts,
        )

    def _finish(self, stop_reason: str | None, ids: np.ndarray) -> Finish:
        if stop_reason == "aborted":
            return "aborted"
        return "stop" if len(ids) and int(ids[-1]) in self._eos_ids else "length"
