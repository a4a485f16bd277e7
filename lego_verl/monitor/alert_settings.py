"""The thresholds of all alerts (``lego.monitor.alerts``), each with its reason. Any can be switched off (``enabled``).

Rules that compare counts ask for ``sigmas``: how many standard errors a change must be away from chance. A run looks
after every step, at several spans of steps: 100 steps are hundreds of looks, and chance passes 4.5 in one of 300,000.
What a test holds: fewer than 1 false alert in 200 healthy runs of 100 steps (tests/monitor/alerts).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class SolveRateAlert:
    """The solve rate falls: the last 2, 5 or 10 steps against the 30 before them."""

    enabled: bool = True
    sigmas: float = 4.5
    """Between the groups' solve rates, so that hard and easy tasks do not pass for a change."""
    fall: float = 0.1
    """Least fall: a smaller one, however certain, is no reason to get up at night."""


@dataclass
class SignalAlert:
    """Groups whose trials all got the same reward teach nothing."""

    enabled: bool = True
    share: float = 0.9
    """Of the groups: then nine tenths of the sampling are spent for nothing."""
    sigmas: float = 4.5
    """Beyond a run in which 6 of 10 groups are so, which is usual near the end of an easy set of tasks."""


@dataclass
class ToolUseAlert:
    """Turns without a tool call, but for a last one that ends a trial which did act."""

    enabled: bool = True
    rise: float = 0.2
    """Of the share, against the run's first five steps."""
    sigmas: float = 5.0
    """Between trials."""
    share: float = 0.8
    """Told whatever the first steps were like, and however few trials there are (6)."""


@dataclass
class EntropyAlert:
    """The policy's entropy collapses: it has stopped to explore."""

    enabled: bool = True
    share: float = 0.1
    """Of the median of the run's first five steps. A run that learns to the end loses a third to a half (docs/11)."""


@dataclass
class AlignmentAlert:
    """Rollout and trainer differ more than they should, before the guard stops the run."""

    enabled: bool = True
    margin: float = 0.5
    """Of the way from 1 to ``lego.guard.min_pearson``. Of a guard that is off, the way to 0.98."""


@dataclass
class EffectiveShareAlert:
    """Importance weights leave a small effective sample."""

    enabled: bool = True
    share: float = 0.3
    """Of the loss tokens. ``lego.guard.min_effective_share`` (0.1) stops the run."""


@dataclass
class DroppedAlert:
    """More trials are dropped than before, for whatever reason but a sampler that had enough."""

    enabled: bool = True
    rise: float = 0.1
    """Of the share of the trials, in the last 1 to 3 steps against all before."""
    chance: float = 1e-5
    """How rarely so many may be dropped by chance, at the share of the steps before (0.02 at least)."""
    share: float = 0.3
    """Told whatever came before, of 12 trials and more: near 0.75 ``lego.guard.min_trained`` stops the run."""


@dataclass
class InfrastructureAlert:
    """Many trials end by a fault of sandbox, grader, harness or engine within two steps, attempts that were run again
    included."""

    enabled: bool = True
    usual: float = 0.02
    """Share of attempts that fails in a sound installation."""
    chance: float = 2e-5
    """How rarely so many failures may come by chance where that is the usual share."""


@dataclass
class StalenessAlert:
    """Tokens are trained many weight updates after they were sampled."""

    enabled: bool = True
    mean_lag: float = 4.0
    """Updates, on average over the loss tokens. On the tiny policy a lag of 2 left an effective share of 0.83."""
    dropped: float = 0.2
    """Share of a step's trials that is thrown away as too old."""


@dataclass
class CanaryAlert:
    """What the rollout servers make of the canary does not follow the trainer: weights did not arrive."""

    enabled: bool = True
    deviation: float = 0.1
    """How far the share of the move that arrived may be from 1. The guard allows more where it is less certain."""


@dataclass
class RewardsAlert:
    """The rewards that were trained with do not follow what the graders said."""

    enabled: bool = True
    agree: float = 0.9
    """Of all pairs of a solved and an unsolved trial of a step, those in which the solved one got the higher reward.
    1 of a run as this project makes it; a reward that is shaped in other ways may turn a few."""


@dataclass
class DiskAlert:
    """The disk that holds the run is filling."""

    enabled: bool = True
    free_mb: int = 500
    """Less is told at once; or less than twice the newest checkpoint: the next one, and what the store needs."""
    hours: float = 24.0
    """Told when it will be full within so many, at the rate of the last ten steps."""


@dataclass
class SilenceAlert:
    """Nothing happens any more, though the run has not ended."""

    enabled: bool = True
    factor: float = 3.0
    """How many times the longest of the last steps may pass without any event."""
    least_seconds: float = 900.0
    """Nothing is told sooner: an update of a large model, or a held-out evaluation, has no events either."""


@dataclass
class AlertSettings:
    """Which alerts there are."""

    solve_rate: SolveRateAlert = field(default_factory=SolveRateAlert)
    signal: SignalAlert = field(default_factory=SignalAlert)
    tool_use: ToolUseAlert = field(default_factory=ToolUseAlert)
    entropy: EntropyAlert = field(default_factory=EntropyAlert)
    alignment: AlignmentAlert = field(default_factory=AlignmentAlert)
    effective_share: EffectiveShareAlert = field(default_factory=EffectiveShareAlert)
    dropped: DroppedAlert = field(default_factory=DroppedAlert)
    infrastructure: InfrastructureAlert = field(default_factory=InfrastructureAlert)
    staleness: StalenessAlert = field(default_factory=StalenessAlert)
    canary: CanaryAlert = field(default_factory=CanaryAlert)
    rewards: RewardsAlert = field(default_factory=RewardsAlert)
    disk: DiskAlert = field(default_factory=DiskAlert)
    silence: SilenceAlert = field(default_factory=SilenceAlert)
