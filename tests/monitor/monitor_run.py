"""A small run's folder, as training leaves it: trials with real recordings, events and metrics; and rows of a store."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.call import Sample
from lego_verl.capture.message import Message, Request
from lego_verl.capture.parser import HermesParser, ParsedCall
from lego_verl.capture.proof import Proof
from lego_verl.capture.record import write_recording
from lego_verl.capture.session import SessionCapture
from lego_verl.monitor.behaviour.count import Counts
from lego_verl.monitor.run_folder import RunFolder, append_line
from lego_verl.monitor.store_rows import TrialRows
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import TrialRecord

RENDERER, PARSER = byte_renderer(), HermesParser()
TOOLS: tuple[dict[str, Any], ...] = (
    {"type": "function", "function": {"name": "bash", "parameters": {"required": ["command"]}}},
)
PATCH = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n-x\n+y\n+z\n"


def capture(*lines: str, output: str = "<returncode>0</returncode>", ending: str = "Done.") -> SessionCapture:
    """A session in which an agent ran the lines, one a turn, and said something at the end."""
    made, serial, minted = SessionCapture(RENDERER, PARSER), count(1), count(1)
    history = [Message("system", "Be brief."), Message("user", "Fix it.")]
    texts = [PARSER.write("", "", [ParsedCall("bash", json.dumps({"command": line}))]) for line in lines]
    for text in [*texts, ending]:
        ids = [*RENDERER.encode(text), RENDERER.close_id]
        sample = Sample(
            np.array(ids, dtype=np.int32),
            -np.array([next(serial) for _ in ids], dtype=np.float32) / 1024,
            np.zeros(len(ids), dtype=np.int32),
            "stop",
        )
        prepared = made.prepare(Request(tuple(history), TOOLS))
        reply = made.commit(prepared, sample, seconds=0.5, mint=lambda: f"call_{next(minted)}").message
        history.append(reply)
        history += [Message("tool", output, tool_call_id=call.id) for call in reply.tool_calls]
    return made


def record(
    trial: str, outcome: Outcome = Outcome.SOLVED, *, task: str = "bakery", group: str = "g", **more: Any
) -> Any:
    """``TrialRecord.as_dict``."""
    dropped = outcome.treatment.value == "drop"
    reward = None if dropped else float(outcome is Outcome.SOLVED)
    seconds = {"harness": 2.0, "generation": 1.0, "total": 4.0}
    proof = Proof(calls=3, segments=1, splits={"first": 1}, sampled_tokens=15, loss_tokens=15).as_dict()
    about = {"group": group, "harness": "mini_swe_agent", "reward": reward, "seconds": seconds, "proof": proof}
    made = TrialRecord(trial, task, outcome, **about)
    return {**made.as_dict(), **more}


def rows(calls: int = 3) -> TrialRows:
    made = [(i, 0, "main", 9, 5, "stop", 0.5, 1, -0.1, 20, 4, 1, 0, "read", "cat a.py") for i in range(calls)]
    counts = Counts(turns=calls, characters=20 * calls, thinking_characters=4 * calls, tool_calls=calls, reads=calls)
    return TrialRows(made, [(0, "first", calls, 9, 30, 15, 1, 1, 1)], counts.as_dict())


def make_run(folder: Path, *, steps: int = 3, tasks: int = 2, members: int = 2, **captured: Any) -> RunFolder:
    """Each step has a group of every task; the first trial of each group is solved, the last of the step is dropped."""
    run = RunFolder(folder)
    run.create()
    run.recipe.write_text("lego:\n  trial:\n    min_group: 2\ntrainer:\n  total_training_steps: 9\n")
    session = capture("cat a.py", "sed -i s/x/y/ a.py", "pytest -q", **captured)
    for step in range(1, steps + 1):
        outcomes: dict[str, int] = {}
        for number in range(tasks * members):
            task, member = divmod(number, members)
            name = f"task{task}-{step}-{member}"
            outcome = Outcome.SOLVED if member == 0 else Outcome.UNSOLVED
            if number == tasks * members - 1:
                outcome = Outcome.SANDBOX_FAILED
            _trial(run, step, record(name, outcome, task=f"task{task}", group=f"{step}-{task}"), session)
            outcomes[str(outcome)] = outcomes.get(str(outcome), 0) + 1
        trained = (tasks - 1) * members + (members - 1 if members > 2 else 0)
        line = {"step": step, "solve_rate": 0.5, "seconds": 10.0, "outcomes": outcomes, "pearson": 1}
        append_line(run.metrics, {**line, "loss_tokens": trained * session.proof().loss_tokens})
    return run


def _trial(run: RunFolder, step: int, made: dict[str, Any], session: SessionCapture) -> None:
    name, proof = made["trial"], session.proof()
    made = {**made, "calls": proof.calls, "sampled_tokens": proof.sampled_tokens, "proof": proof.as_dict()}
    about = {"step": step, "split": "train", "trial": name}
    append_line(run.events, {"t": 1.0, "event": "started", **about, "task": made["task"], "attempt": 1})
    folder = run.trial(step, name)
    write_recording(folder, session)
    (folder / "patch.diff").write_bytes(PATCH)
    (folder / "harness.log").write_text("log")
    (folder / "trial.json").write_text(json.dumps(made))
    kept = {key: made[key] for key in ("task", "harness", "outcome", "reward", "error", "seconds", "sampled_tokens")}
    append_line(run.events, {"t": 2.0, "event": "finished", **about, **kept})
