"""Put the trainer's parameters into the rollout model, all of them or none."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

_FUSED = re.compile(r"(?P<prefix>.*\.experts)\.(?P<part>gate_up_proj|down_proj)$")


@torch.no_grad()
def load_parameters(model: torch.nn.Module, parameters: Mapping[str, torch.Tensor]) -> None:
    """Copy named parameters into a model.

    verl exports one tensor an expert and projection; transformers 5 keeps the experts of a layer in one
    tensor each, so they are joined again here.

    Raises:
        ValueError: when a parameter of the model is missing or one of those given was not used. The model is
            then unchanged.
    """
    remaining = dict(parameters)
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    missing = []
    for name, target in model.state_dict().items():
        if name in remaining:
            copies.append((target, remaining.pop(name)))
        elif match := _FUSED.match(name):
            parts = _expert_parts(match["prefix"], match["part"], target.shape[0])
            if all(part in remaining for expert in parts for part in expert):
                fused = torch.stack([torch.cat([remaining.pop(part) for part in expert]) for expert in parts])
                copies.append((target, fused))
            else:
                missing.append(name)
        elif name not in tied:
            missing.append(name)
    if missing or remaining:
        raise ValueError(
            f"a weight sync does not fit the rollout model: {len(missing)} parameters missing ({missing[:3]}), "
            f"{len(remaining)} not known to it ({list(remaining)[:3]})"
        )
    wrong = [(tuple(target.shape), tuple(value.shape)) for target, value in copies if target.shape != value.shape]
    if wrong:
        raise ValueError(f"a weight sync has tensors of other shapes than the rollout model: {wrong[:3]}")
    for target, value in copies:
        target.copy_(value)


def _expert_parts(prefix: str, part: str, experts: int) -> list[list[str]]:
    names = ["gate_proj", "up_proj"] if part == "gate_up_proj" else ["down_proj"]
    return [[f"{prefix}.{expert}.{name}.weight" for name in names] for expert in range(experts)]
