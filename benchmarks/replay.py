"""What router replay costs: ``python benchmarks/replay.py [--tokens N] [--repeats N]``.

Capture: this project's rollout model with and without recording the routes, prefill and decode. Replay: verl's FSDP2
engine with ``router_replay.mode=R3`` beside the same engine without it, in log-probability and update passes, with
and without gradient checkpointing. It replays what its routers would choose themselves, so that the experts have the
same work to do and the ratio is the cost of replay alone. Each pair is timed in turn, by the CPU time of one thread;
the ratio is of the medians. The model is a Qwen3-MoE of 64 experts, 8 of them a token, 256 wide: its experts are
small, and replay's share of the time larger than in a model of real size.

Bytes are those of the tensors: of routes in a trial and in a batch, beside verl's two bytes an index, and what one
micro-batch holds while it is replayed. Exits 1 where capture or replay costs more than 5 % of the time.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

# verl decides at import what device there is.
os.environ.update(VERL_PLATFORM="cpu", OMP_NUM_THREADS="1", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")

import numpy as np
import torch
import transformers
from rich.console import Console
from rich.table import Table
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.dataset_utils import DatasetPadMode
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig, TrainingWorkerConfig
from verl.workers.config.engine import EngineRouterReplayConfig
from verl.workers.engine_workers import TrainingWorker

from lego_verl.workers.rollout.batched_model import Advance, BatchedModel
from lego_verl.workers.router_replay.replay import Pass

LAYERS, EXPERTS, TOP_K, WIDTH = 4, 64, 8, 256
VOCABULARY = 4096
SEQUENCES = 8
MOST = 0.05


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def save_model(folder: str) -> None:
    torch.manual_seed(0)
    config = transformers.Qwen3MoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        moe_intermediate_size=WIDTH // 2,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        num_experts=EXPERTS,
        num_experts_per_tok=TOP_K,
        decoder_sparse_step=1,
        norm_topk_prob=True,
        tie_word_embeddings=False,
        initializer_range=0.1,
        bos_token_id=None,
        pad_token_id=0,
        eos_token_id=1,
    )
    transformers.Qwen3MoeForCausalLM(config).float().save_pretrained(folder)


def model_at(folder: str) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def worker(folder: str, mode: str, *, checkpointing: bool) -> TrainingWorker:
    """verl's training worker as the CPU recipe has it, two micro-batches a pass."""
    sizes = {"micro_batch_size_per_gpu": SEQUENCES // 2, "infer_micro_batch_size_per_gpu": SEQUENCES // 2}
    made = TrainingWorker(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=HFModelConfig(
                path=folder,
                load_tokenizer=False,
                use_remove_padding=True,
                enable_gradient_checkpointing=checkpointing,
                override_config={"attn_implementation": "sdpa"},
                external_lib="lego_verl.workers.engine",
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                mixed_precision={"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
                use_torch_compile=False,
                use_dynamic_bsz=False,
                router_replay=EngineRouterReplayConfig(mode=mode),
                **sizes,
            ),
            optimizer_config=FSDPOptimizerConfig(lr=0.0, total_training_steps=1000),
            checkpoint_config=CheckpointConfig(),
        )
    )
    made.reset()
    made.set_loss_fn(loss)
    return made


def loss(model_output: dict[str, torch.Tensor], data: Any, dp_group: Any) -> tuple[torch.Tensor, dict]:
    return -model_output["log_probs"].values().mean(), {}


def batch(sequences: list[torch.Tensor], routes: list[torch.Tensor]) -> Any:
    def jagged(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    ones = jagged([torch.ones(len(ids) - 1, dtype=torch.int64) for ids in sequences])
    fields = {
        "input_ids": jagged(sequences),
        "position_ids": jagged([torch.arange(len(ids)) for ids in sequences]),
        "loss_mask": ones,
        "response_mask": ones,
        "routed_experts": jagged(routes),
    }
    meta = {"temperature": 1.0, "pad_mode": DatasetPadMode.NO_PADDING, "calculate_entropy": False}
    return tu.get_tensordict(fields, non_tensor_dict={**meta, "compute_loss": False, "global_batch_size": SEQUENCES})


def compare(without: Callable[[], Any], with_it: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Median CPU seconds of both, timed in turn after one run of each that does not count."""
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(repeats + 1):
        for seconds, run in zip(took, (without, with_it), strict=True):
            started = time.process_time()
            run()
            if number:
                seconds.append(time.process_time() - started)
    return statistics.median(took[0]), statistics.median(took[1])


def prefill(model: BatchedModel, prompts: list[np.ndarray]) -> list[Any]:
    return model.forward([Advance(None, ids) for ids in prompts])


def decode(model: BatchedModel, prefilled: list[Any], steps: int) -> None:
    pasts = [sequence for sequence, _ in prefilled]
    for step in range(steps):
        pasts = [sequence for sequence, _ in model.forward([Advance(past, np.array([step + 2])) for past in pasts])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1024, help="in a pass, over 8 sequences")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    random = np.random.default_rng(0)
    lengths = [asked.tokens // SEQUENCES - number for number in range(SEQUENCES)]
    prompts = [random.integers(2, VOCABULARY, length) for length in lengths]
    rows: list[tuple[str, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder)
        plain, recording = BatchedModel(model_at(folder)), BatchedModel(model_at(folder), record_routes=True)
        seconds = compare(lambda: prefill(plain, prompts), lambda: prefill(recording, prompts), asked.repeats)
        rows.append(("capture, prefill", *seconds))
        short = [prompt[:64] for prompt in prompts]
        cached = prefill(plain, short), prefill(recording, short)
        seconds = compare(lambda: decode(plain, cached[0], 16), lambda: decode(recording, cached[1], 16), asked.repeats)
        rows.append(("capture, decode", *seconds))
        routes = [sequence.routes for sequence, _ in prefill(recording, prompts)]
        assert all(each.dtype == torch.uint8 for each in routes)
        data = batch([torch.from_numpy(prompt) for prompt in prompts], routes)
        for checkpointing in (False, True):
            off, on = (worker(folder, mode, checkpointing=checkpointing) for mode in ("disabled", "R3"))
            passes = {"replay, update": TrainingWorker.train_batch}
            if checkpointing:
                passes = {"replay, update, checkpointed": TrainingWorker.train_batch}
            else:
                passes["replay, log-probabilities"] = TrainingWorker.infer_batch
                scored = (each.infer_batch(data.clone())["log_probs"].values() for each in (off, on))
                assert torch.allclose(*scored, atol=1e-5), "the routes are its own"
            for label, run in passes.items():
                timed = [partial(lambda run, worker: run(worker, data.clone()), run, each) for each in (off, on)]
                rows.append((label, *compare(timed[0], timed[1], asked.repeats)))
        return report(rows, routes, on, asked.tokens)


def report(rows: list[tuple[str, float, float]], routes: list[torch.Tensor], on: TrainingWorker, tokens: int) -> int:
    table = Table(title=f"{tokens} tokens a pass, CPU seconds", title_justify="left", box=None)
    for column in ("", "without", "with", "cost"):
        table.add_column(column, justify="right" if column else "left")
    for label, without, with_it in rows:
        table.add_row(label, f"{without:.3f}", f"{with_it:.3f}", f"{with_it / without - 1:+.1%}")
    console = Console()
    console.print(table)
    half = torch.cat(routes[: SEQUENCES // 2])
    replay = on.engine._router_replay
    held = Pass(half, replay._routers, LAYERS)
    marks = sum(mark.nbytes for mark in held.recorded.values())
    console.print(
        f"routes: {half[0].nbytes} bytes a token, {half[0].to(torch.int16).nbytes} as verl keeps them; "
        f"a micro-batch of {len(half)} tokens holds {half.nbytes + marks:,} bytes of routes and marks, "
        f"{(half.nbytes + marks) / (len(half) * WIDTH * 4):.3f} of one layer's float32 activations"
    )
    for name, each in (("Qwen3-30B-A3B", 48 * 8), ("DeepSeek-V3, of two bytes an index", 61 * 8 * 2)):
        console.print(f"{name}: {each} bytes a token, {each // 16} MiB a trial of 64k tokens")
    return int(max(with_it / without for _, without, with_it in rows) > 1 + MOST)


if __name__ == "__main__":
    sys.exit(main())
