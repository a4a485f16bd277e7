"""Twenty turns with every tokenizer and template: prompts only grow, and the text is what the template says."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from real_families import FAMILIES, Family, family_of
from real_play import Play, normal

from lego_verl.capture.message import Message
from lego_verl.capture.parser import ParsedCall

CJK = "修复“解析器”：値が空のとき例外を出す。한국어도. 𠮷野家"
EMOJI = "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇫🇷 1️⃣"
MARKS = "e\u0301 n\u0303 q\u0323\u0307 Z͑ͫ̓͟a̴l̵g̶o̷"
RIGHT_TO_LEFT = "שלום עולם — مرحبا بالعالم \u200f(abc)\u200e"
CODE = 'def f(x: "int | None") -> str:\n\treturn f"{x!r:>10}"  # ≠ \\n\n\n\n    \r\nif a<b and c>d: pass\n'
OUTPUT = "\x1b[31mFAILED\x1b[0m tests/test_ü.py::test_x - AssertionError: '\\u00e9' != 'é'\n\n\n1234567890 0x7fFF\n"
ALL = (CJK, EMOJI, MARKS, RIGHT_TO_LEFT, CODE, OUTPUT)


def call(command: str, **more: object) -> ParsedCall:
    return ParsedCall("bash", json.dumps({"command": command, **more}, ensure_ascii=False))


def twenty_turns(play: Play) -> None:
    """Text, thinking, one call and several, a cut call, a malformed call, a stop string, a cut text."""
    for number, content in enumerate((*ALL, *ALL), start=1):  # 12 turns: a call, sometimes two, and their results
        calls = [call(f"cat '{content}'", timeout=number), call("ls")][: 1 + number % 2]
        reasoning = f"Perhaps {content.strip()}?" if number % 3 == 0 else ""
        committed = play.sample(play.ids_of(play.written(f"Step {number}.", reasoning, calls)))
        read = [normal(each.arguments) for each in committed.message.tool_calls]
        assert read == [normal(each.arguments) for each in calls]
        assert normal(committed.message.reasoning) == normal(reasoning)
        play.results(*(f"{content}{each}" for each in range(len(calls))))
        if number % 4 == 0:
            play.answer(Message("user", f"And now?\n{content}!"))
    for content in (CJK, CODE):  # 2 calls that were cut: they are text
        whole = play.ids_of(play.written("Let me see.", "", [call(f"echo {content}")]), end=False)
        committed = play.sample(whole[: len(whole) - 12], "length")
        assert not committed.message.tool_calls
        assert committed.malformed == 1
        play.answer(Message("user", f"You were cut. {content}."))
    broken = play.written("Try.", "", [call("ls")]).replace('{"command"', '{"command').replace("</function>", "")
    committed = play.sample(play.ids_of(broken))  # 1 call that is no call
    assert (committed.malformed, committed.message.tool_calls) == (1, ())
    play.answer(Message("user", "That was no call."))
    committed = play.sample(play.ids_of(play.written(f"{EMOJI} STOP"), end=False), stop=["STOP"])  # 1 stop string
    assert (committed.message.text, committed.stopped) == (f"{EMOJI} ", "STOP")
    play.answer(Message("user", RIGHT_TO_LEFT))
    for content in (MARKS, CODE.strip(), OUTPUT.strip(), CJK):  # 4 turns of text only
        play.sample(play.ids_of(play.written(content, "" if content == CJK else f"So: {content}")))
        play.answer(Message("user", f"{content}?"))


def test_twenty_turns_are_one_segment_and_the_text_is_the_template_s(family: Family) -> None:
    play = Play(family, CJK)
    twenty_turns(play)
    assert len(play.samples) == 20
    play.history.pop()
    play.as_sampled.pop()
    play.check()
    assert play.text() == play.rendered()
    assert set(play.segment().versions.tolist()) == {-1, 0, 1, 2, 3}


def test_without_reasoning_the_segment_is_what_the_tokenizer_makes_of_the_whole(family: Family) -> None:
    """Id for id: nothing is lost or doubled at the boundaries of turns."""
    play = Play(family, CJK)
    if family.renderer.reasoning_open:
        template, options = family.renderer.template, {"enable_thinking": False}
        family = type(family)(
            family.name, family.tokenizer, family.template, family.parser,
            type(family.renderer)(family.tokenizer, family.template, options=options, name=template.name),
        )  # fmt: skip
        play = Play(family, CJK)
    for number, content in enumerate(ALL):
        play.sample(play.ids_of(play.written(f"Step {number}: {content.strip()}", "", [call(content), call("ls")])))
        play.results(content.strip(), f"{number}")
    play.sample(play.ids_of(play.written("Done.")))
    play.check()
    empty = family.renderer.encode("<think>\n\n</think>\n\n")
    whole = family.renderer.encode(play.family.renderer.template.render(play.as_sampled, play.tools).rstrip("\n"))
    assert _without(play.ids, empty) == _without(whole, empty)


def _without(ids: list[int], piece: list[int]) -> list[int]:
    """Ids without every occurrence of a piece."""
    kept: list[int] = []
    for token in ids:
        kept.append(token)
        if kept[-len(piece) :] == piece:
            del kept[-len(piece) :]
    return kept


CONTENT = st.text(min_size=1, max_size=40).filter(lambda text: "<" not in text and text.strip() == text)
TURNS = st.lists(st.tuples(CONTENT, CONTENT, st.sampled_from(["call", "text", "cut", "think"])), min_size=1, max_size=6)


@settings(max_examples=40)
@given(st.sampled_from(FAMILIES), CONTENT, TURNS)
def test_whatever_is_said_the_prompts_only_grow(name: str, question: str, turns: list[tuple[str, str, str]]) -> None:
    play = Play(family_of(name), question)
    for said, heard, kind in turns:
        reasoning = f"{said}?" if kind == "think" else ""
        sampled = play.written(said, reasoning, [call(f"echo {said}")] if kind == "call" else [])
        ids = play.ids_of(sampled, end=kind != "cut")
        play.sample(ids, "length" if kind == "cut" else "stop")
        if kind == "call":
            play.results(heard)
        else:
            play.answer(Message("user", heard))
    play.history = play.history[:-1]
    play.as_sampled = play.as_sampled[:-1]
    play.check()
    end = play.family.renderer.decode([play.family.renderer.close_id])
    assert play.text().removesuffix(end) == play.rendered().removesuffix(end)
