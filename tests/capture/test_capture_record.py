"""A trial's capture on disk says what it said in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from capture_fixtures import RENDERER, SYSTEM, USER, Harness, call_text, results

from lego_verl.capture.message import Message
from lego_verl.capture.record import RecordingError, read_recording, write_recording


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    turn = harness.ask([SYSTEM, USER], "<think>\nhm é\n</think>\n\n" + call_text("a", count=2))
    history = [SYSTEM, USER, turn, *results(turn)]
    harness.version = 3
    harness.ask(history, "bad")
    harness.ask([*history, Message("user", "again")], "good")
    harness.capture.lose("closed", 4)
    return harness


def test_it_is_read_as_it_was_written(harness: Harness, tmp_path: Path) -> None:
    capture = harness.capture
    write_recording(tmp_path / "trial", capture)
    recording = read_recording(tmp_path / "trial")
    assert recording.proof() == capture.proof()
    assert recording.proof().holds
    assert recording.replies == capture.replies
    assert [entry.messages for entry in recording.asked] == [entry.messages for entry in capture.asked]
    assert [call.text for call in recording.calls] == [call.text for call in capture.calls]
    for written, read in zip(capture.segments(), recording.segments, strict=True):
        assert read.reason == written.reason
        assert read.calls == written.calls
        for name in ("prompt_ids", "response_ids", "response_mask", "logprobs", "versions"):
            assert np.array_equal(getattr(read, name), getattr(written, name))
            assert getattr(read, name).dtype == getattr(written, name).dtype


def test_every_token_says_where_it_came_from(harness: Harness, tmp_path: Path) -> None:
    write_recording(tmp_path, harness.capture)
    recording = read_recording(tmp_path)
    (first, second) = recording.segments
    tokens = list(recording.tokens(second))
    assert [token.id for token in tokens] == second.ids.tolist()
    trained = [token for token in tokens if token.trained]
    assert "".join(token.text for token in trained) == "good<|im_end|>"
    assert {(token.call, token.version) for token in trained} == {(2, 3)}
    assert all(token.logprob is None and token.call is None for token in tokens if not token.trained)
    assert RENDERER.decode([token.id for token in recording.tokens(first) if token.call == 0]).startswith("<think>")


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=str(tmp_path)):
        read_recording(tmp_path)
