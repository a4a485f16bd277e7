"""What a message adds, and templates that do not merely add."""

from __future__ import annotations

import pytest
from qwen3_template import QWEN3_LIKE
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from lego_verl.capture.bytelevel import SPECIAL_TOKENS, byte_renderer, byte_tokenizer
from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.render import TemplateRenderer
from lego_verl.capture.template import TemplateError

SYSTEM, USER = Message("system", "Be brief."), Message("user", "Fix café.py 🐍")
CALLS = (ToolCall("call_a", "bash", '{"command":  "ls"}'), ToolCall("call_b", "bash", '{"command": "cat x"}'))
TURN = Message("assistant", "Looking.", tool_calls=CALLS)
RESULTS = [Message("tool", "a.py\n", tool_call_id="call_a"), Message("tool", "<|im_end|>?", tool_call_id="call_b")]
TOOLS = ({"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}},)


def test_a_conversation_is_the_sum_of_its_additions() -> None:
    renderer = byte_renderer()
    opening = [SYSTEM, USER]
    sampled = renderer.encode(
        'Looking.\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "bash", "arguments": {"command": "cat x"}}\n</tool_call><|im_end|>'
    )
    whole = renderer.initial([*opening, TURN, *RESULTS], TOOLS)
    pieces = [
        *renderer.initial(opening, TOOLS),
        *sampled,
        *renderer.addition(TURN, RESULTS, TOOLS, last_id=sampled[-1]),
    ]
    assert pieces == whole


def test_a_cut_turn_is_closed_before_anything_is_added() -> None:
    renderer = byte_renderer()
    new = [Message("user", "go on")]
    ended = renderer.addition(TURN, new, (), last_id=renderer.close_id)
    cut = renderer.addition(TURN, new, (), last_id=7)
    assert cut == [renderer.close_id, *ended]
    assert renderer.decode(ended) == "\n<|im_start|>user\ngo on<|im_end|>\n<|im_start|>assistant\n"


def test_results_and_messages_after_them_keep_their_own_shapes() -> None:
    renderer = byte_renderer()
    new = [*RESULTS, Message("user", "and?"), Message("system", "hurry")]
    text = renderer.decode(renderer.addition(TURN, new, TOOLS, last_id=renderer.close_id))
    assert text.count("<tool_response>") == 2
    assert text.count("<|im_start|>user") == 2
    assert text.endswith("<|im_start|>system\nhurry<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize("thinking", [True, False])
def test_a_template_that_drops_earlier_reasoning_is_served(thinking: bool) -> None:
    renderer = TemplateRenderer(byte_tokenizer(), QWEN3_LIKE, options={"enable_thinking": thinking})
    text = renderer.decode(renderer.addition(TURN, [Message("user", "more")], TOOLS, last_id=renderer.close_id))
    assert text.startswith("\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n")
    assert text.endswith("<think>\n\n</think>\n\n") is not thinking
    assert not renderer.reasoning_open


def test_a_generation_prompt_that_opens_the_reasoning_is_noticed() -> None:
    template = CHATML_TEMPLATE.replace(
        "{{- '<|im_start|>assistant\\n' }}\n{%- endif %}", "{{- '<|im_start|>assistant\\n<think>\\n' }}\n{%- endif %}"
    )
    assert TemplateRenderer(byte_tokenizer(), template).reasoning_open


NOT_ONLY_ADDING = {
    "a count of all messages at the top": (
        "append-only",
        "{%- for message in messages %}",
        "{{- messages | length }}{%- for message in messages %}",
    ),
    "tools that wander to the last message": (
        "append-only",
        "'<|im_start|>' + message.role + '\\n' +",
        "'<|im_start|>' + message.role + '\\n' + (tools | string if tools and loop.last else '') +",
    ),
    "a message that says how many came before it": (
        "append-only",
        "{{- '<|im_start|>' + message.role",
        "{{- loop.index | string + '<|im_start|>' + message.role",
    ),
    "an assistant's turn without an end": (
        "does not close",
        "{{- '<|im_end|>\\n' }}\n    {%- elif message.role == 'tool'",
        "{%- elif message.role == 'tool'",
    ),
}


@pytest.mark.parametrize("fault", NOT_ONLY_ADDING)
def test_a_template_that_does_not_only_add_is_refused_by_name(fault: str) -> None:
    names, before, after = NOT_ONLY_ADDING[fault]
    assert before in CHATML_TEMPLATE
    with pytest.raises(TemplateError, match=names) as refused:
        TemplateRenderer(byte_tokenizer(), CHATML_TEMPLATE.replace(before, after), name="template of acme-7b")
    assert "template of acme-7b" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tokens_that_reach_over_a_boundary_are_refused() -> None:
    # A tokenizer that knows no special tokens merges the end of a turn with what follows it.
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|im_end|>\n<"]
    )
    tokenizer.train_from_iterator(["<|im_end|>\n<|im_start|>user\n" * 50], trainer)
    with pytest.raises(TemplateError):
        TemplateRenderer(tokenizer, CHATML_TEMPLATE)


def test_broken_templates_and_unknown_tokens_are_one_line() -> None:
    with pytest.raises(TemplateError, match="not valid jinja2"):
        TemplateRenderer(byte_tokenizer(), "{% if %}")
    with pytest.raises(TemplateError, match="no token '<eos>'"):
        TemplateRenderer(byte_tokenizer(), CHATML_TEMPLATE, eos=("<eos>",))


def test_every_byte_has_its_token() -> None:
    tokenizer = byte_tokenizer()
    text = "".join(map(chr, range(0x250))) + "🐍<|im_start|>"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) == len(text.encode()) - len("<|im_start|>") + 1
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert tokenizer.token_to_id(SPECIAL_TOKENS[0]) == 256
