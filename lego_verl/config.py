"""The typed part of a recipe: everything under the key ``lego``.

verl's own tree is left as verl has it. A key that is not here, or a value of another type, stops a run
before anything is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException


class ConfigError(ValueError):
    """A recipe that cannot run: one line that says what to change."""


class Reasoning(Enum):
    keep = "keep"
    strip = "strip"


class Family(Enum):
    dense = "dense"
    moe = "moe"


class Repeat(Enum):
    none = "none"
    last = "last"
    cycle = "cycle"


@dataclass
class RunConfig:
    name: str | None = None
    """Folder name of the run; None: made from the recipe's parts and the time. The same name resumes."""
    folder: str = "runs"
    seed: int = 1
    cache: str | None = None
    """Where runtimes and made policies are kept; None: /var/cache/lego_verl for root, ~/.cache/lego_verl else."""


@dataclass
class HarnessConfig:
    name: str = MISSING
    turn_limit: int = 30
    """Calls of a trial, at most."""
    token_limit: int = 100_000
    """Sampled tokens of a trial, at most."""
    seconds: float = 1800.0
    """Wall time of the harness in a trial."""
    options: dict[str, Any] = field(default_factory=dict)
    """What this harness alone understands."""


@dataclass
class SandboxConfig:
    backend: str = "auto"
    slots: int = 4
    """Trials that run at once in one rollout worker."""
    starts: int = 4
    """Sandboxes that start at once."""
    memory_mb: int = 2048
    processes: int = 256
    disk_mb: int = 512


@dataclass
class TasksConfig:
    kind: str = MISSING
    """``toy`` (made on the spot) or ``harbor`` (read from folders)."""
    train: str | None = None
    """A folder of Harbor tasks."""
    heldout: str | None = None
    check: bool = True
    """Before training: the reference patch of every task must earn 1 and the empty patch 0."""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class PolicyConfig:
    kind: str = MISSING
    """``tiny`` (made on the spot) or ``pretrained`` (a folder or hub name); a trial also takes ``scripted`` and
    ``endpoint``, and ``lego_verl.serve`` takes these two and ``replay``."""
    model: str | None = None
    family: Family = Family.dense
    """Of ``tiny``."""
    tool_parser: str = "hermes"
    base_url: str | None = None
    api_key: str | None = None
    script: str | None = None
    """Of ``scripted``: a JSON-lines file of replies, or ``oracle`` or ``nop``."""
    repeat: Repeat = Repeat.none
    """Of ``scripted``: what follows the last reply."""
    recording: str | None = None
    """Of ``replay``: a trial's folder, or any with ``calls.jsonl`` and ``tokens.npz``."""
    tokenizer: str | None = None
    """Of ``scripted`` and ``replay``: a ``tokenizer.json``; None: one token a byte, or what made the recording."""
    template: str | None = None
    """The chat template that belongs to ``tokenizer``; None: ``chat_template.jinja`` beside it."""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class CaptureConfig:
    reasoning: Reasoning = Reasoning.keep
    """Whether reasoning that a harness leaves out of its history counts (``strip``: the next call begins a segment
    without it) or not (``keep``: the policy goes on seeing what it sampled)."""
    train_subagents: bool = True
    train_side_calls: bool = False
    """Titles and summaries, where they can be told apart."""


@dataclass
class TrialConfig:
    retries: int = 2
    """Times that a trial is run again after a fault of infrastructure."""
    min_group: int = 2
    """Trials that a group must keep; a smaller one is dropped."""
    version_span: int | None = None
    """Weight updates that may lie between a trial's first token and its last; one with more is dropped as stale."""
    grading_seconds: float = 300.0


@dataclass
class GuardConfig:
    """What stops a run: a step on which one of these fails is not trained."""

    min_pearson: float = 0.999
    """Correlation of token probabilities between rollout and trainer; 0 switches it off."""
    require_proof: bool = True
    """Provenance and context of every loss token, 100 % each."""
    probe: bool = True
    """After every weight sync both engines score a fixed sequence."""
    probe_tolerance: float = 1e-3
    shuffle_rewards: bool = False
    """The control experiment: rewards are handed to the wrong trials, and nothing should be learnt."""


@dataclass
class MonitorConfig:
    display: str = "auto"
    """``live`` (a table that is redrawn), ``lines`` (a line a step), or ``auto`` by the terminal."""
    keep_trials: bool = True
    """Write a folder for every trial: patch, logs, calls, tokens."""


@dataclass
class LegoConfig:
    run: RunConfig = field(default_factory=RunConfig)
    harness: HarnessConfig = field(default_factory=HarnessConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    tasks: TasksConfig = field(default_factory=TasksConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    capture: CaptureConfig = field(default_factory=CaptureConfig)
    trial: TrialConfig = field(default_factory=TrialConfig)
    guard: GuardConfig = field(default_factory=GuardConfig)
    monitor: MonitorConfig = field(default_factory=MonitorConfig)


@dataclass
class BudgetConfig:
    """What a session may use; null sets no limit."""

    turns: int | None = None
    tokens: int | None = None
    context: int | None = None
    seconds: float | None = None


@dataclass
class ServeConfig:
    """What ``lego_verl.serve`` takes beside the key ``lego``."""

    host: str = "127.0.0.1"
    port: int = 0
    out: str | None = None
    sessions: int = 4096
    budget: BudgetConfig = field(default_factory=BudgetConfig)


T = TypeVar("T")


def typed(config: DictConfig) -> LegoConfig:
    """The ``lego`` part of a composed recipe, checked.

    Raises:
        ConfigError: naming the key.
    """
    return typed_part(config, "lego", LegoConfig)


def typed_part(config: DictConfig, key: str, schema: type[T]) -> T:
    """The part of a composed recipe under ``key``, checked against a dataclass; the whole recipe's top for ``""``.

    Raises:
        ConfigError: naming the key.
    """
    try:
        part = OmegaConf.select(config, key) if key else config
        # As plain values: a key that was added with "+" would else pass as a part of the typed tree.
        given = {} if part is None else OmegaConf.to_container(part, resolve=True)
        checked = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schema), given))
    except OmegaConfBaseException as error:
        full_key = str(error.full_key or "")
        # What is wrong in the recipe itself has its whole name already.
        names = [full_key] if full_key.startswith(f"{key}.") else [key, full_key]
        where = ".".join(name for name in names if name)
        raise ConfigError(f"{where}: {(error.msg or str(error)).splitlines()[0]}") from error
    assert isinstance(checked, schema)
    return checked
