"""A trial of a released harness in the real sandbox, with a policy that is a function of the conversation."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from npm_helpers import need_npm

from harness_adapters.registry import load_adapter
from harness_adapters.runtime import build_runtime, cache_folder
from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.message import Message
from lego_verl.capture.parser import HermesParser
from lego_verl.harness_check.check import make_task
from lego_verl.policies.scripted import Reply, ScriptedPolicy
from lego_verl.trial.bench import open_bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.record import FinishedTrial
from lego_verl.trial.run import run_trial
from sandbox.local import LocalBackend
from sandbox.sandbox import Limits

Speak = Callable[[Sequence[Message]], Reply]


async def live_trial(name: str, speak: Speak, options: Mapping[str, Any], **limits: Any) -> FinishedTrial:
    """One trial on the task of ``harness_check``; nothing of it is left."""
    adapter = load_adapter(name, options)
    if adapter.runtime.npm:
        need_npm()
    built = await build_runtime(adapter.runtime, cache_folder())
    folder = Path(tempfile.mkdtemp(prefix="lego-test-"))
    folder.chmod(0o755)
    renderer, parser = byte_renderer(), HermesParser()
    room = Limits(memory_mb=1024, processes=256, disk_mb=512)
    try:
        async with open_bench(f"live-{os.getpid()}", LocalBackend(), adapter, built, sandbox=room) as bench:
            return await run_trial(
                bench,
                trial=name,
                task=make_task(folder / "task"),
                policy=ScriptedPolicy(speak, renderer=renderer, parser=parser),
                renderer=renderer,
                parser=parser,
                limits=TrialLimits(**{"turns": 60, "tokens": 1 << 24, "seconds": 300.0, **limits}),
            )
    finally:
        shutil.rmtree(folder)


def check_exactly_once(finished: FinishedTrial) -> None:
    """Every sampled token of the trial is trained once, or counted as untrained with a reason."""
    session = finished.session
    assert session is not None
    assert session.capture is not None
    proof = session.proof()
    assert (proof.provenance, proof.context) == (1.0, 1.0)
    assert proof.sampled_tokens == proof.loss_tokens + sum(proof.untrained.values())
    # A script's log-probabilities are all different, so that every token of it can be told from all others.
    sampled = [value for call in session.calls for value in call.sample.logprobs.tolist()]
    trained = [
        value
        for segment in finished.segments
        for value in segment.logprobs[segment.response_mask.astype(bool)].tolist()
    ]
    assert len(set(sampled)) == len(sampled)
    assert len(set(trained)) == len(trained)
    assert set(trained) <= set(sampled)
    owners: dict[int, list[int]] = defaultdict(list)
    for segment in finished.segments:
        for call in segment.calls:
            owners[call].append(segment.index)
    assert all(len(segments) == 1 for segments in owners.values())
    untrained = [call for call in session.calls if call.index not in owners]
    assert sum(len(call.sample.ids) for call in untrained) == sum(proof.untrained.values())
    assert np.isfinite(trained).all()


def texts_by_segment(finished: FinishedTrial) -> list[tuple[str, str]]:
    """For each segment, trained or not, why it began and what was sampled in it."""
    session = finished.session
    assert session is not None
    assert session.capture is not None
    splits = session.capture.splits()
    said = [""] * len(splits)
    for call in session.calls:
        said[call.segment] += call.text
    return [(str(split), text) for split, text in zip(splits, said, strict=True)]
