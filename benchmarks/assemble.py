"""Trials into verl's tensors: ``python benchmarks/assemble.py [--trials N] [--tokens N]``.

Takes the way of training: ``lego_verl.workers.agent_loop.outputs``, then verl's own postprocessing up to its put into
TransferQueue, where rows stay in this process instead; then TransferQueue's packing of the rows into a batch, which
is no code of this project and happens in other processes. Beside it, in the same run, a plain ``torch.tensor`` of the
same four lists (prompt, response, mask, log-probabilities), whose result is kept as well. Speeds are by CPU time.

Memory is the peak above what the process held before the first trial, over the size of the tensors; a trial's
segment is made when it is its turn, and is part of it. By default 512 trials of 64k tokens (2k of prompt, then 128
sampled and 400 context in turn): 1.5 GiB of tensors, 2.7 GiB with the plain ones. Exits 1 where more than twice the
tensors was needed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import transfer_queue as tq
from rich.console import Console
from rich.table import Table
from transfer_queue.storage.managers.simple_storage_manager import AsyncSimpleStorageManager
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

from lego_verl.capture.call import Sample
from lego_verl.capture.message import Message
from lego_verl.capture.segment import Segment, TrainingSegment
from lego_verl.capture.split import Split
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import TrialRecord
from lego_verl.workers.agent_loop import outputs

PROMPT, SAMPLED, CONTEXT = 2048, 128, 400
VOCABULARY = 150_000
RECORD = TrialRecord(trial="t", task="t", outcome=Outcome.SOLVED, reward=1.0)


def segment(tokens: int, random: np.random.Generator) -> TrainingSegment:
    """A trial of one segment, grown as the proxy grows it."""
    made = Segment(0, Split.FIRST, [], (), ids(PROMPT, random))
    turn = Message("assistant", "")
    for call in range(max(1, (tokens - PROMPT) // (SAMPLED + CONTEXT))):
        if call:
            made.append_context([], ids(CONTEXT, random))
        sampled = random.integers(0, VOCABULARY, SAMPLED, dtype=np.int32)
        logprobs = -random.random(SAMPLED, dtype=np.float32)
        made.append_sample(call, turn, Sample(sampled, logprobs, np.ones(SAMPLED, np.int32), "stop"))
    return made.training()


def ids(count: int, random: np.random.Generator) -> array[int]:
    made = array("i")
    made.frombytes(random.integers(0, VOCABULARY, count, dtype=np.int32).tobytes())
    return made


@dataclass
class Rows:
    """TransferQueue's storage, in this process: a column a field."""

    columns: dict[str, list[Any]] = field(default_factory=dict)

    async def put(self, *, fields: Any, **_: Any) -> None:
        for name in fields.keys():  # noqa: SIM118 - a TensorDict iterates over its rows
            self.columns.setdefault(name, []).extend(fields[name].unbind() if torch.is_tensor(fields[name]) else [None])

    def tensors(self) -> Iterator[torch.Tensor]:
        return (value for column in self.columns.values() for value in column if torch.is_tensor(value))

    def pack(self) -> dict[str, torch.Tensor]:
        """As TransferQueue does when a batch is asked for; a column's rows are let go with it."""
        names = [name for name, column in self.columns.items() if torch.is_tensor(column[0])]
        return {name: AsyncSimpleStorageManager._pack_field_values(self.columns.pop(name)) for name in names}


def worker() -> Any:
    """verl's rollout worker as far as its postprocessing looks at it."""
    made = AgentLoopWorkerTQ.__ray_metadata__.modified_class.__new__(AgentLoopWorkerTQ.__ray_metadata__.modified_class)
    made.reward_loop_worker_handles = made.processor = None
    made.distillation_enabled = False
    return made


async def assemble(trials: int, tokens: int, rows: Rows) -> tuple[float, float]:
    """Fill ``rows``; return the CPU seconds of this project's part and of verl's."""
    verl, random = worker(), np.random.default_rng(1)
    ours = verls = 0.0
    for number in range(trials):
        of_trial = segment(tokens, random)
        started = time.process_time()
        made = outputs(RECORD, [of_trial], routed=False)
        halfway = time.process_time()
        await verl._agent_loop_postprocess(made, False, uid=str(number), session_id=0, global_steps=1)
        ours += halfway - started
        verls += time.process_time() - halfway
    return ours, verls


def plain(trials: int, tokens: int) -> tuple[float, list[torch.Tensor]]:
    """The CPU seconds of ``torch.tensor``, and what it made."""
    random = np.random.default_rng(1)
    seconds, made = 0.0, []
    for _ in range(trials):
        of_trial = segment(tokens, random)
        ids = (of_trial.prompt_ids, of_trial.response_ids, of_trial.response_mask)
        lists, logprobs = [values.tolist() for values in ids], of_trial.logprobs.tolist()
        started = time.process_time()
        made += [torch.tensor(values, dtype=torch.int64) for values in lists]
        made.append(torch.tensor(logprobs, dtype=torch.float32))
        seconds += time.process_time() - started
    return seconds, made


def resident(name: str) -> int:
    """``VmRSS`` or its high-water mark ``VmHWM``, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def forget_peak() -> int:
    """Begin a new high-water mark; return what the process holds now."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=65536, help="of a trial")
    asked = parser.parse_args()
    with patch.object(tq, "async_kv_batch_put", Rows().put):
        asyncio.run(assemble(1, PROMPT, Rows()))  # what is imported or compiled at first use
    of_plain, kept = plain(asked.trials, asked.tokens)
    rows = Rows()
    with patch.object(tq, "async_kv_batch_put", rows.put):
        before = forget_peak()
        ours, verls = asyncio.run(assemble(asked.trials, asked.tokens, rows))
    peak = resident("VmHWM") - before
    size = sum(tensor.nbytes for tensor in rows.tensors())
    tokens = sum(len(row) for row in rows.columns["input_ids"])
    forget_peak()
    started = time.process_time()
    batch = rows.pack()
    packing = time.process_time() - started
    packed = resident("VmHWM") - before
    del kept

    table = Table(title=f"{asked.trials} trials, {tokens:,} tokens", title_justify="left", box=None)
    table.add_column("")
    table.add_column("tokens/s", justify="right")
    table.add_column("of plain", justify="right")
    for label, took in (
        ("plain torch.tensor of four lists", of_plain),
        ("segments to verl's rows", ours + verls),
        ("  this project's part", ours),
        ("  verl's part", verls),
        ("TransferQueue packs a batch", packing),
    ):
        table.add_row(label, f"{tokens / took:,.0f}", f"{of_plain / took:.2f}")
    console = Console()
    console.print(table)
    console.print(
        f"tensors {size / 2**20:,.0f} MiB in {len(batch)} fields; peak {peak / size:.2f} times the tensors, "
        f"{packed / size:.2f} while packing"
    )
    return int(peak > 2 * size)


if __name__ == "__main__":
    sys.exit(main())
