"""What happened in a trial, for a person at a terminal."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from lego_verl.capture.message import Message
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import FinishedTrial

_COLOURS = {Treatment.TRAIN: "yellow", Treatment.DROP: "red", Treatment.FLAG: "magenta"}
_VERBS = {Treatment.TRAIN: "use", Treatment.DROP: "drop", Treatment.FLAG: "use and flag"}
_PATCH_LINES = 60


def show_trial(finished: FinishedTrial, console: Console, folder: Path) -> None:
    """Print calls, segments, patch, outcome and proof."""
    record = finished.record
    _calls(finished, console)
    if finished.segments:
        table = Table("segment", "began", "prompt", "trained", "context", title="segments", title_justify="left")
        for segment in finished.segments:
            trained = int(segment.response_mask.sum())
            context = len(segment.response_ids) - trained
            sizes = (len(segment.prompt_ids), trained, context)
            table.add_row(str(segment.index), str(segment.reason), *(str(size) for size in sizes))
        console.print(table)
    if finished.patch:
        lines = finished.patch.decode(errors="replace").splitlines()
        shown = "\n".join(lines[:_PATCH_LINES])
        console.print(Syntax(shown, "diff", background_color="default"))
        if len(lines) > _PATCH_LINES:
            console.print(f"[dim]… {len(lines) - _PATCH_LINES} more lines of the patch[/dim]")
    else:
        console.print("[dim]no patch[/dim]")
    colour = "green" if record.outcome is Outcome.SOLVED else _COLOURS[record.treatment]
    reward = "none" if record.reward is None else f"{record.reward:g}"
    console.print(
        f"outcome  [bold {colour}]{record.outcome}[/] (reward {reward}, training would {_VERBS[record.treatment]} it)"
    )
    if record.error:
        console.print(f"because  {escape(record.error)}", soft_wrap=True)
    console.print(f"proof    {_proof(finished)}", soft_wrap=True)
    parts = ", ".join(f"{name} {value:.2f}" for name, value in record.seconds.items() if value >= 0.005)
    console.print(f"seconds  {parts}", soft_wrap=True)
    console.print(f"folder   {folder}", soft_wrap=True)


def _calls(finished: FinishedTrial, console: Console) -> None:
    session = finished.session
    if session is None or session.capture is None:
        console.print(f"{finished.record.calls} calls, {finished.record.sampled_tokens} sampled tokens")
        return
    table = Table("call", "segment", "prompt", "sampled", "ms", "what it did", title="calls", title_justify="left")
    for call, reply in zip(session.capture.calls, session.capture.replies, strict=True):
        numbers = (call.index, call.segment, call.prompt_length, len(call.sample.ids), round(call.seconds * 1000))
        table.add_row(*(str(number) for number in numbers), escape(_did(reply, max(console.width - 50, 20))))
    console.print(table)


def _did(reply: Message, width: int) -> str:
    """The reply in one line."""
    parts = [reply.text.strip()] if reply.text.strip() else []
    for call in reply.tool_calls:
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            arguments = None
        only = list(arguments.values()) if isinstance(arguments, dict) else []
        parts.append(f"{call.name}: {only[0] if len(only) == 1 else call.arguments}")
    line = " | ".join(parts).replace("\n", " ⏎ ")
    return line if len(line) <= width else line[: width - 1] + "…"


def _proof(finished: FinishedTrial) -> str:
    proof = finished.session.proof() if finished.session else None
    if proof is None or not proof.captured:
        return "[yellow]none: the token ids of this policy are not known, so it can be evaluated but not trained[/]"
    splits = ", ".join(f"{name} {count}" for name, count in proof.splits.items())
    share = f"provenance {proof.provenance:.2%}, context {proof.context:.2%}"
    colour = "green" if proof.holds else "red"
    untrained = f"; not trained: {proof.untrained}" if proof.untrained else ""
    return f"[{colour}]{share}[/] of {proof.loss_tokens} loss tokens; segments began: {splits or 'none'}{untrained}"
