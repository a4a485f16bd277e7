"""Runs verl's FSDP engine over jobs, on one and on two ranks: ``python engine_host.py JOBS RESULTS``.

A process of its own, since verl decides at import what device there is, and one process group is one world. verl is
imported once and the ranks are forked. Job: the keyword arguments of ``run_job``; result: what it returns, of rank 0,
or an error as a string.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any

os.environ.update(VERL_PLATFORM="cpu", OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", LOCAL_RANK="0")

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.dataset_utils import DatasetPadMode
from verl.utils.ulysses import get_ulysses_sequence_parallel_group
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig, TrainingWorkerConfig
from verl.workers.config.engine import EngineRouterReplayConfig
from verl.workers.engine_workers import TrainingWorker

FLOAT32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}


def worker(path: str, *, packed: bool, checkpointing: bool, model: dict[str, Any], engine: dict[str, Any]) -> Any:
    """verl's ``TrainingWorker`` on a model, as the CPU recipe configures it."""
    model_config = HFModelConfig(
        path=path,
        load_tokenizer=False,
        use_remove_padding=packed,
        enable_gradient_checkpointing=checkpointing,
        external_lib="lego_verl.workers.engine",
        **{"override_config": {"attn_implementation": "eager"}, **model},
    )
    mode = engine.pop("mode", "R3")
    sizes = dict(max_token_len_per_gpu=64, infer_max_token_len_per_gpu=64)
    sizes |= dict(micro_batch_size_per_gpu=2, infer_micro_batch_size_per_gpu=2)
    engine_config = FSDPEngineConfig(
        **{
            "strategy": "fsdp2",
            "mixed_precision": FLOAT32,
            "use_torch_compile": False,
            "use_dynamic_bsz": True,
            "router_replay": EngineRouterReplayConfig(mode=mode),
            **sizes,
            **engine,
        }
    )
    made = TrainingWorker(
        TrainingWorkerConfig(
            model_type="language_model",
            model_config=model_config,
            engine_config=engine_config,
            optimizer_config=FSDPOptimizerConfig(lr=1e-2, total_training_steps=10),
            checkpoint_config=CheckpointConfig(),
        )
    )
    made.reset()
    return made


