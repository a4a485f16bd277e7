"""A template that does not only add is refused by name when a renderer is made, and the refusal says what it does."""

from __future__ import annotations

import pytest
from real_families import Family

from lego_verl.capture.bytelevel import byte_tokenizer
from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.message import Message
from lego_verl.capture.render import TemplateRenderer
from lego_verl.capture.template import TemplateError

MESSAGES = "{%- for message in messages %}"
USER = "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
ANSWER = "        {{- message.content }}\n"
FAULTS = {
    "turns in capitals once they are not the last": (
        ANSWER,
        "{{- message.content if loop.last else message.content | upper }}",
        "it leaves out what an earlier assistant message said when a message of role 'user' comes",
    ),
    "earlier turns marked as old": (
        "{{- '<|im_start|>assistant\\n' }}\n        {%- if",
        "{{- '<|im_start|>assistant\\n' if loop.last else '<|im_start|>old\\n' }}\n        {%- if",
        "it writes earlier messages anew",
    ),
    "the text of earlier turns left out": (
        ANSWER,
        "{{- message.content if loop.last else '' }}",
        "it leaves out what an earlier assistant message said",
    ),
    "only the last questions": (
        MESSAGES,
        "{%- for message in messages[-2:] %}",
        "it leaves out what an earlier user message said",
    ),
    "the results of tools cut short": (
        "message.content + '\\n</tool_response>'",
        "(message.content if loop.last else '(cut)') + '\\n</tool_response>'",
        "it leaves out what an earlier tool message said",
    ),
    "the date in front": (
        MESSAGES,
        "{{- 'Today is ' + strftime_now('%d %B %Y') }}{%- for message in messages %}",
        "it writes the current date or time; fix it by an option of the template",
    ),
    "the number of messages in front": (
        MESSAGES,
        "{{- 'Message ' + messages | length | string }}{%- for message in messages %}",
        "it counts messages or turns in front of them",
    ),
    "the number of turns in front": (
        MESSAGES,
        "{{- messages | selectattr('role', 'equalto', 'assistant') | list | length }}{%- for message in messages %}",
        "it counts messages or turns in front of them",
    ),
    "the tools beside the last message": (
        "'<|im_start|>' + message.role + '\\n' + message.content",
        "'<|im_start|>' + message.role + '\\n' + (tools | string if tools and loop.last else '') + message.content",
        "it moves the list of tools",
    ),
    "the tools at the end": (
        "{%- if add_generation_prompt %}",
        "{{- tools | string if tools else '' }}{%- if add_generation_prompt %}",
        "it moves the list of tools",
    ),
    "the system message before the last message": (
        "{%- elif messages[0].role == 'system' %}\n    "
        "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n{%- endif %}\n" + MESSAGES,
        "{%- endif %}" + MESSAGES + "{%- if loop.last and messages[0].role == 'system' %}"
        "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}",
        "it moves the system message",
    ),
    "the latest message first": (
        MESSAGES,
        "{%- for message in messages[::-1] %}",
        "it puts new messages before earlier ones",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_template_is_refused_by_what_it_does(fault: str) -> None:
    before, after, says = FAULTS[fault]
    assert CHATML_TEMPLATE.count(before) >= 1
    template = CHATML_TEMPLATE.replace(before, after, 1)
    with pytest.raises(TemplateError) as refused:
        TemplateRenderer(byte_tokenizer(), template, name="template of acme-7b")
    message = str(refused.value)
    assert message.startswith("template of acme-7b is not append-only: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 300


def test_every_family_s_own_template_can_be_broken_and_is_then_refused(family: Family) -> None:
    """With the real tokenizer: the check does not hang on the template it was written for."""
    broken = "{{- messages | length }}" + family.template
    with pytest.raises(TemplateError, match=f"broken {family.name} is not append-only: it counts messages"):
        TemplateRenderer(family.tokenizer, broken, options=family.options, name=f"broken {family.name}")


def test_a_date_that_is_given_is_no_fault() -> None:
    dated = (
        "{%- if today is not defined %}{%- set today = strftime_now('%d %b') %}{%- endif %}{{- today }}"
        + CHATML_TEMPLATE
    )
    with pytest.raises(TemplateError, match="current date"):
        TemplateRenderer(byte_tokenizer(), dated)
    renderer = TemplateRenderer(byte_tokenizer(), dated, options={"today": "1 Jan"})
    assert renderer.template.render([Message("user", "Hi.")]).startswith("1 Jan")


def test_tokens_that_a_template_writes_and_nobody_gave_are_asked_for() -> None:
    template = "{{- bos_token }}" + CHATML_TEMPLATE.replace("'<|im_end|>\\n'", "eos_token + '\\n'")
    with pytest.raises(TemplateError, match="acme-7b writes bos_token and eos_token: give them as options"):
        TemplateRenderer(byte_tokenizer(), template, name="acme-7b")
    given = {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
    renderer = TemplateRenderer(byte_tokenizer(), template, options=given)
    assert renderer.decode([renderer.close_id]) == "<|im_end|>"
