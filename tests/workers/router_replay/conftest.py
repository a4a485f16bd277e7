"""One process for all that the engine is asked, once a session: verl takes ten seconds to import."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HOST = Path(__file__).with_name("engine_host.py")


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By family: what was generated with routing noise, and the path of the model."""
    import torch  # where it is missing, the tests are skipped
    from engine_jobs import generate
    from tiny_mixtures import FAMILIES, tiny

    torch.set_num_threads(1)
    made = {}
    for family in FAMILIES:
        model = tiny(family)
        path = str(tmp_path_factory.mktemp(family))
        model.save_pretrained(path)
        made[family] = {"family": family, "path": path, **generate(model)}
    return made


@pytest.fixture(scope="session")
def results(generated: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of each of ``engine_jobs``, what ``engine_host.py`` returned, or its error as a string."""
    import torch
    from engine_jobs import engine_jobs

    folder = tmp_path_factory.mktemp("engine")
    torch.save(engine_jobs(generated), folder / "jobs")
    command = [sys.executable, str(HOST), str(folder / "jobs"), str(folder / "results"), str(_free_port())]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found: dict[str, Any] = {}
    for file in sorted(folder.glob("results.*")):
        found |= torch.load(file, weights_only=False)
    return found


def _free_port() -> int:
    """A port that is free, with two after it that most likely are."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return min(int(listener.getsockname()[1]), 65_000)
