"""Images are there before the first step, or it is known which are not and why."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from lego_verl.config import LegoConfig, MissingImage
from lego_verl.run_tasks import NoTasks, with_images
from lego_verl.tasks.harbor import load_tasks
from lego_verl.tasks.harbor_writer import TaskFiles, write_task
from lego_verl.tasks.task import Task
from sandbox.docker import DockerBackend
from sandbox.docker_images import DockerImage, DockerImages
from sandbox.local import LocalBackend
from sandbox.sandbox import Image, SandboxError

GONE = Image(reference="no-such/image:3")


async def test_what_is_there_and_what_is_not(
    backend: LocalBackend | DockerBackend, environment: Path, tmp_path: Path
) -> None:
    told: list[tuple[int, int]] = []
    nowhere, made = Image(folder=tmp_path / "nowhere"), Image(folder=environment)
    missing = await backend.fetch([made, GONE, nowhere, made], report=lambda done, of: told.append((done, of)))
    assert set(missing) == {GONE, nowhere}
    assert "no-such/image:3" in missing[GONE]
    assert "nowhere does not exist" in missing[nowhere]
    assert told == [(1, 3), (2, 3), (3, 3)]


async def test_a_daemon_that_does_not_answer_is_no_missing_image(open_tmp: Path) -> None:
    backend = DockerBackend([f"unix://{open_tmp}/nobody.sock"], scratch=open_tmp / "s")
    with pytest.raises(SandboxError, match=r"nobody.sock does not answer"):
        await backend.fetch([Image(), GONE])


@pytest.mark.parametrize(("reference", "counts"), [("a/b:1", True), ("a/b@sha256:0", False), (None, False)])
async def test_a_name_that_means_different_images_is_none(
    open_tmp: Path, monkeypatch: pytest.MonkeyPatch, reference: str | None, counts: bool
) -> None:
    """On several daemons; what is built there is the same whatever its id, and a digest cannot mean two."""

    async def prepare(images: DockerImages, spec: object) -> DockerImage:
        return DockerImage("prepared", f"raw on {images._host}")

    monkeypatch.setattr(DockerImages, "prepare", prepare)
    image = Image(folder=None if reference else open_tmp, reference=reference)
    missing = await DockerBackend(["unix:///one", "unix:///two"], scratch=open_tmp / "s").fetch([image])
    assert (image in missing) == counts
    assert not counts or "different images named a/b:1: name it by its digest" in missing[image]


class Recipe:
    """Three tasks, and what a recipe does about those without an image."""

    def __init__(self, folder: Path) -> None:
        for name in ("a", "b", "c"):
            environment = {"Dockerfile": b"FROM x\nWORKDIR /testbed\nCOPY repo/ ./\n", "repo/answer.txt": b"broken\n"}
            write_task(folder / name, TaskFiles("Mend it.", environment, {"test.sh": b"true\n"}))
        self.tasks = load_tasks(folder)
        self.lego = LegoConfig()
        self.out = io.StringIO()

    async def kept(self, train: list[Task], heldout: list[Task]) -> list[list[str]]:
        console = Console(file=self.out, width=300)
        return [
            [task.name for task in part]
            for part in await with_images(train, heldout, LocalBackend(), self.lego, console)
        ]


def without_image(task: Task) -> Task:
    """Now its image needs what the local sandbox cannot do."""
    (task.environment / "Dockerfile").write_text("FROM x\nRUN make\n")
    return task


async def test_every_task_has_its_image(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    a, b, c = recipe.tasks
    assert await recipe.kept([a, b], [c]) == [["a", "b"], ["c"]]
    assert recipe.out.getvalue().strip() == ""


async def test_a_missing_image_stops_a_run(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    a, b, c = recipe.tasks
    with pytest.raises(NoTasks, match=r"1 of 3 tasks have no image \(b\): .*cannot do RUN.*missing_image=drop") as said:
        await recipe.kept([a, without_image(b)], [c])
    assert "\n" not in str(said.value)


async def test_or_its_tasks_are_dropped(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    recipe.lego.sandbox.missing_image = MissingImage.drop
    a, b, c = recipe.tasks
    assert await recipe.kept([a, without_image(b)], [without_image(c)]) == [["a"], []]
    assert "left out: 2 of 3 tasks have no image (b, c): " in recipe.out.getvalue()


async def test_but_not_all_of_them(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    recipe.lego.sandbox.missing_image = MissingImage.drop
    a, b, c = recipe.tasks
    with pytest.raises(NoTasks, match=r"no task to train on is left: 2 of 3 tasks have no image"):
        await recipe.kept([without_image(a), without_image(b)], [c])
