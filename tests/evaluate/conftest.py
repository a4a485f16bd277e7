"""What tests of an evaluation share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from evaluate_helpers import Endpoint


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A temporary folder that other users may enter: tests are mounted from it. (pytest's own is private.)"""
    folder = Path(tempfile.mkdtemp(prefix="lego-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """A model server that solves tasks, but for those that it is told to refuse."""
    answers = Endpoint()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answers.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    answers.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield answers
    await runner.cleanup()
