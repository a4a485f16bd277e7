"""What a replay found, for a person at a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lego_verl.replay.derive import Derivation

_SHOWN = 20
"""Lines of problems that are printed."""
_EQUAL, _DIFFERENT, _UNKNOWN = "[green]equal[/]", "[red]different[/]", "[dim]not recorded[/]"


def show_derivation(derivation: Derivation, console: Console, folder: Path) -> None:
    """Print the calls, what was not as recorded, and the proof."""
    table = Table("call", "segment", "prompt", "sampled", "prompt ids", "reply", title="calls", title_justify="left")
    for call in derivation.calls:
        numbers = (call.index, call.segment, call.prompt_length, call.sampled)
        table.add_row(*(str(number) for number in numbers), _verdict(call.prompt), _verdict(call.reply))
    console.print(table)
    console.print(f"prompts  {_prompts(derivation)}", soft_wrap=True)
    replies = (
        "read again from what was sampled" if derivation.parsed else "the recorded ones: their parser is not known"
    )
    console.print(f"replies  {replies}", soft_wrap=True)
    for problem in derivation.problems[:_SHOWN]:
        console.print(f"[red]differs[/]  {escape(problem)}", soft_wrap=True)
    if len(derivation.problems) > _SHOWN:
        console.print(f"[red]differs[/]  … and {len(derivation.problems) - _SHOWN} more")
    proof = derivation.proof
    if proof is not None:
        share = f"provenance {proof.provenance:.2%}, context {proof.context:.2%} of {proof.loss_tokens} loss tokens"
        console.print(f"proof    {share}, {proof.segments} segments", soft_wrap=True)
    if derivation.equal:
        console.print("[bold green]equal[/]    segments and proof came out as they were recorded, id for id")
    else:
        console.print(f"[bold red]different[/] {len(derivation.problems)} things are not as recorded in {folder}")


def _prompts(derivation: Derivation) -> str:
    if derivation.rendered:
        return "rendered again from the messages"
    unknown = sum(call.prompt is None for call in derivation.calls)
    line = "held against the digests of what was sent; what rendered them is not known here (give --tokenizer)"
    return line + (f"; {unknown} of untrained segments are not recorded" if unknown else "")


def _verdict(equal: bool | None) -> str:
    return _UNKNOWN if equal is None else _EQUAL if equal else _DIFFERENT
