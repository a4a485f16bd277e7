"""The canary of a training run: which sequences, which engines, and when they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from lego_verl.workers.alignment_routes import NOT_RECORDED, replays, route_shape
from lego_verl.workers.canary import Canary, Reading, Replayed
from lego_verl.workers.canary_readings import ENGINES, read_servers, read_trainer
from lego_verl.workers.canary_sequences import canary_sequences

_TEXTS = 2
"""Tasks of the run whose instructions are among the sequences."""
_TOLERANCE = {"float32": 1e-4}
_ROUNDED = 0.2
"""Of a rollout in 16 bits. Measured on the tiny policy in docs/10-alignment.md; larger vocabularies are noisier."""


class SyncCanary:
    """Reads the trainer before a weight sync and the servers after it, and compares.

    Args:
        trainer: verl's trainer, set up.
        engine: ``rollout.name``.
    """

    def __init__(self, trainer: Any, engine: str, sequences: list[list[int]], tolerance: float) -> None:
        self._trainer, self._engine, self._sequences = trainer, engine, sequences
        self._canary = Canary(tolerance=tolerance)
        self._reading: Reading | None = None

    @classmethod
    def of(cls, trainer: Any) -> SyncCanary | None:
        """The canary that a recipe asks for; None where it asks for none, or where the engine cannot be read."""
        guard, rollout = trainer._lego.guard, trainer.config.actor_rollout_ref.rollout
        if not guard.canary or rollout.name not in ENGINES:
            return None
        tolerance = guard.canary_tolerance
        return cls(
            trainer,
            rollout.name,
            canary_sequences(
                lambda text: trainer.tokenizer.encode(text, add_special_tokens=False),
                task_texts(trainer.train_dataset, _TEXTS),
                vocabulary=len(trainer.tokenizer),
                seed=trainer._lego.run.seed,
            ),
            _TOLERANCE.get(rollout.dtype, _ROUNDED) if tolerance is None else tolerance,
        )

    def read_trainer(self) -> None:
        """Score with the trainer's weights as they are now, which are those of the next sync, and its own routes."""
        shape = route_shape(self._trainer.config) if replays(self._trainer.config) else None
        routes = shape and [np.full((len(ids), *shape), NOT_RECORDED, dtype=np.int16) for ids in self._sequences]
        self._reading, _ = self._read(routes)

    def _read(self, routes: list[np.ndarray] | None) -> tuple[Reading, float]:
        return read_trainer(self._trainer.actor_rollout_wg, self._sequences, self._trainer._ranks(), routes)

    def check(self, *, sent: int, updated: bool) -> dict[str, float]:
        """Score with every server and compare; see ``Canary.check``."""
        assert self._reading is not None
        readings = read_servers(self._trainer.llm_server_manager.server_handles, self._sequences, self._engine)
        replayed = None
        if replays(self._trainer.config) and readings[0].routes is not None:
            bounds = np.cumsum([len(ids) for ids in self._sequences])[:-1]
            reading, agreement = self._read(np.split(readings[0].routes, bounds))
            replayed = Replayed(reading.logprobs, agreement)
        return self._canary.check(self._reading, readings, sent=sent, updated=updated, replayed=replayed)


def task_texts(dataset: Any, count: int) -> list[str]:
    """The instructions of the first tasks of verl's dataset."""
    rows = [dataset[number] for number in range(min(count, len(dataset)))]
    return [str(message["content"]) for row in rows for message in row["raw_prompt"]]
