"""Recipe: what ran, and how it differs from another run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def recipe(path: Path) -> dict[str, Any]:
    """A run's resolved recipe by full keys (``lego.harness.name``); empty where it has none."""
    from omegaconf import OmegaConf

    return dict(flat_keys(OmegaConf.to_container(OmegaConf.load(path)))) if path.exists() else {}


def recipe_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keys that differ, with both values; ``None`` where one has no such key."""
    keys = sorted({*ours, *theirs})
    return {key: (ours.get(key), theirs.get(key)) for key in keys if ours.get(key) != theirs.get(key)}


def flat_keys(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a tree by their full keys."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from flat_keys(each, f"{above}.{key}" if above else str(key))
    else:
        yield above, value
