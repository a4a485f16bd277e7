"""verl's builder of each family and the plain renderer give the same ids, on real tokenizers."""

from __future__ import annotations

import json

import pytest
from real_families import Family
from real_play import TOOLS

from lego_verl.capture.message import Message, ToolCall

pytest.importorskip("verl")
transformers = pytest.importorskip("transformers")

CALL = ToolCall("call_a", "bash", json.dumps({"command": "ls 值 👩‍👩‍👧"}, ensure_ascii=False))
SECOND = ToolCall("call_b", "bash", '{"command":  "pwd", "timeout": 3}')
ONE = Message("assistant", "Looking.", tool_calls=(CALL,))
TWO = Message("assistant", "", "why not", (CALL, SECOND))
TEXT = Message("assistant", "Which file?", "Unclear.")
A, B = Message("tool", "a.py\n値 ok", tool_call_id="call_a"), Message("tool", "שלום", tool_call_id="call_b")
ADDITIONS = [
    (ONE, [A]),
    (TWO, [A, B]),
    (TEXT, [Message("user", "The e\u0301 one.")]),
    (ONE, [A, Message("user", "Go on.")]),
    (TWO, [A, B, Message("user", "One."), Message("user", "Two.")]),
]


def test_both_give_the_same_ids(family: Family) -> None:
    from lego_verl.workers.renderer import VerlRenderer

    close = family.renderer.decode([family.renderer.close_id])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=family.tokenizer, eos_token=close)
    tokenizer.chat_template = family.template
    verl = VerlRenderer(tokenizer, family=family.name, options=family.options)
    plain = family.renderer
    assert (verl.close_id, verl.reasoning_open) == (plain.close_id, plain.reasoning_open)
    for tools in (TOOLS, ()):
        history = [Message("system", "You fix bugs. 你"), Message("user", "Fix café.py 🐍")]
        assert plain.initial(history, tools) == verl.initial(history, tools)
        for turn, new in ADDITIONS:
            for last_id in (plain.close_id, 100):
                expected = plain.addition(turn, new, tools, last_id=last_id)
                assert verl.addition(turn, new, tools, last_id=last_id) == expected
            history += [turn, *new]
            assert plain.initial(history, tools) == verl.initial(history, tools)
    text = "<think>\né 値</think> don 't👩‍👩‍👧" + close
    assert plain.encode(text) == verl.encode(text)
    ids = [*family.byte_ids("值")[:2], *plain.encode(text)]
    assert plain.decode(ids) == verl.decode(ids)
