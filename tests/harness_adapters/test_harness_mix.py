"""Several harnesses in one run: which one is drawn, and what is said about a mix that cannot be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.adapter import HarnessError
from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, HarnessConfig, typed
from lego_verl.consistency import check_consistency
from lego_verl.harness_mix import Harnesses, harnesses_of, load_harnesses, one_harness

TWO = {"mini_swe_agent": 3.0, "codex": 1.0}


def mix(**changes: Any) -> HarnessConfig:
    return HarnessConfig(**{"name": "mix", "mix": dict(TWO), **changes})


@given(st.integers(0, 99), st.integers(0, 99), st.text(max_size=20))
def test_whoever_asks_is_told_the_same(seed: int, step: int, task: str) -> None:
    one = Harnesses({"a": None, "b": None}, {"a": 1.0, "b": 2.0})  # type: ignore[dict-item]
    other = Harnesses({"b": None, "a": None}, {"b": 2.0, "a": 1.0})  # type: ignore[dict-item]
    assert one.draw(seed=seed, step=step, task=task) == other.draw(seed=seed, step=step, task=task)


def test_each_is_drawn_as_often_as_its_weight_says() -> None:
    harnesses = harnesses_of(mix())
    drawn = Counter(harnesses.draw(seed=1, step=step, task=f"t{task}") for step in range(50) for task in range(40))
    assert drawn["mini_swe_agent"] / drawn.total() == pytest.approx(0.75, abs=0.03)
    assert set(drawn) == set(TWO)


def test_seed_step_and_task_all_matter() -> None:
    harnesses = harnesses_of(mix(mix={"mini_swe_agent": 1.0, "codex": 1.0}))

    def draws(**fixed: Any) -> set[str]:
        asked = ({"seed": 1, "step": 1, "task": "t"} | {key: number} for number in range(40) for key in fixed)
        return {harnesses.draw(**{**each, "task": str(each["task"])}) for each in asked}

    assert draws(seed=0) == draws(step=0) == draws(task=0) == {"mini_swe_agent", "codex"}


def test_one_harness_is_a_mix_of_one() -> None:
    harnesses = harnesses_of(HarnessConfig(name="codex", options={"subagents": True}))
    assert {harnesses.draw(seed=1, step=step, task="t") for step in range(9)} == {"codex"}


def test_options_stand_under_the_name_of_their_harness() -> None:
    adapters = harnesses_of(mix(options={"mini_swe_agent": {"model_class": "litellm"}, "codex": None})).adapters
    assert adapters["mini_swe_agent"].runtime.name.endswith("litellm")
    assert set(adapters) == set(TWO)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (mix(mix={}), "harness=mix needs the weight of each harness"),
        (mix(mix={"codex": 0.0}), r"lego.harness.mix.codex=0.0 must be above 0"),
        (mix(mix={"codex": -1.0}), r"lego.harness.mix.codex=-1.0 must be above 0"),
        (mix(mix={"codex": float("nan")}), r"lego.harness.mix.codex=nan must be above 0"),
        (mix(mix={"codex": float("inf")}), r"lego.harness.mix.codex=inf must be above 0"),
        (mix(mix={"codex": [1]}), r"lego.harness.mix.codex=\[1\] must be above 0"),
        (mix(mix={"kodex": 1.0}), r"lego.harness.mix: harness=kodex: there is no such harness; there are .*codex"),
        (mix(mix={"mix": 1.0}), r"harness=mix: there is no such harness"),
        (mix(options={"subagents": True}), r"lego.harness.options.subagents: lego.harness.mix has no subagents"),
        (mix(options={"codex": 3}), r"lego.harness.options.codex=3: it must be a table of codex's own options"),
        (mix(options={"codex": {"sub": 1}}), r"lego.harness.mix: harness=codex: options .*'sub'"),
        (HarnessConfig(name="codex", mix={"codex": 1.0}), "lego.harness.mix is for harness=mix, and .* is codex"),
    ],
)
def test_a_mix_that_cannot_be_is_one_line(config: HarnessConfig, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        harnesses_of(config)
    assert "\n" not in str(caught.value)


def test_one_harness_that_there_is_not() -> None:
    with pytest.raises(HarnessError, match="harness=kodex: there is no such harness"):
        harnesses_of(HarnessConfig(name="kodex"))


def test_a_single_trial_takes_no_mix() -> None:
    assert one_harness(HarnessConfig(name="codex")) == "codex"
    with pytest.raises(ConfigError, match="one trial takes one harness"):
        one_harness(mix())


def test_a_list_of_harnesses_is_loaded_with_the_options_of_each() -> None:
    loaded = load_harnesses(["codex", "mini_swe_agent"], {}, "harnesses")
    assert [adapter.name for adapter in loaded.values()] == ["codex", "mini_swe_agent"]
    with pytest.raises(ConfigError, match="harnesses: harness=kodex: there is no such harness"):
        load_harnesses(["kodex"], {}, "harnesses")


@pytest.mark.parametrize(
    "overrides",
    [
        ["harness.mix={mini_swe_agent: 2, codex: 1}", "harness.options.codex.subagents=true"],
        ["lego.harness.mix.mini_swe_agent=2", "harness.mix.codex=1", "+harness.options.codex.subagents=true"],
    ],
)
def test_a_mix_on_the_command_line(overrides: list[str]) -> None:
    harness = typed(compose_recipe(["harness=mix", *overrides], config_name="trial")).harness
    assert (harness.name, harness.mix) == ("mix", {"mini_swe_agent": 2.0, "codex": 1.0})
    assert harness.options == {"codex": {"subagents": True}}


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("harness.mix={codex: much}", "'much' of type 'str' could not be converted to Float"),
        ("harness.mix={codex: null}", "lego.harness.mix.codex' is not Optional"),
        ("harness.mix=codex", "lego.harness.mix"),
        ("harness.mux={codex: 1}", "did you mean lego.harness.mix"),
    ],
)
def test_a_value_that_is_no_weight_is_one_line(override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        compose_recipe(["harness=mix", override], config_name="trial")
    assert "\n" not in str(caught.value)


def test_a_training_recipe_is_checked_with_its_mix() -> None:
    config = compose_recipe(["harness=mix", "harness.mix={mini_swe_agent: 1, codex: 2}"])
    check_consistency(config, typed(config))
    config.lego.harness.mix = {"mini_swe_agent": 0}
    with pytest.raises(ConfigError, match="must be above 0"):
        check_consistency(config, typed(config))
