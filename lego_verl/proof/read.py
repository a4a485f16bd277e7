"""The proofs of a run, made again from its recordings: nothing is taken from what the run said of itself."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lego_verl.capture.proof import Proof
from lego_verl.capture.record import read_recording
from lego_verl.monitor.run_folder import RunFolder, read_lines
from lego_verl.trial.outcome import Treatment
from lego_verl.trial.record import TrialRecord


class NoRun(ValueError):
    """A folder that is no run and no trial; one line that says what was looked for."""


@dataclass(frozen=True)
class ProvedTrial:
    """One trial of a run."""

    folder: Path
    record: TrialRecord
    proof: Proof
    """Made again from the recording; as the record has it where nothing was captured."""

    @property
    def disagrees(self) -> bool:
        """Whether the record says something else of the proof."""
        says = self.record.proof
        return any(name in says and says[name] != value for name, value in self.proof.as_dict().items())


@dataclass
class StepProof:
    """The trials of one step that are trained, summed, and how many are not."""

    step: int
    split: str
    """``train`` or ``heldout``; empty where the run does not say."""
    trials: int = 0
    dropped: int = 0
    """Trials that are not trained, for whatever reason; nothing of them is counted but this."""
    calls: int = 0
    segments: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    sampled_tokens: int = 0
    loss_tokens: int = 0
    untrained: Counter[str] = field(default_factory=Counter)
    exact: float = 0.0
    in_context: float = 0.0
    disagreeing: int = 0

    def add(self, trial: ProvedTrial, *, trained: bool) -> None:
        self.trials += 1
        self.disagreeing += trial.disagrees
        if not trained:
            self.dropped += 1
            return
        proof = trial.proof
        self.calls += proof.calls
        self.segments += proof.segments
        self.splits.update(proof.splits)
        self.sampled_tokens += proof.sampled_tokens
        self.loss_tokens += proof.loss_tokens
        self.untrained.update(proof.untrained)
        self.exact += proof.provenance * proof.loss_tokens
        self.in_context += proof.context * proof.loss_tokens

    @property
    def provenance(self) -> float | None:
        return self.exact / self.loss_tokens if self.loss_tokens else None

    @property
    def context(self) -> float | None:
        return self.in_context / self.loss_tokens if self.loss_tokens else None


def find_run(given: str) -> Path:
    """The folder of a run or a trial: a path, or a name under ``runs``.

    Raises:
        NoRun: when there is none.
    """
    candidates = [Path(given), Path("runs") / given]
    for folder in candidates:
        if is_trial(folder) or RunFolder(folder).trials.is_dir():
            return folder
    if not candidates[0].is_dir():
        raise NoRun(f"{given}: there is no such folder, nor one in runs/")
    raise NoRun(f"{given} is neither a run (it has no trials/) nor a trial (no trial.json, no calls.jsonl)")


def whole_run(given: str, instead: str) -> RunFolder:
    """The run of a path, or of a name under ``runs``.

    Args:
        instead: what a person is told who gives a trial.

    Raises:
        NoRun: when there is none, or it is a trial.
    """
    folder = find_run(given)
    if is_trial(folder):
        raise NoRun(f"{given} is a trial; {instead}")
    return RunFolder(folder)


def is_trial(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("trial.json", "calls.jsonl"))


def trial_folders(run: Path) -> list[Path]:
    """The folders of a run's finished trials, in order."""
    return sorted(path.parent for path in RunFolder(run).trials.glob("*/*/trial.json"))


def find_trial(run: Path, wanted: str) -> Path:
    """The folder of one trial of a run: its name, ``STEP/NAME``, or a folder.

    Raises:
        NoRun: when there is none, or several have the name.
    """
    if is_trial(Path(wanted)):
        return Path(wanted)
    folders = trial_folders(run)
    found = [path for path in folders if wanted in (path.name, f"{path.parent.name}/{path.name}")]
    if not found:
        some = ", ".join(f"{path.parent.name}/{path.name}" for path in folders[:3])
        raise NoRun(f"{wanted}: {run} has no such trial; of {len(folders)} the first are {some or 'none'}")
    if len(found) > 1:
        names = ", ".join(f"{path.parent.name}/{path.name}" for path in found)
        raise NoRun(f"{wanted}: several trials have this name: {names}")
    return found[0]


def prove_trial(folder: Path) -> ProvedTrial:
    """Read a trial and prove it again.

    Raises:
        NoRun: when its record is none.
        RecordingError: when its recording cannot be read, or it should have one and has none.
    """
    try:
        record = TrialRecord.from_dict(json.loads((folder / "trial.json").read_text()))
        captured = bool(record.proof.get("captured", True))
        says = Proof(**record.proof) if record.proof else None
    except (OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise NoRun(f"{folder / 'trial.json'} is no trial's record: {error}") from error
    if captured or (folder / "calls.jsonl").exists() or says is None:
        return ProvedTrial(folder, record, read_recording(folder).proof())
    return ProvedTrial(folder, record, says)


def sum_steps(run: Path, trials: Sequence[ProvedTrial]) -> list[StepProof]:
    """The proofs of a run's steps: of the trials that were trained, as the run chose them."""
    split_of = _splits(run)
    by_step: dict[tuple[int, str], list[ProvedTrial]] = defaultdict(list)
    for trial in trials:
        step = int(trial.folder.parent.name)
        by_step[step, split_of.get((step, trial.folder.name), "")].append(trial)
    smallest = _smallest_group(run)
    steps = []
    for (step, split), members in sorted(by_step.items()):
        total = StepProof(step, split)
        kept = Counter(trial.record.group for trial in members if trial.record.treatment is not Treatment.DROP)
        least = smallest if split == "train" else 1
        for trial in members:
            dropped = trial.record.treatment is Treatment.DROP
            total.add(trial, trained=not dropped and kept[trial.record.group] >= least)
        steps.append(total)
    return steps


def metrics_disagree(run: Path, steps: Sequence[StepProof]) -> list[str]:
    """Where ``metrics.jsonl`` says something else of a step's tokens than its trials."""
    says: Mapping[int, dict[str, Any]] = {int(line["step"]): line for line in read_lines(RunFolder(run).metrics)}
    return [
        f"step {each.step}: metrics.jsonl says {says[each.step]['loss_tokens']} loss tokens, "
        f"its trials hold {each.loss_tokens}"
        for each in steps
        if each.split == "train" and each.step in says and says[each.step]["loss_tokens"] != each.loss_tokens
    ]


def _splits(run: Path) -> dict[tuple[int, str], str]:
    events = read_lines(RunFolder(run).events)
    return {(int(each["step"]), str(each["trial"])): str(each["split"]) for each in events if "trial" in each}


def _smallest_group(run: Path) -> int:
    """``lego.trial.min_group`` of the run's recipe; 1 without one."""
    try:
        return int(OmegaConf.select(OmegaConf.load(RunFolder(run).recipe), "lego.trial.min_group") or 1)
    except (OSError, OmegaConfBaseException):
        return 1
