"""verl's FSDP engine of a critic, with the attention that the recipe says.

verl 0.9.1 loads every critic with flash-attention (verl/utils/model.py, ``load_valuehead_model``), which a machine
without a GPU has not, whatever ``model.override_config.attn_implementation`` is.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
import verl.utils.model
from transformers import AutoModelForTokenClassification
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithValueHead


class FSDPValueEngine(FSDPEngineWithValueHead):
    """The policy's layers under a head of one value a token, which begins at random."""

    def _build_module(self) -> torch.nn.Module:
        with patch.object(verl.utils.model, "load_valuehead_model", _load):
            return super()._build_module()


def _load(local_path: str, torch_dtype: torch.dtype, model_config: Any, trust_remote_code: bool) -> torch.nn.Module:
    """In the place of verl's: the attention is that of ``model_config``."""
    return AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config, trust_remote_code=trust_remote_code
    )
