"""Faults that users of such systems met, by the number under which they are listed: those of trials and of steps.

Faults 1 to 11 are in ``tests/proxy/test_field_faults.py``; 8, 9 and 11 to 14 with real models in
``tests/workers/test_field_faults_alignment.py``; 22 in ``tests/workers/test_loss_weight.py``. What another test shows
exactly is not shown again:

====  ==============================================  ===========================================================
  12  rows that a batch was padded with reach nobody  workers/test_rollout.py, batched_and_cached_generation
  15  a step's wait for trials has a deadline         workers/test_run_ledger.py, what_is_waited_for_in_vain
  17  a killed driver's sandboxes                     sandbox/test_sandbox_leaves_nothing.py, a_killed_driver
  17  a driver killed in a run of 60 trials           chaos/test_chaos.py
  20  every place of git that remembers, and cheaters sandbox/test_sandbox_images.py, tasks/test_leaks.py
  21  83 cheaters, on either backend                  tasks/test_cheaters.py, tasks/test_cheaters_one_process.py
  25  images are fetched and resolved to digests      sandbox/test_docker_images.py
====  ==============================================  ===========================================================
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from rich.console import Console
from trial_helpers import MEND, Watched, make_task, nothing_left, trial

from lego_verl.capture.call import IncompleteSample, Sample
from lego_verl.capture.routes import check_routes
from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, LegoConfig, typed
from lego_verl.consistency import check_consistency
from lego_verl.run_tasks import NoTasks, with_images
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.ledger import Ledger, LedgerError
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import FinishedTrial, TrialRecord
from lego_verl.trial.retries import RetryPolicy, run_retried
from lego_verl.workers.loss_weight import trial_advantages
from lego_verl.workers.run_ledger import RunLedger
from lego_verl.workers.step_account import StepAccount
from sandbox.local import LocalBackend
from sandbox.sandbox import Image, ImageMissing, SandboxLost, SandboxSpec

Script = Callable[[str], Bench]
PROOF = {
    **{"splits": {"first": 1}, "calls": 1, "segments": 1, "sampled_tokens": 4, "loss_tokens": 4},
    **{"provenance": 1.0, "context": 1.0},
}


def ended(step: RunLedger, split: str, *ends: tuple[str, Outcome, float | None, str]) -> None:
    """Trials of a step that began and ended: name, outcome, reward, group."""
    for name, outcome, reward, group in ends:
        step.started(1, split, name, "task", 1)
        step.finished(1, split, {"trial": name, "task": "task", "group": group, "outcome": str(outcome),
                                 "reward": reward, "proof": PROOF, "error": f"why {name} went"})  # fmt: skip


def account(step: RunLedger, split: str = "train", min_group: int = 2) -> StepAccount:
    return StepAccount(**step.close(1, split, min_group))


@pytest.fixture
def step(tmp_path: Path) -> RunLedger:
    return RunLedger(str(tmp_path / "events.jsonl"))


# --- 12, 13: what is replayed


def routed(rows: int) -> tuple[list[int], Sample]:
    """A prompt of all but 4 of these positions, with routes of 6 layers and 4 experts that no two tokens share."""
    routes = np.random.default_rng(0).integers(0, 64, (rows, 6, 4), dtype=np.uint8)
    said = np.arange(5, dtype=np.int32)
    return list(range(rows - 4)), Sample(said, np.zeros(5, np.float32), np.zeros(5, np.int32), "stop", routes)


@pytest.mark.parametrize("where", [slice(0, 40), slice(100, 132), slice(160, 200)], ids=["front", "middle", "end"])
def test_fault_12_rows_that_no_token_chose_are_noticed(where: slice) -> None:
    """Padding and what was left in memory: a long run of the same routes, whatever the tokens are."""
    prompt, sample = routed(200)
    check_routes(sample, prompt)
    assert sample.routes is not None
    sample.routes[where] = sample.routes[where.start]
    with pytest.raises(IncompleteSample, match=rf"from {where.start} on carry the same expert routes"):
        check_routes(sample, prompt)
    check_routes(sample, prompt, known=where.stop)
    check_routes(sample, [7] * len(prompt))  # one token again and again may well choose the same


def test_fault_12_the_last_sampled_token_has_no_row_and_none_is_made_up() -> None:
    prompt, sample = routed(200)
    check_routes(sample, prompt)
    assert sample.routes is not None
    for rows in (sample.routes[:-1], np.concatenate([sample.routes, sample.routes[-1:]])):
        with pytest.raises(IncompleteSample, match="200 positions went through the model"):
            check_routes(replace(sample, routes=rows), prompt)


_REPLAY = "actor_rollout_ref.rollout.enable_rollout_routing_replay=true"


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ([_REPLAY, "policy.family=moe"], "records expert routes that nothing replays.*the actor is of fsdp2"),
        (["+actor_rollout_ref.actor.megatron.router_replay.mode=R3"], "replays expert routes that nothing records"),
        ([_REPLAY, "+actor_rollout_ref.actor.megatron.router_replay.mode=R3"], "family=dense has no experts"),
    ],
)
def test_fault_13_half_of_a_router_replay_is_refused(overrides: list[str], told: str) -> None:
    config = compose_recipe(overrides)
    with pytest.raises(ConfigError, match=told):
        check_consistency(config, typed(config))


def test_fault_13_it_is_refused_before_anything_is_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "lego_verl.main", _REPLAY],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert len(said) == 1
    assert "routing" in said[0] or "routes" in said[0]
    assert "| torch" not in done.stderr.replace("  ", ""), "no weights, and nothing that could hold them"


# --- 15, 16, 17: what does not end


async def test_fault_15_a_harness_that_hangs_ends_at_its_deadline_and_is_accounted_for(
    script: Script, task: Task, step: RunLedger
) -> None:
    """It ignores SIGTERM, has children in sessions of their own, and holds its slot no longer than it may."""
    hangs = "ask; trap '' TERM HUP INT; (trap '' TERM; setsid sleep 6000) & while :; do sleep 60; done"
    bench = replace(script(hangs), slots=asyncio.Semaphore(1))

    async def submitted(name: str) -> None:
        step.started(1, "train", name, task.name, 1)
        finished = await trial(bench, name, task, limits={"seconds": 2.0}, group="g")
        step.finished(1, "train", finished.record.as_dict())

    await asyncio.wait_for(asyncio.gather(*(submitted(f"t{number}") for number in range(3))), 60)
    closed = account(step)
    assert closed.outcomes == {"time_limit": 3}
    assert closed.submitted == closed.trained + closed.dropped + closed.pending == 3
    assert closed.pending == 0
    assert nothing_left(bench) == []


async def test_fault_15_what_was_tried_again_is_one_trial() -> None:
    ledger = Ledger()
    ledger.submit("t")

    async def run(attempt: int) -> FinishedTrial:
        outcome = Outcome.SANDBOX_LOST if attempt < 3 else Outcome.SOLVED
        return FinishedTrial(TrialRecord("t", "task", outcome))

    finished = await run_retried(run, RetryPolicy(retries=2, first_delay=0.0))
    ledger.finish("t", finished.record.outcome)
    ledger.train(["t"])
    buckets = ledger.check(closed=True)
    assert (buckets.submitted, buckets.trained, finished.record.attempts) == (1, 1, 3)


def test_fault_16_a_trial_that_is_running_for_ever_is_named_and_the_wait_ends(tmp_path: Path) -> None:
    now = [0.0]
    step = RunLedger(str(tmp_path / "events.jsonl"), clock=lambda: now[0])
    ended(step, "train", ("a", Outcome.SOLVED, 1.0, "g"))
    step.started(1, "train", "stuck", "task", 1)
    now[0] = 599.0
    assert step.overdue(1, "train", 600.0) == ""
    now[0] = 601.0
    assert step.overdue(1, "train", 600.0).endswith("1 of 2 trials have ended; waiting for stuck")
    with pytest.raises(LedgerError, match=r"1 without an ending \(stuck\)"):
        account(step).check()


_DRIVER = """
import asyncio, sys
from pathlib import Path
from sandbox.local import LocalBackend
from sandbox.sandbox import Image, SandboxSpec

