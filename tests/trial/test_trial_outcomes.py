"""Every way in which a trial can go is one outcome, and the trials beside it do not notice."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from trial_helpers import MEND, SUBMIT, ScriptHarness, Watched, bash, make_task, nothing_left, policy, trial, until

from lego_verl.policies.policy import Sampling
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.outcome import Outcome, Treatment
from sandbox.sandbox import ImageMissing, SandboxError

Script = Callable[[str], Bench]


async def test_an_honest_trial_is_solved(mini: Bench, task: Task) -> None:
    finished = await trial(mini, "honest", task, bash("cat answer.txt"), bash(MEND), bash(SUBMIT), group="g1")
    record = finished.record
    assert (record.outcome, record.reward, record.error) == (Outcome.SOLVED, 1.0, "")
    assert b"+mended" in finished.patch
    assert (record.trial, record.task, record.group, record.harness) == ("honest", "mend", "g1", "mini_swe_agent")
    assert (record.calls, record.segments, dict(record.splits)) == (3, 1, {"first": 1})
    assert record.proof["provenance"] == record.proof["context"] == 1.0
    (segment,) = finished.segments
    assert int(segment.response_mask.sum()) == record.sampled_tokens == record.proof["loss_tokens"] > 0
    assert b"cat answer.txt" in finished.harness_log
    phases = {name: seconds for name, seconds in record.seconds.items() if name != "total"}
    assert sum(phases.values()) == pytest.approx(record.seconds["total"], abs=0.2)
    assert min(phases["start"], phases["harness"], phases["grading"]) > 0
    assert record.versions["weights_first"] == record.versions["weights_last"] == 0


@pytest.mark.parametrize(
    ("replies", "limits", "outcome", "reward", "patched"),
    [
        ([bash(SUBMIT)], {}, Outcome.NO_PATCH, 0.0, False),
        ([{"text": "I only talk."}], {}, Outcome.GAVE_UP, 0.0, False),
        ([bash("echo wrong >answer.txt"), bash(SUBMIT)], {}, Outcome.UNSOLVED, 0.0, True),
        ([bash(MEND), {"text": "I talk."}], {}, Outcome.SOLVED, 1.0, True),
        ([bash(MEND), bash("ls")], {"turns": 3}, Outcome.TURN_LIMIT, 1.0, True),
        ([bash("ls")], {"turns": 2}, Outcome.TURN_LIMIT, 0.0, False),
        ([bash("ls")], {"tokens": 120}, Outcome.TOKEN_LIMIT, 0.0, False),
        ([bash(MEND), bash("seq 1 999")], {"context": 4000}, Outcome.CONTEXT_OVERFLOW, 1.0, True),
        ([bash(MEND), bash("sleep 60")], {"seconds": 2.5}, Outcome.TIME_LIMIT, 1.0, True),
    ],
    ids=["nop", "talks", "wrong", "mends, then talks", "turns", "turns, nothing done", "tokens", "context", "time"],
)
async def test_how_agents_end(
    mini: Bench, task: Task, replies: list[Any], limits: dict[str, Any], outcome: Outcome, reward: float, patched: bool
) -> None:
    finished = await trial(mini, "it", task, *replies, limits=limits)
    assert (finished.record.outcome, finished.record.reward) == (outcome, reward), finished.harness_log.decode()
    assert bool(finished.patch) == patched
    assert finished.record.treatment is Treatment.TRAIN
    assert finished.session is not None
    assert finished.session.complete


@dataclass(frozen=True)
class Bad:
    """A harness that behaves badly, and what its trial is to be."""

    script: str
    outcome: Outcome
    says: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    reward: float | None = None


BAD = {
    "hangs": Bad(
        "ask; echo mended >answer.txt; trap '' TERM; (trap '' TERM; setsid sleep 600) & sleep 600",
        Outcome.TIME_LIMIT,
        limits={"seconds": 3.0},
        reward=1.0,
    ),
    "hangs-at-once": Bad(
        "sleep 600", Outcome.HARNESS_FAILED, "never called the model within 3 s", limits={"seconds": 3.0}
    ),
    "crashes": Bad(
        "ask; echo 'Traceback: no such thing' >&2; exit 3", Outcome.HARNESS_FAILED, "exit code 3\n.*no such thing"
    ),
    "killed": Bad("ask; kill -9 $$", Outcome.HARNESS_FAILED, "exit code 137"),
    "prints": Bad("ask; head -c 100000000 /dev/zero | tr '\\0' x; echo mended >answer.txt", Outcome.SOLVED, reward=1.0),
    "forks": Bad(
        "ask; exec python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'",
        Outcome.TIME_LIMIT,
        limits={"seconds": 4.0},
        reward=0.0,
    ),
    "silent": Bad(f"echo I need no model; {MEND}", Outcome.HARNESS_FAILED, "never called the model and ended"),
    "not-there": Bad("exec /opt/nowhere/harness", Outcome.HARNESS_FAILED, "exit code 127\n.*No such file"),
    "fills-disk": Bad(
        "ask; dd if=/dev/zero of=/tmp/big bs=1M; echo x >/tmp/more || exit 1", Outcome.DISK_FULL, "disk is full"
    ),
    "fills-disk-and-is-pleased": Bad("ask; dd if=/dev/zero of=big bs=1M; true", Outcome.DISK_FULL, "no room left"),
    "leaves-no-room": Bad("ask; head -c 12000000 /dev/urandom >big", Outcome.DISK_FULL, "no room left"),
    "eats-memory": Bad(
        "ask; python3 -c \"b = 'x' * (1 << 30); import time; time.sleep(9)\"", Outcome.OUT_OF_MEMORY, "memory"
    ),
    "leaves-too-much": Bad(
        "ask; head -c 200000 /dev/urandom >big",
        Outcome.UNSOLVED,
        "over the limit of 100000",
        limits={"patch_bytes": 100_000},
        reward=0.0,
    ),
    "removes-git": Bad(f"ask; rm -rf .git; {MEND}", Outcome.SOLVED, reward=1.0),
    "removes-all": Bad("ask; cd /; rm -rf /testbed", Outcome.UNSOLVED, reward=0.0),
}


async def test_bad_harnesses_end_as_they_should_and_harm_nobody(mini: Bench, task: Task) -> None:
    """All at once, with honest trials among them."""
    honest = [trial(mini, f"honest-{i}", task, bash("sleep 1"), bash(MEND), bash(SUBMIT)) for i in range(3)]
    bad = [
        trial(replace(mini, adapter=ScriptHarness(case.script), runtime=None), name, task, limits=case.limits)
        for name, case in BAD.items()
    ]
    finished = await asyncio.gather(*honest, *bad)
    for each in finished[:3]:
        assert each.record.outcome is Outcome.SOLVED, each.record
    expected = {name: (case.outcome, case.reward) for name, case in BAD.items()}
    records = {name: each.record for name, each in zip(BAD, finished[3:], strict=True)}
    assert {name: (record.outcome, record.reward) for name, record in records.items()} == expected
    for name, case in BAD.items():
        if case.says:
            with pytest.raises(AssertionError, match=f"(?s){case.says}"):
                raise AssertionError(records[name].error)
        assert len(records[name].error) < 4000
    prints = finished[3 + list(BAD).index("prints")]
    assert len(prints.harness_log) < (1 << 16) + 100
    assert b"more bytes were dropped" in prints.harness_log
    assert nothing_left(mini) == []


async def test_a_policy_that_fails(mini: Bench, task: Task) -> None:
    finished = await trial(mini, "it", task, bash(MEND), {"error": "the engine is gone"})
    record = finished.record
    assert (record.outcome, record.reward, record.treatment) == (Outcome.POLICY_FAILED, None, Treatment.DROP)
    assert "the engine is gone" in record.error
    assert "policy_failed" not in str(record.seconds)


async def test_a_reply_that_is_cut_in_the_middle_of_a_call_goes_on(mini: Bench, task: Task) -> None:
    finished = await trial(mini, "it", task, bash(MEND, cut=True), bash(MEND), bash(SUBMIT))
    record = finished.record
    assert (record.outcome, record.reward, record.calls) == (Outcome.SOLVED, 1.0, 3), finished.harness_log.decode()
    assert record.proof["provenance"] == record.proof["context"] == 1.0
    assert record.proof["loss_tokens"] == record.sampled_tokens


@pytest.mark.parametrize(
    ("test", "files", "outcome", "says", "starts"),
    [
        (b"exit 1\n", {}, Outcome.GRADER_FAILED, "gave no verdict: .*wrote neither", 2),
        (b"echo perhaps >/logs/verifier/reward.txt\n", {}, Outcome.GRADER_FAILED, "'perhaps', not a reward", 2),
        (b"echo half; sleep 60\n", {}, Outcome.GRADER_TIMEOUT, "no verdict within 2 s", 2),
        (b"bash tool.sh; exit 1\n", {"tool.sh": b"ln -s /etc/passwd /logs/verifier/reward.txt\n"}, Outcome.TAMPERED,
         "not an ordinary file", 1),
    ],
    ids=["no verdict", "not a number", "hangs", "attacked"],
)  # fmt: skip
async def test_a_grader_that_breaks(
    script: Script, tmp_path: Path, test: bytes, files: dict[str, bytes], outcome: Outcome, says: str, starts: int
) -> None:
    task = make_task(tmp_path / "broken", test=test, files=files)
    bench = script(f"ask; {MEND}")
    finished = await trial(bench, "it", task, limits={"grading_seconds": 2.0})
    record = finished.record
    assert record.outcome is outcome
    assert record.reward == (0.0 if outcome is Outcome.TAMPERED else None)
    assert record.treatment is (Treatment.FLAG if outcome is Outcome.TAMPERED else Treatment.DROP)
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(record.error)
    assert isinstance(bench.backend, Watched)
    assert bench.backend.started.count("it-grade") == starts
    assert bench.backend.started.count("it") == 1


@pytest.mark.parametrize(
    ("error", "on", "outcome", "says"),
    [
        (SandboxError("no room on this machine"), "it", Outcome.SANDBOX_FAILED, "no room on this machine"),
        (ImageMissing("image x is not here"), "it", Outcome.IMAGE_MISSING, "image x is not here"),
        (OSError(24, "Too many open files"), "it", Outcome.SANDBOX_FAILED, "Too many open files"),
        (SandboxError("no room"), "it-grade", Outcome.GRADER_FAILED, "could not be graded: no room"),
    ],
)
async def test_a_sandbox_that_cannot_start(
    script: Script, task: Task, error: Exception, on: str, outcome: Outcome, says: str
) -> None:
    bench = script(f"ask; {MEND}")
    assert isinstance(bench.backend, Watched)
    bench.backend.fail, bench.backend.fail_on = error, on
    record = (await trial(bench, "it", task)).record
    assert (record.outcome, record.reward) == (outcome, None)
    assert says in record.error


async def test_an_image_that_this_sandbox_cannot_make(script: Script, tmp_path: Path) -> None:
    task = make_task(tmp_path / "built", dockerfile="FROM debian\nWORKDIR /testbed\nRUN make\n")
    record = (await trial(script("ask"), "it", task)).record
    assert record.outcome is Outcome.IMAGE_MISSING
    assert "RUN" in record.error


async def test_a_sandbox_that_is_killed_from_outside(script: Script, task: Task) -> None:
    bench = script("ask; sleep 60")
    assert isinstance(bench.backend, Watched)
    sandboxes = bench.backend.sandboxes
    running = asyncio.create_task(trial(bench, "it", task))
    await until(lambda: "it" in sandboxes)
    await asyncio.sleep(0.5)
    os.kill(sandboxes["it"]._process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    record = (await asyncio.wait_for(running, 20)).record
    assert (record.outcome, record.reward) == (Outcome.SANDBOX_LOST, None)


async def test_an_adapter_that_raises_is_named(script: Script, task: Task) -> None:
    class Broken(ScriptHarness):
        def environment(self, context: Any) -> Any:
            raise KeyError("HOME")

    record = (await trial(replace(script("ask"), adapter=Broken("ask")), "it", task)).record
    assert record.outcome is Outcome.HARNESS_FAILED
    assert "the adapter script failed in environment(): KeyError('HOME')" in record.error


async def test_an_adapter_whose_files_lie_nowhere_is_named(script: Script, task: Task) -> None:
    class Broken(ScriptHarness):
        def files(self, context: Any) -> Any:
            return {"settings.json": b"{}"}

    record = (await trial(replace(script("ask"), adapter=Broken("ask")), "it", task)).record
    assert record.outcome is Outcome.HARNESS_FAILED
    assert "the adapter script failed in files(): ValueError(\"'settings.json' is not" in record.error


async def test_a_trial_that_is_cancelled_leaves_nothing(script: Script, task: Task) -> None:
    bench = script("ask; sleep 60")
    assert isinstance(bench.backend, Watched)
    sandboxes = bench.backend.sandboxes
    running = asyncio.create_task(trial(bench, "it", task))
    await until(lambda: "it" in sandboxes)
    await asyncio.sleep(0.3)
    assert len(nothing_left(bench)) == 3, "folder, session and process: what is looked for can be seen"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert nothing_left(bench) == []
    assert (await trial(script("ask; " + MEND), "it", task)).record.outcome is Outcome.SOLVED


async def test_slots_and_the_baseline_are_shared(script: Script, task: Task) -> None:
    bench = replace(script("ask; sleep 0.4"), slots=asyncio.Semaphore(1))
    first, second = await asyncio.gather(trial(bench, "a", task), trial(bench, "b", task))
    assert second.record.seconds["queued"] >= first.record.seconds["harness"]
    assert len(bench.baselines._known) == 1


async def test_arguments_that_do_not_fit_are_the_callers_fault(script: Script, task: Task) -> None:
    with pytest.raises(ValueError, match="needs a renderer"):
        await trial(script("ask"), "it", task, renderer=None)
    with pytest.raises(ValueError, match="session id"):
        await trial(script("ask"), "not a name", task)


async def test_sampling_is_the_trainers(script: Script, task: Task) -> None:
    seen: list[Sampling] = []
    scripted = policy({"text": "x"})
    inner = scripted.answer

    async def answer(request: Any, **given: Any) -> Any:
        seen.append(given["sampling"])
        return await inner(request, **given)

    scripted.answer = answer  # type: ignore[method-assign]
    await trial(script("ask"), "it", task, policy=scripted, sampling=Sampling(temperature=0.7))
    assert [sampling.temperature for sampling in seen] == [0.7]
