"""A check for a person at a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lego_verl.harness_check.examine import Examined


def show_check(found: Sequence[Examined], report: Mapping[str, Any], console: Console) -> None:
    """A table with a line a scenario, then the wire and the echo, then what failed and why."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name in ("scenario", "", "outcome", "requests", "segments began", "what was seen", "s"):
        table.add_column(name, justify="right" if name == "s" else "left", overflow="fold")
    for each in found:
        mark = "[green]passes[/]" if each.passed else "[red]fails[/]"
        seen = each.seen
        requests = " ".join(f"{count}x{status}" for status, count in seen["statuses"].items())
        began = " ".join(f"{name} {count}" if count > 1 else name for name, count in seen["splits"].items())
        table.add_row(each.name, mark, seen["outcome"], requests, began, _noted(each), f"{each.measured['total']:.0f}")
    console.print(table)
    wire = report["wire"]
    if wire:
        tools = wire.get("tools", {})
        console.print(f"speaks   {', '.join(wire['dialects'])}; {'streamed' if wire.get('stream') else 'not streamed'}")
        console.print(f"offers   {len(tools)} tools: {', '.join(tools)}", soft_wrap=True)
        if wire["other_requests"]:
            console.print(f"asks     besides: {', '.join(wire['other_requests'])}", soft_wrap=True)
    if report["echo"]:
        echo = "; ".join(f"{aspect} {word}" for aspect, word in report["echo"].items())
        console.print(f"echoes   {echo}", soft_wrap=True)
    for each in found:
        for failure in each.failed:
            console.print(f"[red]{each.name}[/]: {escape(failure)}", soft_wrap=True)
        if each.failed and each.error:
            console.print(f"[dim]{escape(each.error)}[/dim]", soft_wrap=True)
    passed = sum(each.passed for each in found)
    console.print(f"{passed} of {len(found)} scenarios pass")


def _noted(each: Examined) -> str:
    notes = [each.seen["afterwards"]] if "afterwards" in each.seen else []
    if each.seen["side_calls"]:
        notes.append(f"{each.seen['side_calls']} side calls")
    if "stops" in each.seen:
        took = each.measured.get("seconds_to_stop")
        after = f" ({each.seen['after_the_end']} requests, {took:.1f} s)" if took is not None else ""
        notes.append(f"stops {each.seen['stops']}{after}")
    return "; ".join(notes)
