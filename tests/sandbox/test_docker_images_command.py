"""``python -m lego_verl.images build``."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_verl.images.__main__ import main
from lego_verl.tasks.harbor_writer import TaskFiles, write_task


def _task(folder: Path, dockerfile: str) -> None:
    environment = {"Dockerfile": dockerfile.encode(), "repo/answer.txt": b"broken\n"}
    write_task(folder, TaskFiles("Mend it.", environment, {"test.sh": b"echo 1 >/logs/verifier/reward.txt\n"}))


def test_images_are_built_and_what_is_missing_is_named(
    daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemon)
    _task(tmp_path / "good", "FROM no-such/base\nWORKDIR /testbed\nCOPY repo/ /testbed/\n")
    assert main(["build", f"tasks={tmp_path}"]) == 0
    assert f"1 of 1 images are on {daemon}" in capsys.readouterr().out
    _task(tmp_path / "bad", "FROM no-such/base\nWORKDIR /testbed\nRUN make\n")
    assert main(["build", f"tasks={tmp_path}"]) == 1
    said = capsys.readouterr().out
    assert "bad: " in said
    assert "no-such/base is not on" in said
    assert "1 of 2 images" in said
    assert main(["build", f"tasks={tmp_path / 'good'}"]) == 0


def test_arguments_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--help"]) == 0
    assert main(["fetch"]) == 2
    assert main(["build", "tasks=nothing"]) == 2
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    assert main(["build", "tasks=toy"]) == 1
    assert "nothing.sock does not answer" in capsys.readouterr().err
