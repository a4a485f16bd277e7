"""Toy tasks, made once, and arenas to cheat in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cheating_fixtures import Arena, open_folder

from lego_verl.tasks.task import Task
from lego_verl.tasks.toy import make_toy_tasks


@pytest.fixture(scope="session")
def toys() -> Iterator[list[Task]]:
    """One task of each kind; not to be changed."""
    with open_folder() as folder:
        yield list({task.metadata["kind"]: task for task in make_toy_tasks(folder).train}.values())


@pytest.fixture
def arena(toys: list[Task]) -> Iterator[Arena]:
    """On the local backend."""
    with open_folder() as folder:
        yield Arena(toys, folder)


@pytest.fixture(params=["local", "docker"])
def any_arena(request: pytest.FixtureRequest, toys: list[Task]) -> Iterator[Arena]:
    """On each backend."""
    docker = request.getfixturevalue("daemon") if request.param == "docker" else None
    with open_folder() as folder:
        yield Arena(toys, folder, docker=docker)