async def main():
    backend = LocalBackend(scratch=Path(sys.argv[1]))
    link = backend.scratch.folder(sys.argv[2], "trial") / "s"
    server = await asyncio.start_unix_server(lambda reader, writer: writer.close(), link)
    link.chmod(0o666)
    sandbox = await backend.start(SandboxSpec(sys.argv[2], "trial", Image(), link=link))
    print("up", flush=True)
    await sandbox.exec(["sleep", "600"], deadline=600)

asyncio.run(main())
"""


async def test_fault_17_a_reaper_takes_what_the_killed_run_left_and_nothing_of_another(tmp_path: Path) -> None:
    """Sandboxes end with their driver; what else it left goes by its label, and only by it."""
    scratch = tmp_path / "scratch"
    living = LocalBackend(scratch=scratch)
    mine = living.scratch.folder("living", "trial")
    sandbox = await living.start(SandboxSpec("living", "trial", Image()))
    driver = subprocess.Popen([sys.executable, "-c", _DRIVER, str(scratch), "dead"], stdout=subprocess.PIPE)
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"up\n"
        assert [path.parent.name for path in scratch.rglob("s") if path.is_socket()] == [f"trial.{driver.pid}"]
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        left = await living.left()
        assert {each.run for each in left} == {"dead"}, "the processes of its sandbox may be gone already"
        assert await living.reap() >= 1
        assert await living.left() == []
        assert [path for path in scratch.rglob("s") if path.is_socket()] == []
        assert mine.is_dir()
        assert (await sandbox.exec(["echo", "alive"], deadline=9)).output == b"alive\n"
    finally:
        driver.kill()
        driver.wait()
        await sandbox.close()


# --- 18, 19, 23: what a step is made of


@pytest.mark.parametrize("lost", [Outcome.OUT_OF_MEMORY, Outcome.SANDBOX_LOST, Outcome.POLICY_FAILED])
def test_fault_18_too_few_valid_trials_are_an_error_with_its_cause(step: RunLedger, lost: Outcome) -> None:
    ended(step, "train", ("a", Outcome.SOLVED, 1.0, "g"), ("b", Outcome.UNSOLVED, 0.0, "g"))
    ended(step, "train", *((f"l{number}", lost, None, "h") for number in range(6)))
    closed = account(step)
    assert (closed.submitted, closed.trained, closed.dropped) == (8, 2, 6)
    with pytest.raises(LedgerError) as error:
        closed.check(min_trained=0.5)
    assert f"2 of 8 trials can be trained, and lego.guard.min_trained=0.5 wants 4; dropped: {lost} 6" in str(
        error.value
    )
    assert f"{lost}: why l0 went" in str(error.value)


def test_fault_18_a_step_without_any_is_one_too(step: RunLedger) -> None:
    ended(step, "train", ("a", Outcome.OUT_OF_MEMORY, None, "g"))
    with pytest.raises(LedgerError, match="0 of 1 trials can be trained"):
        account(step).check(min_trained=0.0)


def test_fault_19_held_out_trials_that_failed_stay_in_the_account(step: RunLedger) -> None:
    """Solved, unsolved and infrastructure are told apart, and together they are what was asked for."""
    for outcome, reward in (
        (Outcome.SOLVED, 1.0),
        (Outcome.UNSOLVED, 0.0),
        (Outcome.TIME_LIMIT, 0.0),
        (Outcome.SANDBOX_LOST, None),
        (Outcome.IMAGE_MISSING, None),
    ):
        ended(step, "heldout", (f"t-{outcome}", outcome, reward, str(outcome)))
    closed = account(step, "heldout", min_group=1)
    closed.check()
    assert closed.outcomes == {"solved": 1, "unsolved": 1, "time_limit": 1, "sandbox_lost": 1, "image_missing": 1}
    assert sum(closed.outcomes.values()) == closed.submitted == 5
    assert closed.dropped_why == {"sandbox_lost": 1, "image_missing": 1}
    assert closed.solve_rate == pytest.approx(1 / 3), "of those that were graded; the others are beside it"


def test_fault_19_one_that_never_ended_is_no_smaller_denominator(step: RunLedger) -> None:
    ended(step, "heldout", ("a", Outcome.SOLVED, 1.0, "a"))
    step.started(1, "heldout", "lost", "task", 1)
    with pytest.raises(LedgerError, match=r"2 trials submitted, 1 to train, 0 dropped, 1 without an ending \(lost\)"):
        account(step, "heldout", min_group=1).check()


def advantages(rewards: list[float]) -> list[float]:
    names = [f"t{number}" for number in range(len(rewards))]
    return trial_advantages(
        torch.tensor(rewards), names, ["g"] * len(rewards), "grpo", norm_by_std=False, config=OmegaConf.create({})
    ).tolist()


def test_fault_23_advantages_of_a_group_are_centred() -> None:
    assert advantages([1.0, 0.0, 1.0, 0.0]) == pytest.approx([0.5, -0.5, 0.5, -0.5])
    assert advantages([1.0, 1.0]) == advantages([0.0, 0.0]) == [0.0, 0.0]


def test_fault_23_groups_of_one_are_refused_and_groups_without_variance_counted(step: RunLedger) -> None:
    config = compose_recipe(["trial.min_group=1"])
    with pytest.raises(ConfigError, match="a group of one has no baseline"):
        check_consistency(config, typed(config))
    ended(step, "train", ("a", Outcome.SOLVED, 1.0, "one"), ("b", Outcome.SANDBOX_LOST, None, "one"))
    ended(step, "train", ("c", Outcome.SOLVED, 1.0, "same"), ("d", Outcome.SOLVED, 1.0, "same"))
    ended(step, "train", ("e", Outcome.SOLVED, 1.0, "both"), ("f", Outcome.TAMPERED, 0.0, "both"))
    closed = account(step)
    assert (closed.groups, closed.small_groups, closed.zero_variance_groups) == (3, 1, 1)
    assert closed.dropped_why == {"small_group": 1, "sandbox_lost": 1}
    assert (closed.trained, closed.reward) == (4, 0.8), "the mean is of all that were graded"


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-1", "1e400"])
async def test_fault_23_a_reward_that_is_no_number_is_no_reward(script: Script, tmp_path: Path, written: str) -> None:
    task = make_task(tmp_path / "odd", test=f"echo {written} >/logs/verifier/reward.txt\n".encode())
    record = (await trial(script(f"ask; {MEND}"), "it", task)).record
    assert (record.outcome, record.reward, record.treatment) == (Outcome.GRADER_FAILED, None, Treatment.DROP)


# --- 20, 21: what an agent finds, and what it leaves


_LATER = """
git init -q -b main; git config user.name x; git config user.email x@localhost
git add -A; git commit -qm base; base=$(git rev-parse HEAD)
echo mended >answer.txt; git commit -qam THE-FIX; git tag v2; git branch later; git stash -q 2>/dev/null
git remote add origin https://localhost/upstream; git update-ref refs/remotes/origin/main HEAD
git pack-refs --all; git reset -q --hard "$base"; git rev-parse v2 >.git/FETCH_HEAD
"""
_SEARCH = r"""
ask
{
    git log --all --oneline; git rev-list --all --objects; git reflog --all
    git fsck --full --no-reflogs --unreachable --lost-found 2>&1; ls .git/lost-found 2>/dev/null
    cat .git/packed-refs .git/FETCH_HEAD .git/ORIG_HEAD 2>/dev/null; git remote -v; git for-each-ref; git stash list
    git cat-file --batch-all-objects --batch-check
    for object in $(git cat-file --batch-all-objects --batch-check | cut -d' ' -f1); do git cat-file -p $object; done
} >/tmp/seen 2>&1
git log --oneline | wc -l
grep -c -e THE-FIX -e upstream -e v2 -e '^mended' /tmp/seen
git status --porcelain; git blame -s answer.txt >/dev/null && echo blamed
"""


async def test_fault_20_the_fix_is_not_in_the_repository_that_an_agent_gets(script: Script, tmp_path: Path) -> None:
    task = make_task(tmp_path / "mend")
    subprocess.run(["bash", "-ec", _LATER], cwd=task.environment / "repo", check=True)
    assert b"THE-FIX" in subprocess.check_output(["git", "log", "--all"], cwd=task.environment / "repo")
    finished = await trial(script(_SEARCH), "it", task)
    assert finished.harness_log.decode().splitlines()[-3:] == ["1", "0", "blamed"], finished.harness_log.decode()
    assert finished.record.outcome is Outcome.NO_PATCH


_PLANT = "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt"
_TEST_WITH_A_TOOL = b"""bash tool.sh & sleep 0.3
if grep -q mended answer.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""
_REPOSITORY_TEST = "test -e ok && grep -q mended answer.txt\n"
FAULT_21 = {
    "planted file": _PLANT,
    "background writer": f"(setsid bash -c 'while :; do {_PLANT}; sleep 0.05; done' >/dev/null 2>&1 &); sleep 0.4",
    "writer that waits for the grader": f"echo '({_PLANT}) & sleep 9' >tool.sh",
}


