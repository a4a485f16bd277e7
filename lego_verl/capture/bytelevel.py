"""A tokenizer that needs no file: one token a byte, and ChatML's special tokens."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.render import TemplateRenderer

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def byte_tokenizer() -> Tokenizer:
    """256 bytes, then the special tokens, then the markers of reasoning and tool calls."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: index for index, symbol in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKERS])
    return tokenizer


def byte_renderer(template: str = CHATML_TEMPLATE) -> TemplateRenderer:
    """A renderer for scripted policies: every text has exactly one encoding, and it is readable."""
    return TemplateRenderer(byte_tokenizer(), template, eos=("<|endoftext|>",), name="ChatML (byte-level)")
