"""The critic's worker: verl's, in whose process this project's engines are known.

verl imports ``model.external_lib`` where it makes a model's configuration (verl/workers/config/model.py). The actor's
is made in its worker. The critic's is made in the trainer and sent, so its worker would know verl's own engines alone.
"""

from __future__ import annotations

from verl.workers.engine_workers import TrainingWorker

import lego_verl.workers.engine  # noqa: F401


class CriticWorker(TrainingWorker):
    """Computes values and trains on returns."""
