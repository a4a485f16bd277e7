"""The tokenizer: nothing is lost, an action is one token both ways, and a conversation only ever grows."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.parser import HermesParser, check_parser
from lego_verl.capture.template import ChatTemplate
from lego_verl.policies.tiny.actions import toy_actions
from lego_verl.policies.tiny.conversation import Conversation, as_messages, rendered
from lego_verl.policies.tiny.tokenizer import END, SPECIAL, action_ids, save_tokenizer, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer(conversations: list[Conversation]) -> Tokenizer:
    return train_tokenizer([rendered(conversation) for conversation in conversations], toy_actions())


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


@settings(max_examples=150, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=False) == text


def test_an_action_is_one_token_both_ways(tokenizer: Tokenizer) -> None:
    actions = toy_actions()
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
    again = train_tokenizer([rendered(conversation) for conversation in conversations], toy_actions())
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