@pytest.mark.parametrize("how", FAULT_21)
async def test_fault_21_it_scores_0_and_is_flagged(script: Script, tmp_path: Path, how: str) -> None:
    task = make_task(tmp_path / "it", test=_TEST_WITH_A_TOOL, files={"tool.sh": b"true\n"})
    record = (await trial(script(f"ask; echo no >answer.txt; {FAULT_21[how]}"), "it", task)).record
    assert (record.outcome, record.reward, record.treatment) == (Outcome.TAMPERED, 0.0, Treatment.FLAG)
    assert record.signs


async def test_fault_21_rewritten_tests_score_0(script: Script, tmp_path: Path) -> None:
    """The hidden ones are not in the agent's sandbox; what it wrote in their place is not what runs."""
    task = make_task(tmp_path / "it", files={"tests/test.sh": _REPOSITORY_TEST.encode()})
    rewrite = "echo true >tests/test.sh; ls /tests 2>&1; mkdir -p /tests 2>/dev/null; echo no >answer.txt"
    record = (await trial(script(f"ask; {rewrite}"), "it", task)).record
    assert (record.outcome, record.reward) == (Outcome.UNSOLVED, 0.0)


# --- 25: images


class Registry:
    """A backend that has images, or has not."""

    name, shares_usr, scratch = "registry", False, None

    def __init__(self, missing: set[str]) -> None:
        self.missing, self.fetched = missing, list[str]()

    async def fetch(self, images: list[Image], report: Any = None) -> Mapping[Image, str]:
        for number, image in enumerate(images, 1):
            self.fetched.append(str(image.reference))
            report(number, len(images))
        return {image: "pull refused: too many requests" for image in images if image.reference in self.missing}


