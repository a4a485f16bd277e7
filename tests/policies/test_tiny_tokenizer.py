"""The tokenizer: nothing is lost, an action is one token both ways, and a conversation only ever grows."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from harness_adapters.mini_swe_agent import MiniSweAgent
from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.parser import HermesParser, check_parser
from lego_verl.capture.template import ChatTemplate
from lego_verl.policies.tiny.actions import toy_actions
from lego_verl.policies.tiny.conversation import Conversation, as_messages, rendered
from lego_verl.policies.tiny.tokenizer import END, SPECIAL, action_ids, fixed_passages, save_tokenizer, train_tokenizer
from lego_verl.policies.tiny.vary import Variations
from lego_verl.tasks.toy.wording import MODULES


@pytest.fixture(scope="module")
def tokenizer(conversations: list[Conversation]) -> Tokenizer:
    return train_tokenizer([(toy_actions(MiniSweAgent.shell), [rendered(each) for each in conversations])])


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


@settings(max_examples=150, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=False) == text


def test_an_action_is_one_token_both_ways(tokenizer: Tokenizer) -> None:
    actions = toy_actions(MiniSweAgent.shell)
    for action, token in zip(actions.actions, actions.tokens, strict=True):
        number = action_ids(tokenizer, actions)[action.name]
        assert ids(tokenizer, token) == [number]
        # not special: it must stay when special tokens are left out
        assert tokenizer.decode([number, tokenizer.token_to_id(END)], skip_special_tokens=True) == token
        assert HermesParser().parse(tokenizer.decode([number], skip_special_tokens=False)).calls
    assert tokenizer.get_vocab_size() == max(action_ids(tokenizer, actions).values()) + 1


def test_a_line_end_is_a_token_of_its_own(tokenizer: Tokenizer) -> None:
    """verl's builder for ChatML models inserts it after <|im_end|>."""
    (newline,) = ids(tokenizer, "\n")
    assert ids(tokenizer, "\n\n") == [newline, newline]
    assert ids(tokenizer, f"{END}\n{SPECIAL[1]}")[1] == newline


def test_conversations_grow_by_appending(tokenizer: Tokenizer, conversations: list[Conversation]) -> None:
    template = ChatTemplate(CHATML_TEMPLATE)
    for conversation in conversations[:6]:
        messages = as_messages(conversation.messages)
        whole = ids(tokenizer, template.render(messages, list(conversation.tools)))
        for turn, message in enumerate(messages):
            if message.role == "assistant":
                part = ids(tokenizer, template.render(messages[:turn], list(conversation.tools), generate=True))
                assert whole[: len(part)] == part


def test_template_fits_the_parser() -> None:
    check_parser(CHATML_TEMPLATE, HermesParser())


def test_training_is_deterministic(conversations: list[Conversation], tokenizer: Tokenizer) -> None:
    again = train_tokenizer([(toy_actions(MiniSweAgent.shell), [rendered(each) for each in conversations])])
    assert again.to_str() == tokenizer.to_str()


def test_loads_with_transformers_and_without(
    tokenizer: Tokenizer, conversations: list[Conversation], tmp_path: Path
) -> None:
    save_tokenizer(tokenizer, tmp_path)
    plain = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(tmp_path)

    assert len(loaded) == tokenizer.get_vocab_size()
    assert loaded.eos_token == END
    text = rendered(conversations[0])
    assert loaded.encode(text, add_special_tokens=False) == ids(plain, text) == ids(tokenizer, text)
    assert loaded.decode(ids(plain, text)) == text
    # Hugging Face compiles the template to the same text
    messages = [dict(message) for message in conversations[0].messages]
    for message in messages:
        message["content"] = message["content"] or ""
    assert loaded.apply_chat_template(messages, tools=conversations[0].tools, tokenize=False) == text


def test_a_harness_that_says_much_has_short_prompts(conversations: list[Conversation], tokenizer: Tokenizer) -> None:
    """What it says in every conversation is a token for each passage, and comes back; actions stay what they were."""
    prose = [f"{number}. {'Take care of what you are about to do, and say it. ' * 3}" for number in range(12)]
    before, after = "\n".join(["- Work.", "", *prose]), "\n".join(reversed(prose))
    told = [
        Conversation(
            [{"role": "system", "content": f"{before}\nTrial {number}.\n{after}"}, *conversation.messages[1:]],
            conversation.tools,
            conversation.kind,
            conversation.module,
        )
        for number, conversation in enumerate(conversations)
    ]
    texts = [rendered(conversation) for conversation in told]
    assert before in fixed_passages(texts)
    assert any(passage.startswith(after) for passage in fixed_passages(texts))
    wordy = train_tokenizer([(toy_actions(MiniSweAgent.shell), texts)])
    assert len(ids(wordy, before)) == 1
    said = set(action_ids(wordy, toy_actions(MiniSweAgent.shell)).values())
    for text, conversation in zip(texts, told, strict=True):
        assert wordy.decode(ids(wordy, text), skip_special_tokens=False) == text
        plain = Conversation(conversation.messages[1:], conversation.tools, conversation.kind, conversation.module)
        assert len(ids(wordy, text)) < len(ids(wordy, rendered(plain))) + 20
        turns = sum(message["role"] == "assistant" for message in conversation.messages)
        assert sum(token in said for token in ids(wordy, text)) == turns
    assert fixed_passages([rendered(conversation) for conversation in conversations]) == []


def test_what_is_fixed_is_not_varied(conversations: list[Conversation]) -> None:
    """Whole passages stay, also where a message has only the beginning of one and the tools are the rest of it."""
    prose = "\n".join(
        f"{name.title()}: of {name} and {', '.join(MODULES)} this is said to all. " * 9 for name in MODULES
    )
    told = [
        Conversation(
            [{"role": "system", "content": prose}, *conversation.messages[1:]], conversation.tools, "", "labels"
        )
        for conversation in conversations
    ]
    (passage,) = fixed_passages([rendered(conversation) for conversation in told])
    assert passage.startswith(prose)
    assert len(passage) > len(prose)
    rng = random.Random(1)
    for fixed, kept in ((passage,), True), ((), False):
        drawn = [Variations(told, fixed).draw(conversation, rng) for conversation in told]
        assert all(passage in rendered(conversation) for conversation in drawn) is kept
