"""Alignment: rollout and trainer compared, and how old the weights were."""

from __future__ import annotations

import sqlite3

from lego_verl.monitor.queries.learning import curves, metric_names
from lego_verl.monitor.queries.read import Row, all_rows
from lego_verl.monitor.store_sums import steps

ALIGNMENT = (
    *("pearson", "entropy", "proof_provenance", "proof_context", "alignment/", "canary_", "rollout_corr/"),
    *("training/rollout_", "training/rollout_actor_probs_pearson_corr", "router_replay/", "probe_difference"),
    *("probe_change", "in_flight"),
)
"""Metrics of this view: whole names, and beginnings that end in ``/`` or ``_``."""


def alignment(db: sqlite3.Connection) -> Row:
    """Metrics that compare rollout and trainer, by step; and from the trials how old their weights were."""
    chosen = [
        name
        for name in metric_names(db)
        if any(name == each or (each[-1] in "/_" and name.startswith(each)) for each in ALIGNMENT)
    ]
    return {"metrics": curves(db, chosen), "staleness": staleness(db)}


def staleness(db: sqlite3.Connection) -> list[Row]:
    """By step: weight versions between a trial's first token and its last (``span``), and between its last token and
    the step that trained it (``lag``, 0 in a synchronous run); means and the longest."""
    table = steps("step", "split", "versioned", "span", "widest_span", "lag", "longest_lag")
    return all_rows(
        db,
        "SELECT step, 1.0 * sum(span) / sum(versioned) AS span, max(widest_span) AS widest_span, "
        "1.0 * sum(lag) / sum(versioned) AS lag, max(longest_lag) AS longest_lag "
        f"FROM {table} WHERE split = 'train' AND versioned > 0 GROUP BY step",
    )
