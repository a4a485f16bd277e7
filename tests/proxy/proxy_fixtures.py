"""What the proxy's tests share: a renderer, and bodies of requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser

RENDERER = byte_renderer()
TRAFFIC = Path(__file__).parents[1] / "data" / "traffic"
PARSER = HermesParser()


def body(*messages: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"model": "policy", "messages": [{"role": "system", "content": "S"}, *messages], **options}


def user(text: str = "Fix it.") -> dict[str, Any]:
    return {"role": "user", "content": text}


def exchanges(name: str) -> list[dict[str, Any]]:
    """Recorded requests of a harness, each with its response."""
    return [json.loads(line) for line in (TRAFFIC / f"{name}.jsonl").read_text().splitlines()]
