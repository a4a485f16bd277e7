"""What verl's engines say of the canary's sequences: the actor by its log-probability pass, and the servers."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from lego_verl.workers.alignment_routes import AGREEMENT, agreed_share
from lego_verl.workers.canary import Reading, WeightSyncError

_PARTITION = "canary"
_SECONDS = 300.0
"""How long a rollout server may take for it."""
ENGINES = ("transformers", "vllm", "sglang")
"""``rollout.name`` of the engines that can be read."""


def read_trainer(
    workers: Any,
    sequences: Sequence[Sequence[int]],
    ranks: int,
    routes: Sequence[NDArray[np.integer[Any]]] | None = None,
) -> tuple[Reading, float]:
    """Score with verl's actor, at temperature 1.

    Args:
        workers: verl's actor worker group.
        ranks: its data-parallel ranks, each of which needs as many rows as the others.
        routes: (tokens, layers, top_k) of each sequence, for an engine with router replay.

    Returns:
        What it says, and the share of the ``routes`` that were replayed which its routers would have chosen themselves
        (NaN where none were).
    """
    padded = [*sequences, *(sequences[0] for _ in range(-len(sequences) % ranks))]
    name = uuid.uuid4()
    keys = [f"{name}_0_{number}" for number in range(len(padded))]
    tags = [{"seq_len": len(ids)} for ids in padded]
    rows = [_row(ids) for ids in padded]
    if routes is not None:
        for number, row in enumerate(rows):
            # Of two bytes, since a mark of rows that were not recorded may be among them.
            row["routed_experts"] = torch.from_numpy(routes[number % len(sequences)].astype(np.int16))
    fields = list_of_dict_to_tensordict(rows)
    batch = KVBatchMeta(partition_id=_PARTITION, keys=keys, tags=tags)
    tq.kv_batch_put(keys=keys, partition_id=_PARTITION, fields=fields, tags=tags)
    try:
        batch.extra_info.update({"calculate_entropy": False, "compute_loss": False, "temperature": 1.0})
        batch.extra_info["enable_routing_replay"] = routes is not None
        workers.compute_log_prob(batch)
        wanted = ["log_probs", *([] if routes is None else [AGREEMENT])]
        data = tq.kv_batch_get(keys=keys[: len(sequences)], partition_id=_PARTITION, select_fields=wanted)
    finally:
        tq.kv_clear(keys=keys, partition_id=_PARTITION)
    # The engine gives a value at every position, each for the token that follows it.
    scored = zip(sequences, data["log_probs"].unbind(), strict=True)
    agreement = math.nan
    if routes is not None:
        agreement = agreed_share([row.numpy() for row in data[AGREEMENT].unbind()], routes[0].shape[-1])
    return Reading(np.concatenate([row[: len(ids) - 1].float().numpy() for ids, row in scored])), agreement


def _row(sequence: Sequence[int]) -> dict[str, torch.Tensor]:
    ids = torch.tensor(sequence, dtype=torch.int64)
    ones = torch.ones(len(ids) - 1, dtype=torch.int64)
    return {
        "prompts": ids[:1],
        "responses": ids[1:],
        "input_ids": ids,
        "position_ids": torch.arange(len(ids)),
        "response_mask": ones,
        "loss_mask": ones,
    }


def read_servers(servers: Sequence[Any], sequences: Sequence[Sequence[int]], engine: str) -> list[Reading]:
    """Score with every rollout server, at temperature 1.

    Args:
        servers: Ray handles.
        engine: ``rollout.name``. This project's own server is asked for ``canary``; the others for a generation of one
            token with the log-probabilities of its prompt, as verl's distillation asks them
            (verl/experimental/teacher_loop).

    Raises:
        WeightSyncError: for a server that does not answer.
    """
    if engine == "transformers":
        return [own_reading(answer) for answer in _answers([s.canary.remote(list(sequences)) for s in servers])]
    params = {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
    asked = [
        server.generate.remote(prompt_ids=list(ids), sampling_params=dict(params), request_id=uuid.uuid4().hex)
        for server in servers
        for ids in sequences
    ]
    answers, each = _answers(asked), len(sequences)
    return [
        generated_reading(answers[number * each : (number + 1) * each], sequences) for number in range(len(servers))
    ]


def _answers(asked: Sequence[Any]) -> list[Any]:
    try:
        return list(ray.get(list(asked), timeout=_SECONDS))
    except ray.exceptions.GetTimeoutError as error:
        raise WeightSyncError(
            f"waited {_SECONDS:g} s for the rollout servers to score the canary after a weight sync"
        ) from error


def own_reading(answer: dict[str, Any]) -> Reading:
    """From what ``TransformersServer.canary`` answers."""
    routes = answer["routes"]
    return Reading(
        logprobs=np.concatenate(answer["logprobs"]).astype(np.float32),
        version=answer["version"],
        routes=None if routes is None else np.concatenate(routes),
    )


def generated_reading(outputs: Sequence[Any], sequences: Sequence[Sequence[int]]) -> Reading:
    """From verl's ``TokenOutput`` of one generation a sequence, with the log-probabilities of its prompt."""
    versions = {output.extra_fields.get("global_steps") for output in outputs}
    if len(versions) != 1:
        raise WeightSyncError(f"one rollout server scored the canary with several weight versions: {versions}")
    # A value for each token but the first, and a last one that stands for none.
    rows = [np.asarray(output.extra_fields["prompt_logprobs"], dtype=np.float32)[:, 0] for output in outputs]
    routes = [output.routed_experts for output in outputs]
    return Reading(
        logprobs=np.concatenate([row[: len(ids) - 1] for row, ids in zip(rows, sequences, strict=True)]),
        version=versions.pop(),
        routes=None if any(each is None for each in routes) else np.concatenate([np.asarray(r) for r in routes]),
    )
