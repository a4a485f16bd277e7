"""Which groups verl's sampler made a step of, and which it took out: the ledger accounts for both.

verl's replay buffer (verl/trainer/ppo/v1/replay_buffer.py) clears a group that is too old, failed, or without variance
(``algorithm.filter_groups``) from its queue without a word to anyone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

STALE, NO_VARIANCE, FAILED, SURPLUS = "group_stale", "group_no_variance", "group_failed", "group_surplus"
"""Why a group was taken out. ``surplus``: enough others were there."""


class SampledGroups:
    """Follows the replay buffer of a trainer: what it took for training since ``take`` was last called."""

    def __init__(self, buffer: Any) -> None:
        self._sampled: list[str] = []
        self._evicted: dict[str, str] = {}
        select, evict, clear = buffer._select_prompt_uids, buffer._evict_terminal_groups, buffer._clear_groups

        def noted_select(partition_id: str, *args: Any, **kwargs: Any) -> Any:
            selected = select(partition_id, *args, **kwargs)
            if partition_id == "train":
                self._sampled.extend(selected[0])
            return selected

        def noted_evict(global_steps: int, partition_id: str, reasons: Any) -> Any:
            if partition_id == "train":
                for why, groups in zip((STALE, NO_VARIANCE, FAILED), reasons, strict=False):
                    self._note(groups, why)
            return evict(global_steps, partition_id, reasons)

        def noted_clear(partition_id: str, groups: Iterable[str]) -> Any:
            if partition_id == "train":
                self._note(groups, SURPLUS)
            return clear(partition_id, groups)

        buffer._select_prompt_uids, buffer._evict_terminal_groups = noted_select, noted_evict
        buffer._clear_groups = noted_clear

    def _note(self, groups: Iterable[str], why: str) -> None:
        for group in groups:
            self._evicted.setdefault(group, why)

    def take(self) -> tuple[list[str], dict[str, str]]:
        """(the groups that were sampled, the reason of each that was taken out)."""
        taken = self._sampled, self._evicted
        self._sampled, self._evicted = [], {}
        return taken
