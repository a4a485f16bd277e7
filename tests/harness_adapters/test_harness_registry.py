"""Adapters by name, and what is said about a name that is wrong."""

from importlib.metadata import EntryPoint

import pytest

from harness_adapters import registry
from harness_adapters.adapter import HarnessError
from harness_adapters.mini_swe_agent import MiniSweAgent
from harness_adapters.registry import adapter_names, load_adapter


def test_mini_is_built_in() -> None:
    assert "mini_swe_agent" in adapter_names()
    assert isinstance(load_adapter("mini_swe_agent"), MiniSweAgent)


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    with pytest.raises(HarnessError, match=r"harness=mini: there is no such harness; there are .*mini_swe_agent"):
        load_adapter("mini")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model_class": "fat"}, r"model_class=fat: mini_swe_agent has thin, litellm"),
        ({"modelclass": "thin"}, r"unexpected keyword argument 'modelclass'"),
        ({"config": "/nowhere/mini.yaml"}, r"/nowhere/mini.yaml: .* cannot be read: No such file"),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, str], said: str) -> None:
    with pytest.raises(HarnessError, match=said) as error:
        load_adapter("mini_swe_agent", options)
    assert "\n" not in str(error.value)


def registered(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [p for p in points if p.group == group])


def test_other_packages_can_register_one(monkeypatch: pytest.MonkeyPatch) -> None:
    registered(monkeypatch, EntryPoint("theirs", "harness_adapters.mini_swe_agent:MiniSweAgent", registry.ENTRY_POINTS))
    assert {"mini_swe_agent", "theirs"} <= set(adapter_names())
    assert adapter_names() == sorted(adapter_names())
    assert isinstance(load_adapter("theirs"), MiniSweAgent)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such_module:Adapter", "harness=theirs: no_such_module:Adapter cannot be imported: No module named"),
        ("json:Adapter", "harness=theirs: json:Adapter cannot be imported: .*no attribute 'Adapter'"),
        ("json:JSONDecoder", "harness=theirs: json:JSONDecoder is not a HarnessAdapter"),
    ],
)
def test_a_broken_registration_is_named(monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    registered(monkeypatch, EntryPoint("theirs", value, registry.ENTRY_POINTS))
    with pytest.raises(HarnessError, match=said):
        load_adapter("theirs")


def test_a_built_in_name_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    registered(monkeypatch, EntryPoint("mini_swe_agent", "json:JSONDecoder", registry.ENTRY_POINTS))
    assert isinstance(load_adapter("mini_swe_agent"), MiniSweAgent)
