"""verl's FSDP engine with router replay, under verl's own configuration (``router_replay.mode=R3``).

verl 0.9 has replay for Megatron (utils/megatron/router_replay_patch.py) and VeOmni (utils/veomni/router_replay.py).
As there, ``routed_experts`` of the batch is replayed in log-probability passes and in updates, and a batch that says
``enable_routing_replay=False`` is routed natively.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.utils.ulysses import slice_input_tensor
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from lego_verl.workers.router_replay.families import decoder_layers, find_routers
from lego_verl.workers.router_replay.replay import Pass, RouterReplay
from lego_verl.workers.router_replay.rows import (
    RoutesError,
    extended_rows,
    packed_rows,
    padded_rows,
    positions_in_padded,
)

AGREEMENT = "route_agreement"
"""What a log-probability pass returns beside ``log_probs``: jagged (sequences, tokens, layers) int8, how many of a
token's recorded experts the trainer's router would have chosen itself; -1 where nothing was replayed."""


class FSDPEngineWithRouterReplay(FSDPEngineWithLMHead):
    """Trains on the experts that generation used.

    Raises:
        ValueError: on construction, before weights load, for what replay does not go together with.
        UnknownRouterError: while it is built, for a dense model or a router that is not known.
    """

    _router_replay: RouterReplay | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self._replay_mode == "disabled":
            return
        if self._replay_mode != "R3":
            raise ValueError(
                f"fsdp_config.router_replay.mode={self._replay_mode}: the FSDP engine replays what generation "
                "recorded; set it to R3 or disabled"
            )
        if self.engine_config.strategy != "fsdp2":
            raise ValueError(f"router replay is for strategy=fsdp2, and not for {self.engine_config.strategy}")
        if self.model_config.enable_activation_offload and self.model_config.enable_gradient_checkpointing:
            raise ValueError(
                "router replay does not go with model.enable_activation_offload and "
                "model.enable_gradient_checkpointing together: verl then recomputes layers by a checkpoint of its "
                "own, which would not see the routes; switch one of them off"
            )

    @property
    def _replay_mode(self) -> str:
        # A reference policy is frozen: it routes by itself.
        return (
            "disabled" if self.engine_config.forward_only else self.engine_config.router_replay.get("mode", "disabled")
        )

    def _build_module(self) -> torch.nn.Module:
        module = super()._build_module()
        if self._replay_mode == "R3":
            replay = RouterReplay(find_routers(module), decoder_layers(module))
            self._router_replay = replay
            if self.model_config.enable_gradient_checkpointing:
                # Again, now with the routes of a layer's forward pass in its recomputation.
                module.gradient_checkpointing_enable(
                    gradient_checkpointing_kwargs={"use_reentrant": False, "context_fn": replay.checkpoint_contexts}
                )
        return module

    def forward_step(self, micro_batch: TensorDict, loss_function: Any, forward_only: bool) -> tuple[Any, dict]:
        if self._router_replay is None:
            return super().forward_step(micro_batch, loss_function=loss_function, forward_only=forward_only)
        with self._router_replay.forward_pass():
            loss, output = super().forward_step(micro_batch, loss_function=loss_function, forward_only=forward_only)
            output["metrics"] = {**output["metrics"], **_metrics(self._router_replay.current)}
        return loss, output

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict, dict]:
        model_inputs, output_args = super().prepare_model_inputs(micro_batch)
        if self._router_replay is not None:
            replays = tu.get_non_tensor_data(micro_batch, "enable_routing_replay", default=True)
            self._router_replay.begin(self._rows(micro_batch, output_args) if replays else None)
        return model_inputs, output_args

    def _rows(self, micro_batch: TensorDict, output_args: dict) -> torch.Tensor:
        """Recorded routes in the order in which this rank's routers see their rows, as ``super()`` laid out ids.

        Raises:
            RoutesError: when there are none, or not one a token.
        """
        routes = micro_batch.get("routed_experts", None)
        if routes is None:
            raise RoutesError(
                "router_replay.mode=R3 and a batch without routed_experts: set "
                "actor_rollout_ref.rollout.enable_rollout_routing_replay=true, on an engine that records routes"
            )
        offsets = micro_batch["input_ids"].offsets()
        rows = packed_rows(routes, offsets)
        if not tu.get_non_tensor_data(micro_batch, "use_remove_padding", default=True):
            return padded_rows(rows, offsets, int(offsets.diff().max()))
        rows = extended_rows(rows, int(output_args["pad_size"]))
        return slice_input_tensor(rows, dim=0, padding=False) if self.use_ulysses_sp else rows

    def prepare_model_outputs(
        self, output: Any, output_args: dict, micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict:
        model_output = super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        if self._router_replay is not None and not torch.is_grad_enabled():
            agreement = self._router_replay.current.agreement()
            if agreement is not None:
                model_output[AGREEMENT] = self._as_sequences(agreement, output_args, micro_batch)
        return model_output

    def _as_sequences(self, rows: torch.Tensor, output_args: dict, micro_batch: TensorDict) -> torch.Tensor:
        """Rows as the routers saw them, (rows, layers), as jagged (sequences, tokens, layers)."""
        offsets = micro_batch["input_ids"].offsets()
        if tu.get_non_tensor_data(micro_batch, "use_remove_padding", default=True):
            rows = self._gather_and_unpad_packed(rows, int(output_args["pad_size"]))
        else:
            rows = rows[positions_in_padded(offsets, int(offsets.diff().max()))]
        return torch.nested.nested_tensor_from_jagged(rows, offsets)


def _metrics(done: Pass) -> dict[str, Metric]:
    """Counts of one forward pass, over all layers with a router; nothing where nothing was to be replayed.

    ``rows``: a token in a layer. ``replayed_rows``: those that were recorded. ``agreed_experts``: of their
    ``experts``, those that the router would have chosen itself. verl sums them over the micro-batches of a
    mini-batch and averages over ranks and mini-batches, which leaves their ratios what they are.
    """
    if done.rows is None:
        return {}
    recorded = torch.stack(list(done.recorded.values()))
    agreed = torch.stack(list(done.agreed.values()))
    replayed = int(recorded.sum())
    counts = {
        "rows": recorded.numel(),
        "replayed_rows": replayed,
        "experts": replayed * done.rows.shape[-1],
        "agreed_experts": int((agreed * recorded).sum()),
    }
    return Metric.from_dict({f"router_replay/{name}": count for name, count in counts.items()}, AggregationType.SUM)
