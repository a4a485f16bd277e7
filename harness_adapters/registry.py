"""Harness adapters by name: those of this package, and those that other packages register.

A package adds one with an entry point of the group ``lego_verl.harnesses``; a built-in name cannot be taken.
An adapter is imported when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from harness_adapters.adapter import HarnessAdapter, HarnessError

ENTRY_POINTS = "lego_verl.harnesses"
_BUILT_IN = {
    "claude_code": "harness_adapters.claude_code:ClaudeCode",
    "codex": "harness_adapters.codex:Codex",
    "mini_swe_agent": "harness_adapters.mini_swe_agent:MiniSweAgent",
    "opencode": "harness_adapters.opencode:OpenCode",
    "openhands": "harness_adapters.openhands:OpenHands",
    "swe_agent": "harness_adapters.swe_agent:SweAgent",
}


def adapter_names() -> list[str]:
    """Every harness that can be named."""
    return sorted(_known())


def load_adapter(name: str, options: Mapping[str, Any] | None = None) -> HarnessAdapter:
    """The adapter called ``name``, with its own options.

    Raises:
        HarnessError: in one line, for an unknown name, an adapter that does not load, or an option it does not have.
    """
    known = _known()
    if name not in known:
        raise HarnessError(f"harness={name}: there is no such harness; there are {', '.join(sorted(known))}")
    point = known[name]
    try:
        module = importlib.import_module(point.module)
        kind = getattr(module, point.attr)
    except (ImportError, AttributeError) as error:
        raise HarnessError(f"harness={name}: {point.value} cannot be imported: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, HarnessAdapter)):
        raise HarnessError(f"harness={name}: {point.value} is not a HarnessAdapter")
    try:
        return kind(**(options or {}))
    except TypeError as error:
        said = str(error).removeprefix(f"{kind.__name__}.__init__() ")
        raise HarnessError(f"harness={name}: options {dict(options or {})}: {said}") from error


def _known() -> dict[str, EntryPoint]:
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    built_in = {name: EntryPoint(name, value, ENTRY_POINTS) for name, value in _BUILT_IN.items()}
    return {**found, **built_in}