def gathering_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: None, scaling: float, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    """Attention over packed tokens of which each rank holds a part, as verl's Ulysses has them, without its
    flash-attention: keys and values of all ranks are gathered. Heads (1, heads, tokens, head_dim)."""
    group = get_ulysses_sequence_parallel_group()
    parts, positions = dist.get_world_size(group), kwargs["position_ids"][0]
    everywhere = [torch.empty_like(positions) for _ in range(parts)]
    dist.all_gather(everywhere, positions, group=group)
    whole_positions, start = torch.cat(everywhere), dist.get_rank(group) * len(positions)
    sequence = (whole_positions == 0).cumsum(0)
    mine = slice(start, start + len(positions))
    seen = (sequence[mine, None] == sequence[None]) & (whole_positions[mine, None] >= whole_positions[None])
    key, value = (torch.cat(functional.all_gather(part.contiguous(), group=group), 2) for part in (key, value))
    key, value = (part.repeat_interleave(query.shape[1] // part.shape[1], 1) for part in (key, value))
    weights = (query @ key.transpose(-1, -2) * scaling).masked_fill(~seen, -torch.inf).softmax(-1)
    return (weights @ value).transpose(1, 2), None


ALL_ATTENTION_FUNCTIONS.register("gathering", gathering_attention)


def batch(sequences: list[torch.Tensor], routes: list[torch.Tensor] | None, **meta: Any) -> Any:
    """A batch as verl's trainer sends it: jagged, without padding."""

    def jagged(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    ones = jagged([torch.ones(len(ids) - 1, dtype=torch.int64) for ids in sequences])
    fields = {
        "input_ids": jagged(sequences),
        "position_ids": jagged([torch.arange(len(ids)) for ids in sequences]),
        "prompts": jagged([ids[:1] for ids in sequences]),
        "responses": jagged([ids[1:] for ids in sequences]),
        "loss_mask": ones,
        "response_mask": ones,
    }
    if routes is not None:
        fields["routed_experts"] = jagged(routes)
    meta = {"temperature": 1.0, "pad_mode": DatasetPadMode.NO_PADDING, "calculate_entropy": False, **meta}
    return tu.get_tensordict(fields, non_tensor_dict=meta)


def loss(model_output: dict[str, torch.Tensor], data: Any, dp_group: Any) -> tuple[torch.Tensor, dict]:
    """Mean negative log-probability over all ranks, of every token but the first ones."""
    total = -sum(row[:-1].sum() for row in model_output["log_probs"].unbind())
    # FSDP averages gradients over ranks.
    return total * tu.get_non_tensor_data(data, "dp_size", 1) / tu.get_non_tensor_data(data, "batch_num_tokens", 1), {}


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def run_job(
    *,
    path: str,
    sequences: list[torch.Tensor],
    routes: list[torch.Tensor] | None,
    packed: bool = True,
    checkpointing: bool = False,
    model: dict[str, Any] | None = None,
    engine: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    what: tuple[str, ...] = ("infer", "gradients"),
    world: int = 1,
) -> dict[str, Any]:
    """Build a worker and do ``what``: ``infer``, ``gradients``, ``inputs`` (of one micro-batch), ``parameters``."""
    made = worker(path, packed=packed, checkpointing=checkpointing, model=model or {}, engine=dict(engine or {}))
    rank, meta = dist.get_rank(), {"use_remove_padding": packed, **(meta or {})}
    shards = made.engine.get_data_parallel_size()
    mine = slice(made.engine.get_data_parallel_rank(), None, shards)
    own = sequences[mine], None if routes is None else routes[mine]
    result: dict[str, Any] = {"tokens": [len(ids) for ids in own[0]]}
    if "infer" in what:
        output = made.infer_batch(batch(*own, compute_loss=False, **meta))
        if output is None:  # verl takes it from the first rank that shares a sequence
            output = {"log_probs": torch.empty(0, 0)}
        result["logprobs"] = [row[:-1] for row in output["log_probs"].unbind()]
        if "route_agreement" in output:
            result["agreement"] = list(output["route_agreement"].unbind())
    if "gradients" in what:
        names = ("use_dynamic_bsz", "max_token_len_per_gpu", "micro_batch_size_per_gpu")
        data = batch(*own, **{name: made.engine_config[name] for name in names}, **meta)
        with made.engine.train_mode():
            output = made.engine.forward_backward_batch(data, loss_function=loss)
            named = made.engine.module.named_parameters()
            result["gradients"] = {name: whole(p.grad) for name, p in named if p.grad is not None}
        counts = {name: sum(metric.values) for name, metric in output["metrics"].items()}
        result["counts"], result["micro_batches"] = counts, len(output["loss"])
    if "inputs" in what:
        with made.engine.eval_mode():
            rows = made.engine.prepare_model_inputs(batch(*own, compute_loss=False, **meta))[0]
            result["inputs"] = rows["input_ids"].flatten(), made.engine._router_replay.current.rows
    if "parameters" in what:
        result["parameters"] = {name: whole(tensor) for name, tensor in made.engine.get_per_tensor_param()[0]}
    gathered: list[Any] = [None] * world
    dist.all_gather_object(gathered, {key: result[key] for key in result if key != "gradients"})
    return {**result, "ranks": gathered, "rank": rank}


def rank_main(rank: int, world: int, jobs: dict[str, dict[str, Any]], results: str, port: int) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_PORT=str(port))
    done: dict[str, Any] = {}
    for name, job in jobs.items():
        if job.get("world", 1) == world:
            try:
                done[name] = run_job(**job)
            except Exception as error:  # noqa: BLE001 - what a job raises is its result
                done[name] = f"{type(error).__name__}: {error}"
                import traceback

                traceback.print_exc()
    # Of the other ranks only what went wrong is of use; theirs is often the cause.
    kept = done if rank == 0 else {name: result for name, result in done.items() if isinstance(result, str)}
    torch.save(kept, f"{results}.{world}.{rank}")


def main(jobs_file: str, results: str, port: int) -> int:
    jobs = torch.load(jobs_file, weights_only=False)
    fork = multiprocessing.get_context("fork")
    ranks = [
        fork.Process(target=rank_main, args=(rank, world, jobs, results, port + world))
        for world in (1, 2)
        for rank in range(world)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    return max(process.exitcode or 0 for process in ranks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
