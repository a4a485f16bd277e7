"""What the rules look at: the store as it was when a step closed, read once for all of them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lego_verl.monitor.queries.read import column
from lego_verl.monitor.store_sums import endings, groups, steps
from lego_verl.trial.outcome import Outcome, Treatment

FIRST = 5
"""Steps that a run's beginning is made of."""
REACH = 40
"""Steps back from the newest that are looked at, beside the first."""
BY_LAG = "alignment/by_lag/"
METRICS = (
    *("entropy", "actor/entropy", "pearson", "seconds", "learning_rate"),
    *("reward_agreement/order", "reward_agreement/equal", "reward_agreement/pairs"),
    *("canary_difference", "canary_change", "canary_arrived", "probe_change"),
    *(f"{BY_LAG}0/pearson_probabilities", "alignment/lag_0/pearson_probabilities"),
    *("alignment/overall/effective_share", "alignment/effective_share"),
)
"""And of every lag the tokens."""
NOT_LOST = ("group_no_variance", "group_surplus")
"""Why trials were not trained where nothing was lost: the sampler had others."""
_INFRASTRUCTURE = frozenset(str(each) for each in Outcome if each.treatment is Treatment.DROP) - {str(Outcome.STALE)}


@dataclass(frozen=True)
class StepFacts:
    """One step of training, all harnesses together."""

    step: int
    groups: int = 0
    zero_variance: int = 0
    trials: int = 0
    """That have ended."""
    solved: int = 0
    graded: int = 0
    lag: float | None = None
    """Weight updates between a trial's last token and its training, on average."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Trials that were not trained, by the reason; those that a sampler did not need are not among them."""
    faults: Counter[str] = field(default_factory=Counter)
    """Attempts that ended by a fault of infrastructure, those that were run again included."""
    attempts: int = 0


@dataclass(frozen=True)
class Evidence:
    """A run up to a step.

    Steps are those of the beginning (``FIRST``) and the newest (``REACH``), the oldest first.
    """

    step: int
    steps: Sequence[StepFacts] = ()
    rates: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """Solve rates of the groups, by step."""
    silent: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """Of each trial the share of turns without a tool call, by step: of the first steps and the newest two. The last
    turn of a trial that did act is no such turn: some harnesses end so."""
    logprobs: Mapping[int, float] = field(default_factory=dict)
    """Mean log-probability of the sampled tokens, by step, where the run has no entropy."""
    metrics: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def metric(self, *names: str) -> dict[int, float]:
        """The first of several names that there is, by step, the oldest first."""
        for name in names:
            if found := self.metrics.get(name):
                return dict(sorted(found.items()))
        return {}

    def last(self, steps: int) -> list[StepFacts]:
        return [each for each in self.steps if self.step - steps < each.step <= self.step]


def evidence(db: sqlite3.Connection, step: int) -> Evidence:
    """Read it from a store, as of the end of ``step``. A few milliseconds, however long the run."""
    table = steps("step", "split", "groups", "zero_variance", "trials", "solved", "graded", "lag", "versioned")
    near = "(step <= ? OR step > ?) AND step <= ? AND split = 'train'"
    spans = (FIRST, step - REACH, step)
    ended = _endings(db, near, spans)
    faults = _faults(db, step)
    found = []
    for row in db.execute(
        "SELECT step, sum(groups), sum(zero_variance), sum(trials), sum(solved), sum(graded), sum(lag), sum(versioned) "
        f"FROM {table} WHERE {near} GROUP BY step ORDER BY step",
        spans,
    ):
        number, dropped, by_outcome = row[0], *ended.get(row[0], (Counter(), Counter()))
        again = faults.get(number, Counter())
        found.append(
            StepFacts(
                *(row[0], row[1] or 0, row[2] or 0),
                trials=by_outcome.total(),
                solved=row[4] or 0,
                graded=row[5] or 0,
                lag=row[6] / row[7] if row[7] and row[6] is not None else None,
                dropped=dropped,
                faults=again + Counter({name: n for name, n in by_outcome.items() if name in _INFRASTRUCTURE}),
                attempts=by_outcome.total() + again.total(),
            )
        )
    metrics = _metrics(db, step)
    wanted = [*range(1, FIRST + 1), step - 2, step - 1, step]
    return Evidence(
        step,
        found,
        _rates(db, near, spans),
        _silent(db, sorted({number for number in wanted if 0 < number <= step})),
        {} if any(metrics.get(name) for name in ("entropy", "actor/entropy")) else _logprobs(db, wanted, step),
        metrics,
    )


