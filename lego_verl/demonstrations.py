"""Demonstrations for a tiny policy: the real harness, in the real sandbox, driven by a scripted demonstrator.

So the policy's tokenizer, template and first weights are made from exactly what this harness sends.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.message import Message, ToolCall, template_message
from lego_verl.capture.parser import HermesParser
from lego_verl.policies.policy import Sampling
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.policies.tiny.actions import Action, ActionSet
from lego_verl.policies.tiny.conversation import Conversation
from lego_verl.policies.tiny.demonstrator import Demonstrator, Habits
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.outcome import Treatment
from lego_verl.trial.run import run_trial
from lego_verl.trial.scripts import reply_of


class DemonstrationError(RuntimeError):
    """The harness could not be driven by the demonstrator."""


@dataclass
class _Recorder:
    """Answers as the demonstrator does and remembers what it was sent."""

    demonstrator: Demonstrator
    rng: random.Random
    messages: Sequence[Message] = ()
    last: Action | None = None

    def __call__(self, messages: Sequence[Message]) -> Mapping[str, Any]:
        self.messages = tuple(messages)
        self.last = self.demonstrator.act(messages, self.rng)
        return reply_of(self.last.turn)

    def conversation(self) -> list[dict[str, Any]]:
        """Everything in OpenAI's chat form, with the last reply, which the harness never sends back.

        Its own turns are as the policy says them, whatever the harness's echo made of them.
        """
        messages = [self._as_said(message) for message in self.messages]
        if self.last is not None:
            messages.append(_turn(self.last))
        return [template_message(message, objects=False) for message in messages]

    def _as_said(self, message: Message) -> Message:
        action = self.demonstrator.actions.of_message(message) if message.role == "assistant" else None
        return message if action is None else _turn(action)


def _turn(action: Action) -> Message:
    if isinstance(action.turn, str):
        return Message("assistant", action.turn)
    return Message("assistant", "", tool_calls=(ToolCall("", action.turn.name, action.arguments),))


async def record_demonstrations(
    bench: Bench,
    tasks: Sequence[Task],
    actions: ActionSet,
    *,
    each: int,
    seed: int,
    model_name: str,
    limits: TrialLimits,
    progress: Callable[[], None],
) -> list[Conversation]:
    """Run ``each`` trials of every task with the demonstrator in the policy's place; nothing is graded twice.

    Args:
        model_name: as in training, or a harness that tells its model its name would say something else there.

    Raises:
        DemonstrationError: when the harness, not the demonstrator, failed, with its error.
    """

    async def one(task: Task, number: int) -> Conversation:
        recorder = _Recorder(
            # Every recorded conversation comes to an edit. That it might have given up is in the targets alone.
            Demonstrator(actions, str(task.metadata["kind"]), str(task.metadata["module"]), Habits(give_up=0.0)),
            random.Random(f"{seed} {task.name} {number}"),
        )
        renderer, parser = byte_renderer(), HermesParser()
        finished = await run_trial(
            bench,
            trial=f"demonstration-{task.name}-{number}",
            task=task,
            policy=ScriptedPolicy(recorder, renderer=renderer, parser=parser, model=model_name),
            renderer=renderer,
            parser=parser,
            sampling=Sampling(),
            limits=limits,
        )
        capture = finished.session.capture if finished.session else None
        if finished.record.treatment is Treatment.DROP or capture is None:
            raise DemonstrationError(
                f"the harness could not be driven on {task.name}: {finished.record.outcome}: {finished.record.error}"
            )
        progress()
        return Conversation(
            messages=recorder.conversation(),
            tools=capture.asked[0].tools or (),
            kind=recorder.demonstrator.kind,
            module=recorder.demonstrator.module,
        )

    return list(await asyncio.gather(*(one(task, number) for task in tasks for number in range(each))))
