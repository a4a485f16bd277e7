"""A generation that was aborted by a weight update goes on where it stopped: its parts become one sample."""

from __future__ import annotations

import numpy as np

from lego_verl.capture.call import IncompleteSample, Sample


def joined(first: Sample | None, second: Sample, prompt_length: int) -> Sample:
    """Join a part of a generation with what continues it; every token keeps its own version and log-probability.

    Args:
        first: what was sampled so far, or None.
        second: the continuation, sampled after ``prompt_length`` tokens and those of ``first``.
        prompt_length: tokens that were sent for the first part.

    Raises:
        IncompleteSample: when one part carries expert routes and the other does not.
    """
    if first is None or not len(first.ids):
        return second
    if (first.routes is None) != (second.routes is None) and len(second.ids):
        raise IncompleteSample("an aborted generation and its continuation do not both carry expert routes")
    routes = first.routes
    if routes is not None and second.routes is not None:
        # What went through the model before keeps the experts it had then.
        routes = np.concatenate([routes, second.routes[prompt_length + len(first.ids) - 1 :]])
    return Sample(
        ids=np.concatenate([first.ids, second.ids]),
        logprobs=np.concatenate([first.logprobs, second.logprobs]),
        versions=np.concatenate([first.versions, second.versions]),
        finish=second.finish,
        routes=routes,
    )
