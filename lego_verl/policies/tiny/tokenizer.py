"""The tokenizer of a tiny policy: byte-level BPE, trained on its conversations, with ChatML and one token an action.

It is written as a folder that transformers' ``AutoTokenizer`` loads and as a ``tokenizer.json`` that the plain
``tokenizers`` package loads; neither transformers nor torch is needed to make it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.policies.tiny.actions import ActionSet

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (PAD, START, END)
MAX_CONTEXT = 2048
_LONG, _MUCH = 120, 3000
"""Characters of a passage, and of all of them together, from which on they are tokens."""

# Words with the blank before them, numbers digit by digit, runs of signs, blanks and line ends apart: a line end
# is always a token of its own, which verl's builder for ChatML models relies on.
_SPLIT = Regex(r"\n| ?[A-Za-z_]+| ?\d| ?[^\sA-Za-z_\d]+| +(?=\s)| +|[^\S\n]+")


def train_tokenizer(recorded: Sequence[tuple[ActionSet, Sequence[str]]], *, merges: int = 768) -> Tokenizer:
    """Train on rendered conversations. Deterministic.

    The ids are: special tokens, bytes and merges, then the actions in their order, then ``fixed_passages``. An action's
    token is ordinary text (not "special"): decoding writes the whole tool call, and encoding the tool call gives the
    token back.

    Args:
        recorded: of each harness, its actions and the conversations in which they were used.
    """
    texts = [text for _, some in recorded for text in some]
    # What harnesses have in common is one token for all.
    tokens = dict.fromkeys(token for actions, _ in recorded for token in actions.tokens)
    tokens |= dict.fromkeys(passage for _, some in recorded for passage in fixed_passages(some))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_SPLIT, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    plain = [_without(text, (*SPECIAL, *tokens)) for text in texts]
    trainer = trainers.BpeTrainer(
        vocab_size=len(SPECIAL) + 256 + merges,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(plain, trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in tokens])
    return tokenizer


def fixed_passages(texts: Sequence[str]) -> list[str]:
    """Long passages, of whole lines, that a harness says in every conversation, where there is much of them: its own
    prose, and its tools.

    As one token each, the prompt of a harness that says a great deal is as short as that of one that says little. A
    tiny policy can do nothing with such prose but know it again. What differs from trial to trial is in no passage,
    and neither is a role or anything that the policy said.
    """
    if not texts:
        return []
    found: list[str] = []
    for turn in re.split("|".join(map(re.escape, SPECIAL)), texts[0]):
        role, *lines = turn.split("\n")
        if role != "assistant":
            found += _shared(lines, texts[1:])
    passages = [passage for passage in dict.fromkeys(found) if len(passage) >= _LONG]
    return passages if sum(map(len, passages)) >= _MUCH else []


def _shared(lines: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Runs of these lines, as long as may be, that stand in every text; none begins or ends with an empty one."""
    runs: list[str] = []
    begin = 0
    while begin < len(lines):
        end, run = begin, ""
        while end < len(lines) and all("\n".join(lines[begin : end + 1]) in text for text in texts):
            end += 1
            run = "\n".join(lines[begin:end])
        runs.append(run.strip("\n"))
        begin = max(end, begin + 1)
    return runs


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write ``tokenizer.json, tokenizer_config.json, chat_template.jinja``."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": PAD,
        "bos_token": None,
        "unk_token": None,
        "model_max_length": MAX_CONTEXT,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHATML_TEMPLATE)


def action_ids(tokenizer: Tokenizer, actions: ActionSet) -> dict[str, int]:
    """Token id of each action, by its name."""
    return {
        action.name: tokenizer.token_to_id(token) for action, token in zip(actions.actions, actions.tokens, strict=True)
    }


def _without(text: str, tokens: Sequence[str]) -> str:
    """What is a token anyway teaches BPE nothing."""
    for token in tokens:
        text = text.replace(token, "\n")
    return text
