"""What there is to grade again in a run: its trials, their tasks, and the limits that they were graded with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from lego_verl.config import ConfigError, LegoConfig, SandboxConfig, TrialConfig, typed_part
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.proof.read import NoRun, find_run, find_trial, is_trial, trial_folders
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.index import controlled_tasks
from lego_verl.tasks.task import Task, TaskError
from lego_verl.trial.record import TrialRecord

_SPLITS = ("train", "heldout")


def find_trials(given: str, *, trial: str | None = None, step: int | None = None) -> tuple[RunFolder, list[Path]]:
    """A run and the folders of its finished trials: all, those of one step, or one. A trial's own folder is a run of
    one trial.

    Raises:
        NoRun: when there is none.
    """
    folder = find_run(given)
    if is_trial(folder):
        home = folder.resolve()
        inside = home.parent.parent.name == RunFolder(home).trials.name
        return RunFolder(home.parents[2] if inside else home), [folder]
    run = RunFolder(folder)
    if trial is not None:
        return run, [find_trial(folder, trial)]
    folders = trial_folders(folder)
    if not folders:
        raise NoRun(f"{folder}: no trial of it is finished, or it ran with monitor.keep_trials=false")
    if step is None:
        return run, folders
    steps = sorted({step_of(each) for each in folders})
    if step not in steps:
        raise NoRun(f"--step {step}: {folder} has no trial of it; its steps are {steps[0]} to {steps[-1]}")
    return run, [each for each in folders if step_of(each) == step]


def step_of(folder: Path) -> int:
    """The step of a trial, by its folder; 0 for one that stands by itself."""
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0


def read_record(folder: Path) -> TrialRecord:
    """A trial's record.

    Raises:
        NoRun: when it is none.
    """
    try:
        return TrialRecord.from_dict(json.loads((folder / "trial.json").read_text()))
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise NoRun(f"{folder / 'trial.json'} is no trial's record: {error}") from error


def recipe_of(run: RunFolder) -> DictConfig:
    """The run's recipe; an empty one for a trial that stands by itself.

    Raises:
        ConfigError: when it cannot be read.
    """
    if not run.recipe.exists():
        return OmegaConf.create()
    try:
        recipe = OmegaConf.load(run.recipe)
    except (OSError, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(f"{run.recipe} cannot be read: {str(error).splitlines()[0]}") from error
    if not isinstance(recipe, DictConfig):
        raise ConfigError(f"{run.recipe} is no recipe")
    return recipe


def grading_part(recipe: DictConfig) -> LegoConfig:
    """What a recipe says of sandboxes and of grading. The rest of it may be from another version of this program.

    Raises:
        ConfigError: naming the key.
    """
    sandbox = typed_part(recipe, "lego.sandbox", SandboxConfig)
    return LegoConfig(sandbox=sandbox, trial=typed_part(recipe, "lego.trial", TrialConfig))


class TaskFinder:
    """Finds the tasks of a run where it had them, or where they may have been moved.

    Args:
        extra: a folder of tasks that is looked into first.
    """

    def __init__(self, run: RunFolder, recipe: DictConfig, *, extra: Path | None = None) -> None:
        self._run, self._extra = run, extra
        said = [OmegaConf.select(recipe, f"lego.tasks.{split}") for split in _SPLITS]
        self._folders = [Path(str(each)) for each in said if each]
        self._dataset = {name: folder for split in _SPLITS for name, folder in _read_dataset(run, split)}
        self._found: dict[tuple[str, str], Task] = {}
        self._index = OmegaConf.select(recipe, "lego.tasks.index")
        self._controlled: frozenset[str] | None = None

    def find(self, name: str, digest: str) -> Task:
        """The task with this digest; where none has it, the first with the name, which has changed since.

        Raises:
            TaskError: when there is none that can be read; the message says where it was looked for.
        """
        if (name, digest) not in self._found:
            self._found[name, digest] = self._look(name, digest)
        return self._found[name, digest]

    def is_controlled(self, task: Task) -> bool:
        """Whether the run held this task's rewards against control experiments.

        Raises:
            TaskError: when the index that said so is not there any more.
        """
        if self._controlled is None:
            self._controlled = controlled_tasks(Path(str(self._index))) if self._index else frozenset()
        return task.digest in self._controlled

    def _look(self, name: str, digest: str) -> Task:
        changed: Task | None = None
        wrong: TaskError | None = None
        for folder in self._places(name):
            if not (folder / "task.toml").is_file():
                continue
            try:
                task = read_task(folder)
            except TaskError as error:
                wrong = wrong or error
                continue
            if task.digest == digest:
                return task
            changed = changed or task
        if changed is not None:
            return changed
        places = ", ".join(dict.fromkeys(str(folder) for folder in self._places(name)))
        raise wrong or TaskError(f"task {name} is not there any more (looked at {places}); give --tasks FOLDER")

    def _places(self, name: str) -> Iterator[Path]:
        if self._extra is not None:
            yield self._extra / name
        if name in self._dataset:
            yield self._dataset[name]
        for split in _SPLITS:
            yield self._run.tasks / split / name
        for folder in self._folders:
            yield folder / name


def _read_dataset(run: RunFolder, split: str) -> Iterator[tuple[str, Path]]:
    """Names and folders of the tasks of a split.

    Raises:
        NoRun: when the file is not what a run writes.
    """
    path = run.path / f"{split}.parquet"
    if not path.exists():
        return
    try:
        import pyarrow as pa  # which comes with what trains, and is not needed for a trial that stands by itself
        import pyarrow.parquet as pq
    except ImportError:
        raise NoRun(f"{path}: to read it takes pyarrow: pip install pyarrow") from None
    try:
        rows = pq.read_table(path, columns=["extra_info"])["extra_info"].to_pylist()
        found = [(str(row["task"]), Path(row["task_folder"])) for row in rows]
    except (OSError, pa.ArrowException, LookupError, TypeError) as error:
        raise NoRun(f"{path} is not the dataset of a run: {str(error).splitlines()[0]}") from error
    yield from found
