"""The plain renderer and verl's builder give the same ids."""

from __future__ import annotations

import pytest
from qwen3_template import QWEN3_LIKE

from lego_verl.capture.bytelevel import byte_tokenizer
from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.render import TemplateRenderer

pytest.importorskip("verl")
transformers = pytest.importorskip("transformers")

TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run <a> command — é",
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
        },
    },
)
OPENING = [Message("system", "You fix bugs."), Message("user", "Fix café.py 🐍")]
ONE = Message("assistant", "ok", tool_calls=(ToolCall("call_a", "bash", '{"command":  "ls"}'),))
TWO = Message("assistant", "", "why", (*ONE.tool_calls, ToolCall("call_b", "bash", "{}")))
TEXT = Message("assistant", "Which file?")
ADDITIONS = [
    (ONE, [Message("tool", "a.py\n", tool_call_id="call_a")]),
    (TWO, [Message("tool", "a", tool_call_id="call_a"), Message("tool", "b", tool_call_id="call_b")]),
    (TEXT, [Message("user", "a.py")]),
    (ONE, [Message("tool", "", tool_call_id="call_a"), Message("user", "go on"), Message("system", "hurry")]),
]


@pytest.mark.parametrize(
    ("template", "options"),
    [(CHATML_TEMPLATE, {}), (QWEN3_LIKE, {}), (QWEN3_LIKE, {"enable_thinking": False})],
)
def test_both_give_the_same_ids(template: str, options: dict[str, bool]) -> None:
    from lego_verl.workers.renderer import VerlRenderer

    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer(), eos_token="<|im_end|>")
    tokenizer.chat_template = template
    plain = TemplateRenderer(byte_tokenizer(), template, options=options)
    verl = VerlRenderer(tokenizer, family="qwen3", options=options)

    assert plain.close_id == verl.close_id
    assert plain.reasoning_open == verl.reasoning_open
    for tools in (TOOLS, ()):
        history = list(OPENING)
        assert plain.initial(history, tools) == verl.initial(history, tools)
        for turn, new in ADDITIONS:
            for last_id in (plain.close_id, 7):
                expected = plain.addition(turn, new, tools, last_id=last_id)
                assert verl.addition(turn, new, tools, last_id=last_id) == expected
            history += [turn, *new]
            assert plain.initial(history, tools) == verl.initial(history, tools)
    text = "<think>\né</think> <|im_end|> don 't"
    assert plain.encode(text) == verl.encode(text)
    assert plain.decode(plain.encode(text)) == verl.decode(plain.encode(text)) == text


def test_a_builder_of_the_agent_loop_is_taken_as_it_is() -> None:
    from verl.utils.tokenizer.continuous_token import QwenContinuousTokenBuilder

    from lego_verl.workers.renderer import VerlRenderer

    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer(), eos_token="<|im_end|>")
    tokenizer.chat_template = QWEN3_LIKE
    builder = QwenContinuousTokenBuilder(tokenizer, chat_template_kwargs={"enable_thinking": False})
    renderer = VerlRenderer(tokenizer, builder=builder)
    text = renderer.decode(renderer.initial(OPENING, ()))
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert renderer.eos_ids == {renderer.close_id}
