"""Whatever a harness does to its history, both promises hold: a machine that does everything, at random."""

from __future__ import annotations

import numpy as np
from capture_fixtures import PARSER, RENDERER, SYSTEM, TOOLS, USER, Harness, call_text, results
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lego_verl.capture.call import Sample
from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.parser import ParsedCall
from lego_verl.capture.resume import joined
from lego_verl.capture.session import Prepared

SAYS = st.sampled_from(
    [
        call_text("ls"),
        call_text("ls", "ok", count=2),
        call_text("pytest", count=3),
        "Nothing to do.",
        "",
        "<think>\nhm\n</think>\n\n" + call_text("cat"),
        '<tool_call>{"name": "bash", "argu',
    ]
)


class AnyHarness(RuleBasedStateMachine):
    """``history`` is what the harness believes; it asks with it, and may have changed it before."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness()
        self.history: list[Message] = [SYSTEM, USER]
        self.tools = TOOLS
        self.pending: list[Prepared] = []

    @rule(text=SAYS, end=st.booleans(), twisted=st.booleans(), keep_reasoning=st.booleans(), swap=st.booleans())
    def extend(self, text: str, end: bool, twisted: bool, keep_reasoning: bool, swap: bool) -> None:
        turn = self.harness.ask(self.history, text, tools=self.tools, end=end or not text, twisted=twisted)
        if not keep_reasoning:
            turn = turn._replace(reasoning="")
        after = results(turn) or [Message("user", f"Go on, {len(self.history)}.")]
        self.history += [turn, *(reversed(after) if swap else after)]

    def _turns(self) -> list[int]:
        return [place for place, message in enumerate(self.history) if message.role == "assistant"]

    @rule(which=st.integers(0, 50))
    def drop(self, which: int) -> None:
        if places := self._turns():
            place = places[which % len(places)]
            ids = {call.id for call in self.history[place].tool_calls}
            del self.history[place]
            self.history = [message for message in self.history if message.tool_call_id not in ids or not ids]

    @rule(which=st.integers(0, 50), value=st.integers(0, 3))
    def edit(self, which: int, value: int) -> None:
        if places := self._turns():
            place = places[which % len(places)]
            turn = self.history[place]
            calls = tuple(ToolCall(call.id, call.name, f'{{"command": "edited {value}"}}') for call in turn.tool_calls)
            self.history[place] = turn._replace(text=turn.text if calls else f"edited {value}", tool_calls=calls)

    @rule()
    def respell(self) -> None:
        self.history = [
            message._replace(
                text=message.text.strip(),
                tool_calls=tuple(c._replace(arguments=c.arguments.replace('":  "', '":"')) for c in message.tool_calls),
            )
            for message in self.history
        ]

    @rule(keep=st.integers(0, 3))
    def compact(self, keep: int) -> None:
        if len(self._turns()) > 1:
            recent = self.history[self._turns()[-keep] :] if keep and keep <= len(self._turns()) else []
            self.history = [*self.history[:2], Message("user", f"Summary of {len(self.history)} messages."), *recent]

    @rule(text=st.sampled_from(["Be brief.", "Be long."]))
    def change_system(self, text: str) -> None:
        self.history[0] = Message("system", text)

    @rule(some=st.booleans())
    def change_tools(self, some: bool) -> None:
        self.tools = TOOLS if some else ()

    @rule()
    def start_another(self) -> None:
        """A call that overlaps others: it is prepared now, and committed or lost later."""
        self.pending.append(self.harness.prepare([*self.history, Message("user", "a question aside")], self.tools))

    @rule(text=SAYS, which=st.integers(0, 50))
    def finish_another(self, text: str, which: int) -> None:
        if self.pending:
            prepared = self.pending.pop(which % len(self.pending))
            self.harness.commit(prepared, self.harness.sample(text))

    @rule(which=st.integers(0, 50))
    def lose_another(self, which: int) -> None:
        if self.pending:
            self.pending.pop(which % len(self.pending))
            self.harness.capture.lose("closed")

    @rule(text=SAYS)
    def retry(self, text: str) -> None:
        """The harness lost a reply and asks again."""
        self.harness.ask(self.history, text, tools=self.tools)

    @rule(text=SAYS, cut=st.integers(0, 200))
    def abort(self, text: str, cut: int) -> None:
        """A weight update comes in the middle of a generation, which goes on with the new weights."""
        prepared = self.harness.prepare(self.history, self.tools)
        whole = self.harness.sample(text)
        cut = min(cut, len(whole.ids) - 1)
        first = Sample(whole.ids[:cut], whole.logprobs[:cut], whole.versions[:cut], "aborted")
        second = Sample(whole.ids[cut:], whole.logprobs[cut:], whole.versions[cut:] + 1, whole.finish)
        self.harness.version += 1
        turn = self.harness.commit(prepared, joined(first, second, len(prepared.prompt_ids))).message
        self.history += [turn, *(results(turn) or [Message("user", f"Go on, {len(self.history)}.")])]

    @rule(origin=st.sampled_from(["subagent", "side_call"]), ours=st.booleans(), text=SAYS)
    def ask_aside(self, origin: str, ours: bool, text: str) -> None:
        """A harness says by a header that it is not its agent that asks; it may show what the agent did."""
        messages = [*self.history, Message("user", "Sum it up.")] if ours else [SYSTEM, Message("user", "A title.")]
        self.harness.commit(self.harness.prepare(messages, self.tools, origin=origin), self.harness.sample(text))

    @rule()
    def title(self) -> None:
        self.harness.ask([Message("system", "Write a title."), *self.history[1:2]], "A title for all of this", tools=())

    @rule()
    def summarise(self) -> None:
        """Ask for a summary at the end of the conversation, and begin anew with it."""
        question = Message("user", f"Summarise these {len(self.history)} messages.")
        summary = self.harness.ask([*self.history, question], "What was done so far: not much.", tools=self.tools)
        self.history = [*self.history[:2], Message("user", f"<summary>{summary.text}</summary>")]

    @rule(text=SAYS)
    def start_subagent(self, text: str) -> None:
        task = f"Look at these {len(self.history)} messages."
        call = self.harness.ask(self.history, PARSER.write("", "", [ParsedCall("task", f'{{"prompt": "{task}"}}')]))
        self.harness.ask([Message("system", "You help."), Message("user", task)], text)
        self.history += [call, *results(call)]

    @rule()
    def update_weights(self) -> None:
        self.harness.version += 1

    @invariant()
    def both_promises_hold(self) -> None:
        proof = self.harness.capture.proof()
        assert proof.holds, proof
        assert proof.sampled_tokens == sum(len(sample.ids) for sample in self.harness.samples)
        assert proof.sampled_tokens == proof.loss_tokens + sum(proof.untrained.values())
        assert set(proof.untrained) <= {"side_call"}
        assert sum(proof.splits.values()) == proof.segments

    @invariant()
    def a_segment_is_what_was_sent(self) -> None:
        """Checked against the harness's own memory, not against the capture's."""
        capture = self.harness.capture
        segments = {segment.index: segment for segment in capture.segments()}
        for call, sent, sample in zip(capture.calls, self.harness.sent, self.harness.samples, strict=True):
            if call.segment not in segments:
                assert capture.splits()[call.segment] == "side_call"
                continue
            ids = segments[call.segment].ids.tolist()
            end = len(sent) + len(sample.ids)
            assert ids[: len(sent)] == sent
            assert ids[len(sent) : end] == sample.ids.tolist()

    @invariant()
    def every_sampled_token_is_trained_once_or_listed(self) -> None:
        """Log-probabilities are unique, so they say which token is which."""
        capture = self.harness.capture
        segments = {segment.index: segment for segment in capture.segments()}
        trained = [
            value
            for segment in segments.values()
            for value in segment.logprobs[segment.response_mask.astype(bool)].tolist()
        ]
        sampled = [
            value
            for call, sample in zip(capture.calls, self.harness.samples, strict=True)
            for value in sample.logprobs.tolist()
            if call.segment in segments
        ]
        assert sorted(trained) == sorted(sampled)
        assert len(set(trained)) == len(trained)

    @invariant()
    def nothing_stands_for_a_missing_value(self) -> None:
        for segment in self.harness.capture.segments():
            mask = segment.response_mask.astype(bool)
            assert np.all(segment.logprobs[mask] < 0)
            assert not segment.logprobs[~mask].any()
            assert np.all(segment.versions[mask] >= 0)
            assert np.all(segment.versions[~mask] == -1)
            assert mask[-1]


AnyHarness.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestAnyHarness = AnyHarness.TestCase


def test_the_machine_meets_every_kind_of_split() -> None:
    """So that the machine's rules cannot quietly stop to reach what they are there for."""
    machine = AnyHarness()
    machine.extend(call_text("a"), True, False, True, False)
    machine.extend(call_text("b"), True, False, True, False)
    machine.edit(0, 1)
    machine.extend("c", True, False, True, False)
    machine.drop(1)
    machine.extend("d", True, False, True, False)
    machine.extend("d2", True, False, True, False)
    machine.compact(0)
    machine.extend("e", True, False, True, False)
    machine.change_system("Be long.")
    machine.extend("f", True, False, True, False)
    machine.change_tools(False)
    machine.extend("g", True, False, True, False)
    machine.change_tools(True)
    machine.title()
    machine.start_subagent("found nothing")
    machine.summarise()
    machine.extend("h", True, False, True, False)
    machine.both_promises_hold()
    assert machine.harness.splits() == [
        "first", "edited_turn", "dropped_turn", "compacted", "system_changed", "tools_changed",
        "side_call", "tools_changed", "subagent", "side_call", "compacted",
    ]  # fmt: skip
    assert RENDERER.eos_ids