def _endings(db: sqlite3.Connection, near: str, spans: tuple[int, ...]) -> dict[int, tuple[Counter[str], Counter[str]]]:
    """(dropped by the reason, trials by outcome) of each step, of those that have ended."""
    found: dict[int, tuple[Counter[str], Counter[str]]] = {}
    table = endings("step", "split", "outcome", "trained", "why_not", "trials")
    for step, outcome, trained, why, trials in db.execute(
        f"SELECT step, outcome, trained, why_not, trials FROM {table} WHERE {near}", spans
    ):
        if outcome == "running":
            continue
        dropped, outcomes = found.setdefault(step, (Counter(), Counter()))
        outcomes[outcome] += trials
        if trained == 0 and why not in NOT_LOST:
            dropped[why] += trials
    return found


def _faults(db: sqlite3.Connection, step: int) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for number, outcome, count in db.execute(
        "SELECT t.step, o.outcome, count(*) FROM trials t JOIN outcomes o ON o.trial_id = t.id WHERE t.step > ? AND "
        "t.step <= ? AND t.split = 'train' AND o.retried = 1 GROUP BY 1, 2",
        (step - 3, step),
    ):
        found.setdefault(number, Counter())[outcome] = count
    return found


def _rates(db: sqlite3.Connection, near: str, spans: tuple[int, ...]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for step, solved, graded in db.execute(
        f"SELECT step, sum(solved), sum(graded) FROM {groups('step', 'split', 'task', 'group_id', 'solved', 'graded')} "
        f"WHERE {near} GROUP BY step, task, group_id HAVING sum(graded) > 0",
        spans,
    ):
        found.setdefault(step, []).append((solved or 0) / graded)
    return found


def _silent(db: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for number in numbers:
        for turns, silent, acted, last in db.execute(
            "SELECT b.turns, b.silent_turns, b.tool_calls, b.last_act FROM trials t JOIN behaviour b ON "
            "b.trial_id = t.id WHERE t.step = ? AND t.split = 'train' AND b.turns > 0",
            (number,),
        ):
            ends_so = int(acted > 0 and silent > 0 and turns > 1 and last in ("text", "none"))
            found.setdefault(number, []).append((silent - ends_so) / (turns - ends_so))
    return found


def _logprobs(db: sqlite3.Connection, numbers: Sequence[int], step: int) -> dict[int, float]:
    found = {}
    for number in {each for each in numbers if 0 < each <= step}:
        total, tokens = db.execute(
            "SELECT sum(c.mean_logprob * c.sampled_tokens), sum(c.sampled_tokens) FROM trials t JOIN calls c ON "
            "c.trial_id = t.id WHERE t.step = ? AND t.split = 'train' AND c.mean_logprob IS NOT NULL",
            (number,),
        ).fetchone()
        if tokens:
            found[number] = total / tokens
    return found


def _metrics(db: sqlite3.Connection, step: int) -> dict[str, dict[int, float]]:
    lags = column(
        db,
        "WITH RECURSIVE n(name) AS (SELECT min(name) FROM metrics WHERE name > ?1 UNION ALL SELECT (SELECT min(m.name) "
        "FROM metrics m WHERE m.name > n.name) FROM n WHERE n.name < ?2) SELECT name FROM n WHERE name < ?2",
        BY_LAG,
        BY_LAG[:-1] + "0",
    )
    found: dict[str, dict[int, float]] = {}
    for name in (*METRICS, *(each for each in lags if each.endswith("/tokens"))):
        points = db.execute(
            "SELECT step, value FROM metrics WHERE name = ? AND split = 'train' AND (step <= ? OR step > ?) "
            "AND step <= ? AND value IS NOT NULL",
            (name, FIRST, step - REACH, step),
        ).fetchall()
        if points:
            found[name] = {number: value for number, value in points}
    return found
