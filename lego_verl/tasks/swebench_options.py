"""How a dataset in SWE-bench's columns is read: ``tasks.options`` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lego_verl.tasks.harbor import DEFAULT_WORKDIR


@dataclass
class SwebenchOptions:
    """What is given here outranks a row's own columns."""

    split: str = "test"
    """Of a dataset on the hub, or of the files in a folder."""
    only: list[str] | None = None
    """These ``instance_id`` alone."""
    image: str | None = None
    """The image's name, with ``{id}`` in it: ``registry/sweb.eval.x86_64.{id}:latest``."""
    image_dunder: str = "__"
    """What stands for ``__`` of an id in that name: registries that refuse it have ``_1776_`` (SWE-bench's own)."""
    build: bool = False
    """Build each image from the row's Dockerfile (swebench 5) instead of getting it by its name."""
    workdir: str = DEFAULT_WORKDIR
    test_command: str | None = None
    """With ``{files}`` where the files of tests go, else they come last."""
    log_parser: str | None = None
    """A parser of swebench: ``parse_log_pytest``, or ``pytest`` for short."""
    setup: str = ""
    """Lines of bash that run before the tests, after what brings the environment up."""
    agent_timeout: float = 3600.0
    """Seconds."""
    verifier_timeout: float = 1800.0
    """Seconds."""
    memory_mb: int = 8192
    storage_mb: int = 16384


OPTIONS = tuple(each.name for each in fields(SwebenchOptions))
