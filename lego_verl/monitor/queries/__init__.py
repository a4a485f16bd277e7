"""What the views show, as named functions over a store. None changes it; each takes a connection of ``read_store``.

They read sums by step where they can (``store_sums``), and the store's own rows only by an index: a run of 100,000
trials answers each in well under 300 ms (``python benchmarks/store.py``). Plain dictionaries and lists come back, ready
for JSON. A rate is a ratio of sums, and comes with what it was made of.
"""

from __future__ import annotations

from lego_verl.monitor.queries.alignment import ALIGNMENT, alignment, staleness
from lego_verl.monitor.queries.behaviour import behaviour, cohort, thirds, trends
from lego_verl.monitor.queries.compare import side, trials_of_task
from lego_verl.monitor.queries.learning import curves, learning, metric_names
from lego_verl.monitor.queries.outcomes import outcomes, trials, where_they_end
from lego_verl.monitor.queries.overview import events, latest, overview
from lego_verl.monitor.queries.read import Row, read_store
from lego_verl.monitor.queries.recipe import recipe, recipe_differences
from lego_verl.monitor.queries.tasks import tasks
from lego_verl.monitor.queries.times import times
from lego_verl.monitor.queries.trial import trial

__all__ = [
    "ALIGNMENT",
    "Row",
    "alignment",
    "behaviour",
    "cohort",
    "curves",
    "events",
    "latest",
    "learning",
    "metric_names",
    "outcomes",
    "overview",
    "read_store",
    "recipe",
    "recipe_differences",
    "side",
    "staleness",
    "tasks",
    "thirds",
    "times",
    "trends",
    "trial",
    "trials",
    "trials_of_task",
    "where_they_end",
]
