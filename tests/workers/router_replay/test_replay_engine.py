"""verl's FSDP engine with router replay against the rollout server's model and against forced routing in plain code.

Routes are perturbed at generation on purpose, so that the trainer's own would be others.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra cpu is not installed")
pytest.importorskip("verl", reason="the extra cpu is not installed")

from engine_jobs import LAYOUTS, differences, expected, signed  # noqa: E402
from tiny_mixtures import FAMILIES, LAYERS, TOP_K, gradients, logprobs, moe_layers, tiny  # noqa: E402

from lego_verl.workers.rollout.load_parameters import load_parameters  # noqa: E402

TOLERANCE = 1e-5


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_with_replay_the_trainer_says_what_the_engine_said(
    family: str, layout: str, generated: dict[str, Any], results: dict[str, Any]
) -> None:
    assert max(differences(generated[family], results[f"{family}/{layout}"])) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_without_replay_it_does_not(family: str, generated: dict[str, Any], results: dict[str, Any]) -> None:
    found = generated[family]
    off, on = (differences(found, results[f"{family}/{name}"]) for name in ("native", "padded"))
    print(f"{family}: largest difference without replay {max(off):.3g}, with replay {max(on):.3g} nats")
    assert max(off) > 0.1
    model, _ = expected(found)
    for ids, row in zip(found["sequences"], results[f"{family}/native"]["logprobs"], strict=True):
        torch.testing.assert_close(row, logprobs(model, ids).detach(), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("layout", [*LAYOUTS, "two ranks"])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_forced_routing(
    family: str, layout: str, generated: dict[str, Any], results: dict[str, Any]
) -> None:
    found, result = generated[family], results[f"{family}/{layout}"]
    assert not isinstance(result, str), result
    assert result["micro_batches"] > 1, "else no micro-batch could take another's routes"
    model, routes = expected(found)
    wanted = gradients(model, found["sequences"], routes)
    assert result["gradients"].keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(result["gradients"][name], gradient, atol=TOLERANCE, rtol=0, msg=name)
    routers = [name for name in wanted if name.endswith(("gate.weight", "router.weight"))]
    assert len(routers) == len(moe_layers(model))
    assert min(float(wanted[name].abs().max()) for name in routers) > 1e-3, "routers learn under replay"


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_without_replay_are_others(family: str, generated: dict[str, Any], results: dict[str, Any]) -> None:
    model, routes = expected(generated[family])
    wanted = gradients(model, generated[family]["sequences"], routes)
    off, on = (
        max(float((results[f"{family}/{name}"]["gradients"][key] - wanted[key]).abs().max()) for key in wanted)
        for name in ("native", "padded")
    )
    largest = max(float(gradient.abs().max()) for gradient in wanted.values())
    print(f"{family}: gradients of up to {largest:.3g} differ by {off:.3g} without replay, with replay by {on:.3g}")
    assert off > 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_log_probabilities_on_two_ranks(family: str, generated: dict[str, Any], results: dict[str, Any]) -> None:
    found, result = generated[family], results[f"{family}/two ranks"]
    assert not isinstance(result, str), result
    for rank in range(2):
        own = {"sampled": found["sampled"][rank::2]}
        assert max(differences(own, result["ranks"][rank])) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_replayed_is_counted(family: str, generated: dict[str, Any], results: dict[str, Any]) -> None:
    found, result = generated[family], results[f"{family}/packed"]
    model, _ = expected(found)
    layers, tokens = sorted(moe_layers(model)), sum(len(ids) for ids in found["sequences"])
    replayed = len(layers) * (tokens - len(found["sequences"]))  # of no sequence the last token
    counts = {name.removeprefix("router_replay/"): count for name, count in result["counts"].items()}
    assert counts["rows"] == len(layers) * tokens
    assert counts["replayed_rows"] == replayed
    assert counts["experts"] == replayed * TOP_K
    agreement = torch.cat(result["agreement"])
    assert agreement.shape == (tokens, LAYERS)
    dense = [layer for layer in range(LAYERS) if layer not in layers]
    assert (agreement[:, dense] == -1).all(), "dense layers route nothing"
    assert int((agreement[:, layers] >= 0).sum()) == replayed
    assert counts["agreed_experts"] == int(agreement[agreement >= 0].sum())
    assert 0.3 < counts["agreed_experts"] / counts["experts"] < 0.95, "noise moved some routes, and not all"
    # A token's first router sees the same whatever is replayed below it: there, its own choice is the model's.
    first = layers[0]
    if first == 0:
        ids, rows = found["sequences"][0], signed(found["routes"][0])[:, 0]
        own = _first_choice(model, ids)
        same = torch.tensor([len(set(a) & set(b)) for a, b in zip(own.tolist(), rows.tolist(), strict=True)])
        assert torch.equal(result["agreement"][0][:-1, 0].long(), same[:-1])


def _first_choice(model: Any, ids: torch.Tensor) -> torch.Tensor:
    block, seen = moe_layers(model)[0], {}
    handle = block.register_forward_pre_hook(lambda _, args: seen.update(x=args[0]))
    model(input_ids=ids[None])
    handle.remove()
    router = getattr(block, "gate", None) or block.router
    return router(seen["x"].reshape(len(ids), -1))[-1]


def test_padded_and_packed_agree_on_agreement(results: dict[str, Any]) -> None:
    for family in FAMILIES:
        pairs = zip(results[f"{family}/packed"]["agreement"], results[f"{family}/padded"]["agreement"], strict=True)
        assert all(torch.equal(packed, padded) for packed, padded in pairs)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rollout_model_takes_what_the_engine_sends(
    family: str, generated: dict[str, Any], results: dict[str, Any]
) -> None:
    target = tiny(family, seed=1)
    load_parameters(target, results[f"{family}/native"]["parameters"])
    model, _ = expected(generated[family])
    for (name, got), wanted in zip(target.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.equal(got, wanted), name
