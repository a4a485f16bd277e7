"""``python -m lego_verl.harness_check``: arguments, exit codes, the file it writes."""

from __future__ import annotations

import json
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from harness_adapters import registry
from lego_verl.harness_check.__main__ import main, overrides_of


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up harness, as another package would register it."""
    point = EntryPoint("made_up", "made_up_harness:MadeUp", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [point])


def test_arguments_become_overrides() -> None:
    given = ["claude_code", "only=work,history", "--out", "a.json", "--compare=b.json", "harness.options.bare=true"]
    assert overrides_of(given) == [
        "+harness=claude_code",
        "only=[work,history]",
        "out=a.json",
        "compare=b.json",
        "harness.options.bare=true",
    ]
    assert overrides_of(["made_up"]) == ["lego.harness.name=made_up"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "harness=nobody: there is no such harness; there are .*made_up"),
        (["only=work"], "only=work: the harness comes first; it can be .*made_up"),
        (["made_up", "--quick"], "--quick: there is no such flag; there are --out, --compare, --keep"),
        (["made_up", "only=wrok"], "only=wrok: there is no such scenario; there are .*work"),
        (["made_up", "slow=long"], "slow: Value 'long'"),
        (["made_up", "compare=nowhere.json"], "nowhere.json holds no harness check"),
        (["made_up", "harness.options.speed=9"], "unexpected keyword argument 'speed'"),
    ],
)
def test_a_wrong_argument_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("lego_verl: ")
    assert error.count("\n") == 1
    assert re.search(said, error)


def test_an_upgrade_that_changes_the_wire_is_told_and_exits_1(
    open_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(open_folder)
    common = ["made_up", "only=work,history", f"run.cache={open_folder}/cache"]
    assert main([*common, "--out", "old.json"]) == 0
    shown = capsys.readouterr().out
    assert "2 of 2 scenarios pass" in shown
    assert "speaks   chat; not streamed" in shown
    report = json.loads((open_folder / "old.json").read_text())
    assert (report["harness"], report["sandbox"], list(report["scenarios"])) == (
        "made_up",
        "local",
        ["work", "history"],
    )

    upgrade = ["harness.options.version=2", "harness.options.quirks=rewrites"]
    assert main([*common, *upgrade, "out=new.json", "compare=old.json"]) == 1
    shown = capsys.readouterr().out
    assert "2 of 2 scenarios pass" in shown
    assert "changed  echo.arguments: verbatim -> rewritten" in shown

    assert main([*common, "only=work", "harness.options.quirks=resets", "out=bad.json"]) == 1
    shown = capsys.readouterr().out
    assert "work: the patch is not there" in shown
    assert "0 of 1 scenarios pass" in shown


def test_help_names_harnesses_and_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "made_up" in shown
    assert "told_to_stop" in shown
    assert main([]) == 2
