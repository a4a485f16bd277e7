"""``python -m lego_verl.harness_check NAME``: the command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import OmegaConf
from rich.console import Console

from harness_adapters.adapter import HarnessError
from harness_adapters.registry import adapter_names
from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, typed, typed_part
from lego_verl.harness_check.check import CheckSettings, run_check
from lego_verl.harness_check.report import ReportError, changes, read_report, write_report
from lego_verl.harness_check.scenarios import SCENARIOS
from lego_verl.harness_check.show import show_check
from lego_verl.harnesses.wanted import choose_harness
from lego_verl.tasks.task import TaskError
from lego_verl.verb import ended, wide_console
from sandbox.sandbox import SandboxError

_FLAGS = ("--out", "--compare", "--keep")
_USAGE = """\
usage: python -m lego_verl.harness_check NAME [KEY=VALUE ...]

Runs a harness against scripted policies in a real sandbox, without verl: does it start, find the proxy, finish and
leave its patch; how does it echo its history, what does it do about faults, and does it stop when it is told.

  NAME                     {harnesses}
  sandbox=local|docker     where it runs (default: local)
  harness.options.KEY=V    the adapter's own options
  only=[NAME,...]          some scenarios: {scenarios}
  slow=SECONDS             of the slow reply (default: 120)
  out=FILE                 the JSON (default: runs/harness_check/NAME-VERSION.json)
  compare=FILE             a JSON of another version: print what changed
  keep=FOLDER              keep every scenario's trial: what was printed, asked and sampled
  sandbox.slots=N          scenarios at once (default: 2)

exit codes: 0 all that must hold holds, and nothing changed; 1 something does not, or changed; 2 a bad argument"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or any(each in ("-h", "--help") for each in given):
        scenarios = ", ".join(each.name for each in SCENARIOS)
        print(_USAGE.format(harnesses=", ".join(adapter_names()), scenarios=scenarios))
        return 0 if given else 2
    codes: dict[type[Exception], int] = {ConfigError: 2, HarnessError: 2, ReportError: 2, TaskError: 2}
    return ended(lambda: _check(given, wide_console()), codes | {SandboxError: 1, OSError: 1})


def _check(given: Sequence[str], console: Console) -> int:
    config = compose_recipe(overrides_of(given), config_name="harness_check")
    own = OmegaConf.masked_copy(config, [str(key) for key in config if key not in ("lego", "data")])
    settings = typed_part(own, "", CheckSettings)
    before = None if settings.compare is None else read_report(Path(settings.compare))
    found, report = asyncio.run(run_check(typed(config), settings, console))
    name = report["runtime"].replace("/", "_")
    out = Path(settings.out or f"runs/harness_check/{name}.json")
    write_report(out, report)
    show_check(found, report, console)
    console.print(f"written: {out}", soft_wrap=True)
    changed = [] if before is None else changes(before, report)
    _show_changes(changed, settings.compare, console)
    return 1 if changed or not all(each.passed for each in found) else 0


def overrides_of(arguments: Sequence[str]) -> list[str]:
    """The command line as overrides of the recipe: its name first, flags spelt either way.

    Raises:
        ConfigError: when there is no name, or a flag that there is not.
    """
    name, *rest = arguments
    if "=" in name or name.startswith("-"):
        raise ConfigError(f"{name}: the harness comes first; it can be {', '.join(adapter_names())}")
    overrides = [choose_harness(name)]
    given = iter(rest)
    for argument in given:
        flag, separator, value = argument.partition("=")
        if flag in _FLAGS:
            overrides.append(f"{flag.removeprefix('--')}={value if separator else next(given, '')}")
        elif argument.startswith("-"):
            raise ConfigError(f"{argument}: there is no such flag; there are {', '.join(_FLAGS)}")
        else:
            overrides.append(_listed(argument))
    return overrides


def _listed(argument: str) -> str:
    """``only=a,b`` is short for ``only=[a,b]``."""
    key, separator, value = argument.partition("=")
    if key == "only" and separator and not value.startswith("[") and value != "null":
        return f"only=[{value}]"
    return argument


def _show_changes(changed: Sequence[str], against: str | None, console: Console) -> None:
    if against is None:
        return
    for line in changed:
        console.print(f"[yellow]changed[/]  {line}", markup=True, soft_wrap=True)
    console.print(f"{len(changed)} changes against {against}" if changed else f"nothing changed against {against}")


if __name__ == "__main__":
    sys.exit(main())
