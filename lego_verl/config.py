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

from lego_verl.monitor.alert_settings import AlertSettings


class ConfigError(ValueError):
    """A recipe that cannot run: one line that says what to change."""


class Reasoning(Enum):
    keep = "keep"
    strip = "strip"


class Family(Enum):
    dense = "dense"
    moe = "moe"


class MissingImage(Enum):
    stop = "stop"
    drop = "drop"


class SmallGroup(Enum):
    drop = "drop"
    refill = "refill"


class RouterReplay(Enum):
    disabled = "disabled"
    R3 = "R3"


class Tokens(Enum):
    npz = "npz"
    """As they were written: a file a trial."""
    parquet = "parquet"
    """A file a step; all verbs that read a trial find it there."""
    drop = "drop"


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
    model_name: str = "policy"
    """What it is told that its model is called. Some say it in their prompts, and some behave by it."""
    turn_limit: int = 30
    """Calls of a trial, at most."""
    token_limit: int = 100_000
    """Sampled tokens of a trial, at most."""
    seconds: float = 1800.0
    """Wall time of the harness in a trial."""
    options: dict[str, Any] = field(default_factory=dict)
    """What this harness alone understands; of ``mix`` and of an evaluation: the options of each, by its name."""
    mix: dict[str, float] = field(default_factory=dict)
    """Of ``mix``: the weight of each harness, by its name."""


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
    cpus: float | None = None
    """Processors that one sandbox may use; null sets no limit. Of docker."""
    missing_image: MissingImage = MissingImage.stop
    """What a task whose image cannot be had does before the first step: stop the run, or be left out of it."""
    hosts: list[str] = field(default_factory=list)
    """Of docker: the daemons to use (``unix://``, ``tcp://``, ``ssh://``), each for as many sandboxes as the others;
    none: the one that DOCKER_HOST names, or this machine's."""


@dataclass
class TasksConfig:
    kind: str = MISSING
    """``toy`` (made on the spot), ``harbor`` (read from folders) or ``swebench`` (converted from a dataset)."""
    train: str | None = None
    """A folder of Harbor tasks; or a file, a folder or a hub name of a dataset in SWE-bench's columns."""
    heldout: str | None = None
    index: str | None = None
    """An index that ``python -m lego_verl.tasks check`` wrote: only tasks that are usable by it are used."""
    check: bool = True
    """Before training: the reference patch of every task must earn 1 and the empty patch 0."""
    options: dict[str, Any] = field(default_factory=dict)
    """Of ``swebench``: see ``lego_verl/tasks/swebench_options.py``."""


@dataclass
class PolicyConfig:
    kind: str = MISSING
    """``tiny`` (made on the spot) or ``pretrained`` (a folder or hub name); a trial also takes ``scripted`` and
    ``endpoint``, and ``lego_verl.serve`` takes these two and ``replay``."""
    model: str | None = None
    family: Family = Family.dense
    """Of ``tiny``."""
    tool_parser: str = "hermes"
    padded_vocabulary: bool = False
    """Whether the rows of the model's vocabulary beyond the tokenizer's are known to have no probability. An engine
    that leaves them out (vLLM under verl) then samples from what the trainer computes with them."""
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
    small_group: SmallGroup = SmallGroup.drop
    """What happens where trials are dropped until a group is too small: it is left out of the step, or further trials
    are run in their place before the step's batch is made (``refill``)."""
    refills: int = 2
    """Of ``refill``: further trials that one group may be given."""
    version_span: int | None = None
    """Weight updates that may lie between a trial's first token and its last; one with more is dropped as stale."""
    pause_seconds: float = 0.0
    """Wall time that a trial may stand still while the policy is updated, where steps overlap: it is added to the
    harness's, and to what one reply may take. A step's update, times the updates that a trial may live through."""
    grading_seconds: float = 300.0
    start_seconds: float = 300.0
    """Wall time in which a sandbox must start."""


@dataclass
class GuardConfig:
    """What stops a run: a step on which one of these fails is not trained."""

    min_pearson: float = 0.999
    """Correlation of the probabilities of tokens that the trainer's own weights sampled, between rollout and trainer;
    0 switches it off. Tokens of older weights do not count."""
    min_effective_share: float = 0.1
    """Effective sample size of the importance weights between rollout and trainer, as a share of the loss tokens, of
    whichever weights; 0 switches it off."""
    min_trained: float = 0.25
    """Share of a step's trials that must be left to train when the others are dropped."""
    require_proof: bool = True
    """Provenance and context of every loss token, 100 % each."""
    canary: bool = True
    """After every weight sync both engines score fixed sequences: they must agree, and have moved alike."""
    canary_tolerance: float | None = None
    """Largest difference of log-probabilities, root mean square, in nats; None: 0.0001 of a rollout in float32, else
    0.2."""
    shuffle_rewards: bool = False
    """The control experiment: rewards are handed to the wrong trials, and nothing should be learnt."""


@dataclass
class CorrectionConfig:
    """What is taken for granted of the difference between rollout and trainer; the correction itself is verl's
    ``algorithm.rollout_correction``."""

    log_ratio_std: float | None = None
    """Standard deviation, over tokens with loss, of log(trainer's probability / rollout's). None: what
    ``lego_verl/importance.py`` assumes of the rollout's number format and of the lag. A run measures it."""
    min_effective_share: float = 0.25
    """Least effective sample size, as a share of the trials, that importance weights of whole sequences may have."""


@dataclass
class Retention:
    """What becomes of the files of a trial when its step is old."""

    steps: int = 50
    """The newest steps, which are left as they are."""
    every: int = 0
    """Of the older ones every so many are left as they are, too; 0: none."""
    tokens: Tokens = Tokens.parquet
    calls: bool = True
    """What was asked and answered, as text. Without it a trial can neither be replayed, proved, nor exported."""
    logs: bool = True
    """What harness and grader printed."""
    patches: bool = True
    """Without it a trial cannot be graded again."""


@dataclass
class MonitorConfig:
    display: str = "auto"
    """``live`` (a table that is redrawn), ``lines`` (a line a step), or ``auto`` by the terminal."""
    keep_trials: bool = True
    """Write a folder for every trial: patch, logs, calls, tokens."""
    trained_tokens: bool = True
    """Write, a file a step, what the trainer knew of each token with loss: its log-probability, entropy, advantage,
    weight, and whether rollout correction took it out. Where trials are kept."""
    keep: Retention = field(default_factory=Retention)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    table_rows: int = 64
    """Trials in the table of a step that wandb and tensorboard get where ``trainer.logger`` names them; 0: no table."""


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
    correction: CorrectionConfig = field(default_factory=CorrectionConfig)
    router_replay: RouterReplay = RouterReplay.disabled
    """``R3``: the experts that were chosen when a token was sampled are those that it is trained with. Sets what
    records them (``actor_rollout_ref.rollout.enable_rollout_routing_replay``) and what replays them (the
    ``router_replay.mode`` of the actor's engine)."""
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
