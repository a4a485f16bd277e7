"""Capture reports for a terminal: of a run, of a trial, of its tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lego_verl.capture.proof import Proof
from lego_verl.capture.record import Recording
from lego_verl.proof.read import StepProof


def show_run(steps: Sequence[StepProof], console: Console, title: str) -> None:
    """One row a step."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1), title=title, title_justify="left")
    words = ("split", "began", "untrained")
    for name in (
        *("step", "split", "trials", "dropped", "calls", "segments", "began"),
        *("sampled", "loss", "untrained", "provenance", "context"),
    ):
        # Where there is no room, it is the counts by reason that take more lines, never a number that is cut.
        counts = name in ("began", "untrained")
        table.add_column(name, justify="left" if name in words else "right", no_wrap=not counts, overflow="fold")
    for step in steps:
        table.add_row(
            *(str(step.step), step.split, str(step.trials), str(step.dropped), str(step.calls), str(step.segments)),
            *(_counts(step.splits), str(step.sampled_tokens), str(step.loss_tokens), _counts(step.untrained)),
            *(_share(step.provenance), _share(step.context)),
        )
    console.print(table)


def show_trial(recording: Recording, console: Console, *, title: str) -> None:
    """Calls, segments and proof of one trial."""
    table = Table("call", "segment", "prompt", "sampled", "finish", "versions", "reply", title=title)
    table.title_justify = "left"
    for call, reply in zip(recording.calls, recording.replies, strict=True):
        did = " ".join([reply.text.strip(), *(f"{each.name} {each.arguments}" for each in reply.tool_calls)]).strip()
        numbers = (call.index, call.segment, call.prompt_length, len(call.sample.ids))
        versions = sorted(set(call.sample.versions.tolist()))
        shown = _short(did, max(console.width - 62, 16))
        table.add_row(*map(str, numbers), call.sample.finish, ",".join(map(str, versions)), escape(shown))
    console.print(table)
    trained = {segment.index: segment for segment in recording.segments}
    table = Table("segment", "began", "calls", "prompt", "trained", "context", "is trained")
    for index, reason in enumerate(recording.splits):
        calls = sum(call.segment == index for call in recording.calls)
        segment = trained.get(index)
        if segment is None:
            table.add_row(str(index), str(reason), str(calls), "", "0", "", f"[yellow]no: {reason}[/]")
            continue
        loss = int(segment.response_mask.sum())
        sizes = (calls, len(segment.prompt_ids), loss, len(segment.response_ids) - loss)
        table.add_row(str(index), str(reason), *map(str, sizes), "yes")
    console.print(table)
    show_proof(recording.proof(), console)


def show_proof(proof: Proof, console: Console) -> None:
    """A proof in three lines."""
    colour = "green" if proof.holds else "red"
    console.print(
        f"proof      [{colour}]provenance {proof.provenance:.2%}, context {proof.context:.2%}[/] "
        f"of {proof.loss_tokens} loss tokens; {proof.sampled_tokens} sampled in {proof.calls} calls",
        soft_wrap=True,
    )
    console.print(f"segments   {proof.segments}; began: {_counts(proof.splits) or 'none'}", soft_wrap=True)
    console.print(f"untrained  {_counts(proof.untrained) or 'none'}", soft_wrap=True)
    if proof.note:
        console.print(f"note       {escape(proof.note)}", soft_wrap=True)


HEADER = f"{'segment':>7} {'position':>8} {'id':>7}  {'text':<20} {'call':>5} {'version':>7} {'log-prob':>11}  loss"


def token_lines(recording: Recording) -> Iterator[str]:
    """A line for every token of the trial: where it came from, and whether it is trained or why not."""
    segments = {segment.index: segment for segment in recording.segments}
    for index, reason in enumerate(recording.splits):
        if index not in segments:
            yield from _untrained_lines(recording, index, str(reason))
            continue
        for token in recording.tokens(segments[index]):
            # Neither sampled nor trained: what the policy was shown.
            why = "trained" if token.trained else "context" if token.call is None else "unaccounted"
            yield _line(index, token.position, token.id, token.text, token.call, token.version, token.logprob, why)


def _untrained_lines(recording: Recording, segment: int, reason: str) -> Iterator[str]:
    """Of a segment that is not trained only the sampled tokens are recorded."""
    for call in recording.calls:
        if call.segment != segment:
            continue
        sample = call.sample
        values: Iterable[tuple[int, float, int]] = zip(
            sample.ids.tolist(), sample.logprobs.tolist(), sample.versions.tolist(), strict=True
        )
        for offset, (token, logprob, version) in enumerate(values):
            text = recording.pieces.get(token, "")
            yield _line(segment, call.prompt_length + offset, token, text, call.index, version, logprob, reason)


def _line(
    segment: int, position: int, token: int, text: str, call: int | None, version: int | None, logprob: float | None,
    why: str,
) -> str:  # fmt: skip
    shown = _short(repr(text)[1:-1], 20)
    sampled = "" if call is None else str(call)
    at = "" if version is None else str(version)
    value = "" if logprob is None else f"{logprob:.6f}"
    return f"{segment:>7} {position:>8} {token:>7}  {shown:<20} {sampled:>5} {at:>7} {value:>11}  {why}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _share(value: float | None) -> str:
    if value is None:
        return "-"
    return f"[{'green' if value == 1.0 else 'red'}]{value:.2%}[/]"


def _short(text: str, width: int) -> str:
    line = text.replace("\n", " ⏎ ")
    return line if len(line) <= width else line[: width - 1] + "…"
