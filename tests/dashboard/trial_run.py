"""A run whose trials have all that the Trial view shows: segments, a side call, the trainer's side, hostile texts."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import numpy as np
from monitor_run import PARSER, RENDERER, TOOLS, make_run, record

from lego_verl.capture.call import Sample
from lego_verl.capture.message import Message, Request
from lego_verl.capture.parser import ParsedCall
from lego_verl.capture.record import read_recording, write_recording
from lego_verl.capture.session import SessionCapture
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import index_run, read_rows
from lego_verl.monitor.trained_tokens import TrainedSegment, trained_file, write_trained
from lego_verl.trial.outcome import Outcome

STEP, SPLIT_TRIAL, HOSTILE, LONG = 2, "task0-2-0", "hostile-2-0", "long-2-0"
HOSTILE_TEXT = (
    '<img src=x onerror="window.bad=1"><script>window.bad=1</script>\x1b]0;title\x07\x1b[31mred\u202e \x00 \ud800 end'
)
HOSTILE_PATCH = (
    b"diff --git a/<b>.py b/<b>.py\n--- a/<b>.py\n+++ b/<b>.py\n@@ -1,2 +1,2 @@\n"
    b"-<script>window.bad=1</script>\n+\xff\xfe\n"
)
BIG = 3_000_000


class Talk:
    """A session that grows call by call; routes are of two layers of one expert."""

    def __init__(self) -> None:
        self.made = SessionCapture(RENDERER, PARSER)
        self.serial, self.minted = count(1), count(1)
        self.history = [Message("system", "Be brief."), Message("user", "Fix it.")]

    def call(self, text: str, *, output: str = "ok", origin: str = "main") -> None:
        ids = [*RENDERER.encode(text), RENDERER.close_id]
        prepared = self.made.prepare(Request(tuple(self.history), TOOLS, origin))  # type: ignore[arg-type]
        rows = len(prepared.prompt_ids) + len(ids) - 1
        sample = Sample(
            np.array(ids, dtype=np.int32),
            -np.array([next(self.serial) for _ in ids], dtype=np.float32) / 1024,
            np.full(len(ids), 7, dtype=np.int32),
            "stop",
            routes=(np.arange(rows * 2, dtype=np.int64) % 250).astype(np.uint8).reshape(rows, 2, 1),
        )
        mint = lambda: f"call_{next(self.minted)}"  # noqa: E731
        reply = self.made.commit(prepared, sample, seconds=0.5, mint=mint).message
        if origin == "main":
            self.history.append(reply)
            self.history += [Message("tool", output, tool_call_id=call.id) for call in reply.tool_calls]

    def tool(self, command: str, **more: str) -> None:
        self.call(PARSER.write("I look first.", "", [ParsedCall("bash", json.dumps({"command": command}))]), **more)


def split_talk() -> SessionCapture:
    """Two segments that are trained, and a side call that is not."""
    talk = Talk()
    talk.tool("cat a.py")
    talk.call("A title", origin="side_call")
    talk.history[1] = Message("user", "Fix it, please.")
    talk.tool("sed -i s/x/y/ a.py")
    talk.call("Done.")
    return talk.made


def trial_run(folder: Path) -> RunFolder:
    """Three steps. In the second: a trial of several segments, a hostile one, and a long one."""
    run = make_run(folder, steps=3, tasks=2, members=3)
    write_recording(run.trial(STEP, SPLIT_TRIAL), split_talk())
    index_run(run)
    talk = Talk()
    talk.tool(HOSTILE_TEXT.replace("\ud800", ""), output=HOSTILE_TEXT.replace("\ud800", "") + "x" * BIG)
    talk.call(HOSTILE_TEXT.replace("\ud800", ""))
    _extra(run, HOSTILE, talk.made, HOSTILE_PATCH, b"\xff\xfe<script>window.bad=1</script>\x1b[2J" + b"y" * 500_000)
    talk = Talk()
    talk.tool("cat big.py", output="z" * 60_000)
    talk.call("w" * 45_000)
    _extra(run, LONG, talk.made, b"", b"")
    known = []
    for name in (SPLIT_TRIAL, LONG):
        for segment in read_recording(run.trial(STEP, name)).segments:
            mask = segment.response_mask.astype(bool)
            known.append(_known(name, segment.index, segment.logprobs[mask]))
    write_trained(trained_file(run, STEP), known)
    return run


def _known(trial: str, index: int, logprobs: np.ndarray) -> TrainedSegment:
    """The second token was rejected, the third has weight 0, the fourth no advantage, the fifth differs by 1 nat."""
    advantages, weights = np.full(len(logprobs), 0.5, np.float32), np.full(len(logprobs), 1.5, np.float32)
    rejected, trainer = np.zeros(len(logprobs), dtype=bool), logprobs + np.float32(2**-12)
    rejected[1], weights[2], advantages[3] = True, 0.0, 0.0
    trainer[4] = logprobs[4] - 1
    entropies = np.full(len(logprobs), 0.25, np.float32)
    return TrainedSegment(STEP, trial, index, advantages, trainer, entropies, weights, rejected)


def _extra(run: RunFolder, name: str, made: SessionCapture, patch: bytes, log: bytes) -> None:
    folder = run.trial(STEP, name)
    write_recording(folder, made)
    (folder / "patch.diff").write_bytes(patch)
    (folder / "harness.log").write_bytes(log)
    (folder / "grading.log").write_text("1 passed")
    proof = made.proof()
    told = {"calls": proof.calls, "sampled_tokens": proof.sampled_tokens, "proof": proof.as_dict()}
    with Store(run.store) as store:
        about = record(name, Outcome.UNSOLVED, task="task0", group=f"{STEP}-x", **told, error="<b>no</b>")
        store.finished(STEP, "train", about, read_rows(folder))
        store.closed(STEP, "train", [name], {})
