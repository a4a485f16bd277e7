"""A recording in the policy's place, behind a session."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.call import Sample
from lego_verl.capture.match import difference
from lego_verl.capture.message import Message, Request
from lego_verl.capture.parser import HermesParser, ParsedCall
from lego_verl.capture.record import Recording, RecordingError, read_recording, write_recording
from lego_verl.capture.session import SessionCapture
from lego_verl.policies.policy import PolicyError, RequestPolicy, Sampling
from lego_verl.policies.replay import ReplayPolicy, differences, recorded_requests

RENDERER, PARSER = byte_renderer(), HermesParser()
SYSTEM, USER = Message("system", "S"), Message("user", "Fix it.")
BASH: dict[str, Any] = {"type": "function", "function": {"name": "bash"}}
ROOM = 1 << 20


class Live:
    """A harness, live or recorded, on a capture of its own."""

    def __init__(self) -> None:
        self.capture = SessionCapture(RENDERER, PARSER)

    def commit(self, prepared: Any, sample: Sample) -> Message:
        return self.capture.commit(prepared, sample, seconds=0.0).message

    def say(self, messages: list[Message], text: str, tools: Any = (BASH,)) -> Message:
        ids = np.array([*RENDERER.encode(text), RENDERER.close_id], dtype=np.int32)
        first = sum(len(call.sample.ids) for call in self.capture.calls)
        logprobs = -(np.arange(first, first + len(ids)) / 1024).astype(np.float32)
        sample = Sample(ids, logprobs, np.full(len(ids), 3, np.int32), "stop")
        return self.commit(self.capture.prepare(Request(tuple(messages), tools)), sample)

    async def ask(self, policy: ReplayPolicy, messages: list[Message], tools: Any = (BASH,), **more: Any) -> Message:
        request = Request(tuple(messages), tools)
        prepared = self.capture.prepare(request)
        given = {"session": "live", "max_tokens": ROOM, "sampling": Sampling(), **more}
        return self.commit(prepared, await policy.answer(request, prompt_ids=prepared.prompt_ids, **given))


def calls_text(*commands: str) -> str:
    return PARSER.write("", "", [ParsedCall("bash", f'{{"command": "{command}"}}') for command in commands])


def results(turn: Message, *texts: str) -> list[Message]:
    return [Message("tool", text, tool_call_id=call.id) for text, call in zip(texts, turn.tool_calls, strict=True)]


@pytest.fixture
def recording(tmp_path: Any) -> Recording:
    """Three turns; two calls in the first."""
    live = Live()
    history = [SYSTEM, USER]
    turn = live.say(history, calls_text("ls", "pwd"))
    history += [turn, *results(turn, "a.py", "/w")]
    turn = live.say(history, "<think>\nhm\n</think>\n\n" + calls_text("cat a.py"))
    history += [turn, *results(turn, "x = 1")]
    live.say(history, "done")
    write_recording(tmp_path, live.capture)
    return read_recording(tmp_path)


async def replay(policy: ReplayPolicy, live: Live, first: str = "a.py") -> list[Message]:
    history = [SYSTEM, USER]
    turn = await live.ask(policy, history)
    history += [turn, *results(turn, first, "/w")]
    turn = await live.ask(policy, history)
    history += [turn._replace(reasoning=""), *results(turn, "x = 1")]
    return [*history, await live.ask(policy, history)]


async def test_the_same_harness_gets_the_same_trial(recording: Recording) -> None:
    policy, live = ReplayPolicy(recording), Live()
    assert isinstance(policy, RequestPolicy)
    history = await replay(policy, live)
    assert history[-1].text == "done"
    assert policy.differences == {}
    assert policy.left("live") == 0
    (segment,), (recorded,) = live.capture.segments(), recording.segments
    for name in ("prompt_ids", "response_ids", "response_mask", "logprobs", "versions"):
        assert np.array_equal(getattr(segment, name), getattr(recorded, name)), name
    # Tool-call ids are minted anew, and that is no difference.
    assert live.capture.replies[0].tool_calls[0].id != recording.replies[0].tool_calls[0].id


async def test_a_request_that_says_something_else_is_reported_and_answered(recording: Recording) -> None:
    told: list[tuple[str, str]] = []
    policy, live = ReplayPolicy(recording, told=lambda session, found: told.append((session, str(found)))), Live()
    await replay(policy, live, first="b.py")
    assert [(found.call, found.message) for found in policy.differences["live"]] == [(1, 3), (2, 3)]
    assert told[0] == ("live", "call 1, message 3: tool text is b.py, recorded a.py")
    assert [call.sample.ids.tolist() for call in live.capture.calls] == [
        call.sample.ids.tolist() for call in recording.calls
    ]
    assert live.capture.proof().holds


async def test_sessions_are_counted_apart_and_end(recording: Recording) -> None:
    policy, live = ReplayPolicy(recording), Live()
    await replay(policy, live)
    assert policy.left("another") == 3
    with pytest.raises(PolicyError, match="session live: the recording is used up after 3 calls"):
        await live.ask(policy, [SYSTEM, USER, Message("user", "more")])
    other = Live()
    assert (await other.ask(policy, [SYSTEM, USER], session="another")).tool_calls


async def test_calls_that_come_in_another_order_get_their_own_replies(tmp_path: Any) -> None:
    live = Live()
    for name in ("one", "two"):
        live.say([Message("user", name)], f"reply to {name}")
    write_recording(tmp_path, live.capture)
    policy, again = ReplayPolicy(read_recording(tmp_path)), Live()
    for name in ("two", "one"):
        assert (await again.ask(policy, [Message("user", name)])).text == f"reply to {name}"
    assert policy.differences == {}


async def test_a_reply_that_has_no_room_is_cut_and_said(recording: Recording) -> None:
    policy, live = ReplayPolicy(recording), Live()
    await live.ask(policy, [SYSTEM, USER], max_tokens=5)
    (sample,) = (call.sample for call in live.capture.calls)
    assert (sample.ids.tolist(), sample.finish) == (recording.calls[0].sample.ids[:5].tolist(), "length")
    (found,) = policy.differences["live"]
    assert (found.call, found.message) == (0, None)
    assert found.how.startswith("room for 5 of the ")


async def test_the_same_words_in_other_ids_are_reported(recording: Recording) -> None:
    policy = ReplayPolicy(recording)
    request = Request((SYSTEM, USER), (BASH,))
    await policy.answer(request, session="s", prompt_ids=[1, 2, 3], max_tokens=ROOM, sampling=Sampling())
    assert [found.how for found in policy.differences["s"]] == ["it means the same, and its prompt has other ids"]


@pytest.mark.parametrize(
    ("messages", "tools", "says"),
    [
        ([SYSTEM], (BASH,), "message 1: 1 messages where 2 were recorded"),
        ([SYSTEM, USER, USER], (BASH,), "message 2: 3 messages where 2 were recorded"),
        ([USER, USER], (BASH,), "message 0: role user where system was recorded"),
        ([SYSTEM, Message("user", "Fix that.")], (BASH,), "message 1: user text is Fix that., recorded Fix it."),
        ([Message("system", "T"), Message("user", "X")], (BASH,), "recorded S (and 1 more messages differ)"),
        ([SYSTEM, USER], (), "call 7: tools differ: without bash"),
        ([SYSTEM, USER], (BASH, {"type": "function", "function": {"name": "zsh"}}), "tools differ: with zsh"),
        ([SYSTEM, USER], ({"type": "function", "function": {"name": "bash", "x": 1}},), "declared otherwise"),
    ],
)
def test_differences_name_what_they_are_about(messages: list[Message], tools: Any, says: str) -> None:
    found = [str(each) for each in differences(7, Request((SYSTEM, USER), (BASH,)), Request(tuple(messages), tools))]
    assert len(found) == 1, found
    assert says in found[0]


def test_requests_are_whole_again(recording: Recording) -> None:
    requests = recorded_requests(recording)
    assert [len(request.messages) for request in requests] == [2, 5, 7]
    assert [request.tools for request in requests] == [[BASH]] * 3
    assert difference(requests[2].messages[2], recording.replies[0]) is None


def test_a_recording_with_a_hole_is_none(recording: Recording) -> None:
    calls = [recording.calls[0], recording.calls[2]]
    holed = Recording(
        calls, recording.asked[::2], recording.replies[::2], recording.segments, recording.splits, [], recording.pieces
    )
    with pytest.raises(RecordingError, match="call 2 is recorded in the place of call 1"):
        ReplayPolicy(holed)
