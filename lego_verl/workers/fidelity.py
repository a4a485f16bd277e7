"""What stops a step whose tokens are not what was sampled, or not by weights near enough to the trainer's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lego_verl.config import GuardConfig
from lego_verl.workers.step_account import StepAccount


class FidelityError(RuntimeError):
    """What would be trained is not what was sampled."""


def check_proof(account: StepAccount) -> None:
    """The capture proof of a step must be whole. Raises ``FidelityError``."""
    if account.loss_tokens and (account.proof_provenance, account.proof_context) != (1, 1):
        raise FidelityError(
            f"step {account.step} ({account.split}): the capture proof is not whole (provenance "
            f"{account.proof_provenance:.4%}, context {account.proof_context:.4%}); the step is not trained"
        )


def check_alignment(found: Mapping[str, Any], guard: GuardConfig, step: int, *, ages: bool) -> None:
    """Tokens of the trainer's own weights must agree; of all tokens, enough must be left of their weights.

    Args:
        found: ``alignment_batch.step_alignment``.
        ages: whether tokens of older weights are to be expected (steps overlap). Else they would slip by
            ``min_pearson``, which does not count them.

    Raises:
        FidelityError: naming the guard.
    """
    fresh = found["by_lag"].get("0", {"tokens": 0})
    if guard.min_pearson > 0 and not ages and fresh["tokens"] != found["overall"]["tokens"]:
        lags = ", ".join(f"{lag}: {of['tokens']}" for lag, of in found["by_lag"].items())
        raise FidelityError(
            f"step {step}: tokens were sampled by other weights than the trainer's (lag: tokens {lags}), and "
            "steps do not overlap here; the step is not trained. See docs/02-how-it-works.md#guards"
        )
    if guard.min_pearson > 0 and fresh["tokens"] and not fresh["pearson_probabilities"] >= guard.min_pearson:
        raise FidelityError(
            f"step {step}: token probabilities of rollout and trainer correlate at "
            f"{fresh['pearson_probabilities']:.5f}, under lego.guard.min_pearson={guard.min_pearson}; the step is not "
            "trained. See docs/02-how-it-works.md#guards"
        )
    share = found["overall"]["effective_share"]
    if guard.min_effective_share > 0 and not share >= guard.min_effective_share:
        raise FidelityError(
            f"step {step}: the effective sample size is {share:.3f} of the loss tokens, under "
            f"lego.guard.min_effective_share={guard.min_effective_share}: rollout and trainer are too far apart; the "
            "step is not trained. See docs/10-alignment.md"
        )
