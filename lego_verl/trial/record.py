"""The one place where a trial's ending surfaces: a record that is plain data, and its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lego_verl.capture.record import write_recording
from lego_verl.capture.segment import TrainingSegment
from lego_verl.proxy.session import Session
from lego_verl.trial.outcome import Outcome, Treatment

PHASES = ("queued", "start", "harness", "generation", "patch", "grading")
"""Disjoint parts of a trial's wall time: waiting for a slot; sandbox, session and files; the harness while it was
not waiting for the policy; the policy; taking the patch and closing; grading."""


@dataclass(frozen=True)
class TrialRecord:
    """How one trial went."""

    trial: str
    task: str
    outcome: Outcome
    group: str = ""
    harness: str = ""
    reward: float | None = None
    """The verdict; None for a trial that is dropped: infrastructure never becomes a reward."""
    error: str = ""
    """What went wrong, for a person; empty when nothing did."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By phase (``PHASES``), and ``total``."""
    calls: int = 0
    sampled_tokens: int = 0
    segments: int = 0
    splits: Mapping[str, int] = field(default_factory=dict)
    proof: Mapping[str, Any] = field(default_factory=dict)
    signs: Sequence[str] = ()
    """What looked like an attack on the grader, whether or not anything came of it."""
    attempts: int = 1
    versions: Mapping[str, Any] = field(default_factory=dict)
    """What it was made with: ``lego_verl``, ``runtime`` and ``task`` (digests), ``sandbox``, and the first and last
    ``weights`` that sampled for it."""

    @property
    def treatment(self) -> Treatment:
        return self.outcome.treatment

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**asdict(self), "outcome": str(self.outcome), "treatment": str(self.treatment)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrialRecord:
        """The inverse of ``as_dict``. ``ValueError`` for an outcome, ``TypeError`` for a field that is not known."""
        given = {key: value for key, value in values.items() if key != "treatment"}
        unknown = set(given) - {each.name for each in fields(cls)}
        if unknown:
            raise TypeError(f"a trial's record has no {', '.join(sorted(unknown))}")
        plain = {"outcome": Outcome(given["outcome"]), "signs": tuple(given.get("signs", ()))}
        return cls(**{**given, **plain})


@dataclass(frozen=True)
class FinishedTrial:
    """What a trial leaves. Its segments are trained only if the record's treatment is not ``drop``."""

    record: TrialRecord
    segments: tuple[TrainingSegment, ...] = ()
    patch: bytes = b""
    harness_log: bytes = b""
    grading_log: str = ""
    session: Session | None = None


def write_trial(folder: Path, finished: FinishedTrial) -> None:
    """Write ``trial.json, patch.diff, harness.log, grading.log, calls.jsonl, tokens.npz`` into ``folder``.

    ``trial.json`` comes last: where it is, the rest is whole. The calls and tokens are missing when
    they are not known: those of an endpoint.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "patch.diff").write_bytes(finished.patch)
    (folder / "harness.log").write_bytes(finished.harness_log)
    (folder / "grading.log").write_text(finished.grading_log, encoding="utf-8", errors="replace")
    if finished.session is not None and finished.session.capture is not None:
        write_recording(folder, finished.session.capture)
    part = folder / "trial.json.part"
    part.write_text(json.dumps(finished.record.as_dict(), indent=1) + "\n")
    part.replace(folder / "trial.json")
