"""Whatever a harness did, its recording comes out as it was recorded: with the renderer, and from the ids alone."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from serve_helpers import SYSTEM, USER, Recorder, bash_text, rewrite_calls

from lego_verl.capture.message import Message
from lego_verl.capture.record import write_recording
from lego_verl.replay.__main__ import derived

TEXTS = st.sampled_from(
    ["done", "<think>\nhm é\n</think>\n\nyes", bash_text("ls"), bash_text("a") + bash_text("b"), ""]
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["go on", "edit", "drop", "compact", "overlap", "subagent", "side call", "lose"]), TEXTS),
    min_size=1,
    max_size=8,
)


def results(turn: Message, text: str) -> list[Message]:
    if not turn.tool_calls:
        return [Message("user", text)]
    return [Message("tool", text, tool_call_id=call.id) for call in turn.tool_calls]


def play(recorder: Recorder, steps: list[tuple[str, str]]) -> None:
    history = [SYSTEM, USER]
    for number, (step, says) in enumerate(steps):
        if step == "edit":
            history[-1] = history[-1]._replace(text=f"edited {number}")
        elif step == "drop" and len(history) > 3:
            history = [*history[:2], Message("user", f"again {number}")]
        elif step == "compact":
            history = [SYSTEM, Message("user", f"summary {number}")]
        elif step == "subagent":
            recorder.ask(Message("user", f"task {number}"), says=says, origin="subagent")
        elif step == "side call":
            recorder.ask(Message("user", f"title {number}"), says=says, tools=(), origin="side_call")
        elif step == "lose":
            recorder.capture.lose("closed", number)
        if step == "overlap":
            other = [*history[:-1], history[-1]._replace(text=f"other {number}")]
            prepared, late = recorder.prepare(*history), recorder.prepare(*other)
            turn = recorder.commit(prepared, says)
            recorder.commit(late, says)
        else:
            turn = recorder.ask(*history, says=says)
        history += [turn, *results(turn, f"result {number}")]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
@example([("edit", ""), ("subagent", "")])  # three turns that are the same, of which one is another's
def test_any_recording_is_derived_again(tmp_path: Path, steps: list[tuple[str, str]]) -> None:
    recorder = Recorder()
    play(recorder, steps)
    write_recording(tmp_path, recorder.capture)
    known = derived(tmp_path)
    assert (known.rendered, known.problems) == (True, [])
    assert known.proof is not None
    assert known.proof.holds
    rewrite_calls(tmp_path, lambda lines: lines[0]["made_with"].update(renderer="", parser=""))
    unknown = derived(tmp_path)
    assert (unknown.rendered, unknown.parsed, unknown.problems) == (False, False, [])
    assert unknown.proof == known.proof