def lego(**more: Any) -> LegoConfig:
    return typed(compose_recipe([f"sandbox.{key}={value}" for key, value in more.items()]))


async def test_fault_25_images_are_fetched_before_step_0(tmp_path: Path) -> None:
    tasks = [replace(make_task(tmp_path / name), image=f"images/{name}:1") for name in ("a", "b", "c")]
    console = Console(quiet=True)
    registry = Registry(set())
    assert await with_images(tasks[:2], tasks[2:], registry, lego(), console) == (tasks[:2], tasks[2:])  # type: ignore[arg-type]
    assert registry.fetched == ["images/a:1", "images/b:1", "images/c:1"]
    lacking = Registry({"images/b:1"})
    with pytest.raises(NoTasks, match=r"1 of 3 tasks have no image \(b\): pull refused"):
        await with_images(tasks[:2], tasks[2:], lacking, lego(), console)  # type: ignore[arg-type]
    kept = await with_images(tasks[:2], tasks[2:], lacking, lego(missing_image="drop"), console)  # type: ignore[arg-type]
    assert kept == (tasks[:1], tasks[2:])


@pytest.mark.parametrize("on", ["it", "it-grade"])
async def test_fault_25_a_missing_image_is_never_a_reward(script: Script, task: Task, on: str) -> None:
    """Neither where the agent would work nor where its patch would be judged."""
    bench = script(f"ask; {MEND}")
    assert isinstance(bench.backend, Watched)
    bench.backend.fail, bench.backend.fail_on = ImageMissing("no such image"), on
    record = (await trial(bench, "it", task)).record
    assert record.outcome is (Outcome.IMAGE_MISSING if on == "it" else Outcome.GRADER_FAILED)
    assert (record.reward, record.treatment) == (None, Treatment.DROP)
    assert json.loads(json.dumps(record.as_dict()))["reward"] is None
    bench.backend.fail = SandboxLost("its daemon is gone")
    again = (await trial(bench, "it", task)).record
    assert again.reward is None
