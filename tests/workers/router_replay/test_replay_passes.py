"""Each forward pass keeps its own routes, whenever its layers are computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra cpu is not installed")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from tiny_mixtures import EXPERTS, LAYERS, TOP_K, gradients, tiny  # noqa: E402

from lego_verl.workers.router_replay.families import decoder_layers, find_routers  # noqa: E402
from lego_verl.workers.router_replay.replay import RouterReplay  # noqa: E402
from lego_verl.workers.router_replay.rows import RoutesError  # noqa: E402


def replayed(model: Any, *, checkpointing: bool) -> RouterReplay:
    replay = RouterReplay(find_routers(model), decoder_layers(model))
    if checkpointing:
        kwargs = {"use_reentrant": False, "context_fn": replay.checkpoint_contexts}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kwargs)
    model.train()  # as verl does; without it nothing is checkpointed
    return replay


def loss_of(model: Any, replay: RouterReplay, ids: Any, routes: Any) -> Any:
    with replay.forward_pass():
        replay.begin(routes)
        logits = model(input_ids=ids[None], use_cache=False).logits[0]
        return -logits[:-1].log_softmax(-1).gather(-1, ids[1:, None]).sum()


def some(seed: int, length: int = 7) -> tuple[Any, Any]:
    """Ids, and routes (tokens, layers, top_k) drawn at random."""
    draw = torch.Generator().manual_seed(seed)
    routes = torch.rand(length, LAYERS, EXPERTS, generator=draw).topk(TOP_K).indices.to(torch.int16)
    return torch.randint(2, 97, (length,), generator=draw), routes


def checked(model: Any, backward: Callable[[list[Any]], None], replay: RouterReplay) -> None:
    """Gradients of four passes whose backward passes come in an order of their own equal those of forced routing."""
    batches = [some(seed, 5 + seed) for seed in range(4)]
    reference = tiny("qwen3_moe")
    tokens = sum(len(ids) - 1 for ids, _ in batches)
    wanted = gradients(reference, [ids for ids, _ in batches], [routes for _, routes in batches])
    backward([loss_of(model, replay, ids, routes) / tokens for ids, routes in batches])
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], atol=1e-5, rtol=0, msg=name)


@given(st.permutations(range(4)), st.booleans())
@settings(deadline=None, max_examples=6)
def test_backward_passes_in_any_order(order: list[int], checkpointing: bool) -> None:
    def backward(losses: list[Any]) -> None:
        for index in order:
            losses[index].backward()

    model = tiny("qwen3_moe")
    checked(model, backward, replayed(model, checkpointing=checkpointing))


def test_one_backward_pass_of_all() -> None:
    model = tiny("qwen3_moe")
    checked(model, lambda losses: sum(losses).backward(), replayed(model, checkpointing=True))


def test_a_native_pass_between_leaves_no_trace() -> None:
    model = tiny("qwen3_moe")
    replay = replayed(model, checkpointing=True)

    def backward(losses: list[Any]) -> None:
        with torch.no_grad():
            loss_of(model, replay, some(9)[0], None)
        for loss in losses:
            loss.backward()

    checked(model, backward, replay)


def test_what_was_counted_outlasts_the_backward_pass() -> None:
    model = tiny("qwen3_moe")
    replay, (ids, routes) = replayed(model, checkpointing=True), some(0)
    routes[-1] = -1
    with replay.forward_pass():
        replay.begin(routes)
        this = replay.current
        loss = model(input_ids=ids[None], use_cache=False).logits.sum()
    before = this.agreement()
    loss.backward()
    assert torch.equal(this.agreement(), before)
    assert (before[-1] == -1).all()
    assert (before[:, 1] == -1).all(), "the dense layer"
    assert set(before[:-1, [0, 2]].flatten().tolist()) <= {0, 1, 2}


def test_a_router_outside_a_pass_is_an_error() -> None:
    """As it would be where layers are computed again by a checkpoint that does not know of the routes."""
    model = tiny("qwen3_moe")
    replay, (ids, routes) = replayed(model, checkpointing=False), some(0)
    with pytest.raises(RuntimeError, match="outside a forward pass"):
        model(input_ids=ids[None])
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    loss = loss_of(model, replay, ids, routes)
    with pytest.raises(RuntimeError, match="outside a forward pass"):
        loss.backward()


def test_rows_that_do_not_fit_are_refused() -> None:
    model = tiny("qwen3_moe")
    replay, (ids, routes) = replayed(model, checkpointing=False), some(0)
    with pytest.raises(RoutesError, match=r"layer 0 routes 7 rows, and 6 were recorded"):
        loss_of(model, replay, ids, routes[:-1])
    with pytest.raises(RoutesError, match="3 decoder layers and sends a token to 2 experts"):
        loss_of(model, replay, ids, routes[:, :, :1])
