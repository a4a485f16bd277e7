"""A trial while it runs: its sandbox, its harness, its patch and its verdict, each with its attribution."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TypeVar

from harness_adapters.adapter import HarnessContext
from harness_adapters.runtime import MOUNTED_AT
from lego_verl.capture.versions import version_span
from lego_verl.deadline import deadline
from lego_verl.proxy.session import Session
from lego_verl.tasks.task import Task
from lego_verl.trial.attribution import Attributed, Seen, attribute, of_sandbox
from lego_verl.trial.bench import Bench
from lego_verl.trial.judge import judge
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import PHASES, FinishedTrial, TrialRecord
from sandbox.hardening import planted
from sandbox.patch import Baseline, PatchError, take_patch
from sandbox.sandbox import ExecResult, Image, Sandbox, SandboxError, SandboxLost, SandboxSpec

HARNESS_HOME = "/home/agent/.harness"
API_KEY = "lego"
T = TypeVar("T")


class RunningTrial:
    """The state of a trial while it runs."""

    def __init__(self, bench: Bench, name: str, task: Task, limits: TrialLimits, session: Session) -> None:
        self.bench, self.name, self.task, self.limits, self.session = bench, name, task, limits, session
        self.image = Image(task.environment, task.image, task.workdir)
        self.outcome: Outcome | None = None
        """None while nothing but the verdict is open."""
        self.error = ""
        self.reward = 0.0
        self.patch = b""
        self.harness_log = b""
        self.grading_log = ""
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.at = PHASES[0]
        self.gave_up = False
        self.signs: list[str] = []

    def overdue(self, waited: str) -> Attributed:
        """The last deadline of all: one of the shorter ones did not act."""
        outcome = Outcome.GRADER_FAILED if self.at == "grading" else Outcome.SANDBOX_FAILED
        return Attributed(outcome, f"{waited}; it was in its phase {self.at}")

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        self.at = name
        try:
            yield
        finally:
            self.seconds[name] += time.monotonic() - began

    async def work(self) -> None:
        """All that needs the agent's sandbox. ``Attributed`` when the trial is to be dropped."""
        folder = self.bench.scratch.folder(self.bench.run, self.name)
        server = self.bench.server
        try:
            with self.phase("start"):
                link = (await server.open(self.session, socket=folder / "s")).socket
                spec = SandboxSpec(
                    self.bench.run, self.name, self.image, self.bench.mounts, link, self.bench.agent_limits
                )
                sandbox = await self.bench.gated.start(spec)
            try:
                await self._in_sandbox(sandbox)
            finally:
                with self.phase("patch"):
                    await sandbox.close()
        except (SandboxError, OSError) as error:
            raise of_sandbox(error) from error
        finally:
            await server.close(self.session.id)
            shutil.rmtree(folder, ignore_errors=True)

    async def _in_sandbox(self, sandbox: Sandbox) -> None:
        context = self._context(sandbox)
        with self.phase("start"):
            waited = f"trial {self.name}'s base tree to be recorded"
            async with deadline(self.bench.start_seconds, waited, SandboxError):
                baseline = await self.bench.baselines.of(self.task.digest, sandbox)
            await sandbox.put(self._of_adapter("files", lambda: _absolute(self.bench.adapter.files(context))))
        result = await self._run_harness(sandbox, context)
        budget = self.session.ending
        await self.bench.server.close(self.session.id)  # nobody is left who may still call
        self._count_generation()
        with self.phase("patch"):
            await self._take(sandbox, baseline, result, budget, context.seconds)

    def _context(self, sandbox: Sandbox) -> HarnessContext:
        assert sandbox.base_url is not None
        return HarnessContext(
            base_url=sandbox.base_url,
            api_key=API_KEY,
            model=self.session.policy.model,
            instruction=self.task.instruction,
            workdir=self.task.workdir,
            home=HARNESS_HOME,
            runtime=MOUNTED_AT,
            python=self.bench.python,
            turn_limit=self.limits.turns,
            seconds=min(self.limits.seconds, self.task.agent_timeout) + self.limits.pause_seconds,
        )

    async def _run_harness(self, sandbox: Sandbox, context: HarnessContext) -> ExecResult:
        adapter = self.bench.adapter
        command = self._of_adapter("command", lambda: list(adapter.command(context)))
        environment = self._of_adapter("environment", lambda: adapter.environment(context))
        with self.phase("harness"):
            result = await sandbox.exec(command, deadline=context.seconds, env=environment)
        self.harness_log = result.output
        if result.dropped_bytes:
            self.harness_log += f"\n[{result.dropped_bytes} more bytes were dropped]\n".encode()
        return result

    def _count_generation(self) -> None:
        # Calls may overlap, and one may have begun before the harness was ended: never below zero.
        generation = min(sum(call.seconds for call in self.session.calls), self.seconds["harness"])
        self.seconds["generation"] = generation
        self.seconds["harness"] -= generation

    async def _take(
        self, sandbox: Sandbox, baseline: Baseline, result: ExecResult, budget: str | None, seconds: float
    ) -> None:
        """Say what ended the agent, and take what it left."""
        text = result.output.decode(errors="replace")
        ending = self._of_adapter("ending", lambda: self.bench.adapter.ending(result.exit_code, text))
        proof = self.session.proof()
        capture = self.session.capture
        seen = Seen(
            result=result,
            ending=ending,
            turns=self.session.turns + (len(capture.lost) if capture else int(result.timed_out)),
            answered=self.session.turns,
            trainable=capture is None or proof.loss_tokens > 0,
            budget=budget,
            failure=self.session.failure or proof.note,
            captured=proof.holds or capture is None,
            disk_full=ending == "failed" and not result.timed_out and await sandbox.disk_full(),
            seconds=seconds,
            cut=self.session.cut,
        )
        self.outcome = attribute(seen)
        span = version_span(self.session.segments())
        if span is not None and (stale := span.too_wide(self.limits.version_span)):
            raise Attributed(Outcome.STALE, stale)
        self.gave_up = ending == "gave_up"
        self.signs += await planted(sandbox, baseline.graders)
        try:
            self.patch = await take_patch(sandbox, baseline, limit_bytes=self.limits.patch_bytes)
        except PatchError as error:  # the agent's own doing: it left nothing that can be judged
            self.outcome, self.error = self.outcome or Outcome.UNSOLVED, str(error)
        except SandboxError as error:
            # The room that taking it needed is free again by now: the sandbox's words say that there was none.
            lost = isinstance(error, SandboxLost)
            if "out of memory" in str(error):
                raise Attributed(Outcome.OUT_OF_MEMORY, str(error)) from error
            if not lost and ("no room left" in str(error) or await sandbox.disk_full()):
                raise Attributed(Outcome.DISK_FULL, str(error)) from error
            raise

    async def judge(self) -> None:
        """Grade what the agent left, and settle the outcome."""
        if self.signs:  # what it put where only graders write, no grader will see; that it tried decides
            self.outcome, self.error = Outcome.TAMPERED, "; ".join(self.signs)
            return
        if not self.patch:
            # The empty patch earns 0: that is checked of every task before it is used.
            self.outcome = self.outcome or (Outcome.GAVE_UP if self.gave_up else Outcome.NO_PATCH)
            return
        with self.phase("grading"):
            judgement = await judge(
                self.bench.gated,
                self.image,
                self.patch,
                self.task.tests,
                seconds=min(self.limits.grading_seconds, self.task.verifier_timeout),
                limits=self.bench.sandbox,
                run=self.bench.run,
                trial=self.name,
                retries=self.bench.regrading,
                control=self.task.digest in self.bench.controlled,
            )
        self.signs += judgement.signs
        self.grading_log, self.error, self.reward = judgement.log, judgement.error, judgement.reward
        if self.outcome is None or judgement.outcome.treatment is not Treatment.TRAIN:
            self.outcome = judgement.outcome

    def _of_adapter(self, what: str, call: Callable[[], T]) -> T:
        """The harness's boundary: an adapter is extension code and may raise anything."""
        try:
            return call()
        except Exception as error:
            raise Attributed(
                Outcome.HARNESS_FAILED, f"the adapter {self.bench.adapter.name} failed in {what}(): {error!r}"
            ) from error

    def finished(self, group: str, total: float) -> FinishedTrial:
        assert self.outcome is not None
        proof = self.session.proof()
        segments = tuple(self.session.segments())
        span = version_span(segments)
        dropped = self.outcome.treatment is Treatment.DROP
        record = TrialRecord(
            trial=self.name,
            task=self.task.name,
            outcome=self.outcome,
            group=group,
            harness=self.bench.adapter.name,
            reward=None if dropped else self.reward,
            error=self.error,
            seconds={name: round(value, 4) for name, value in {**self.seconds, "total": total}.items()},
            calls=self.session.turns,
            sampled_tokens=self.session.sampled_tokens,
            segments=len(segments),
            splits=proof.splits,
            proof=proof.as_dict(),
            signs=tuple(self.signs),
            versions={
                "lego_verl": version("lego_verl"),
                "runtime": self.bench.runtime.digest if self.bench.runtime else "",
                "task": self.task.digest,
                "sandbox": self.bench.backend.name,
                "weights_first": None if span is None else span.oldest,
                "weights_last": None if span is None else span.newest,
            },
        )
        return FinishedTrial(record, segments, self.patch, self.harness_log, self.grading_log, self.session)


def _absolute(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files of an adapter. ``ValueError`` for one whose path is not absolute."""
    for path in files:
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is not an absolute path")
    return files
