import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tiny_conversations import record

from lego_verl.policies.tiny.conversation import Conversation
from lego_verl.tasks.toy import make_toy_tasks


@pytest.fixture(scope="session")
def conversations(tmp_path_factory: pytest.TempPathFactory) -> list[Conversation]:
    folder = tmp_path_factory.mktemp("tiny")
    return [record(task, folder, seed=0) for task in make_toy_tasks(folder / "toy").train]
