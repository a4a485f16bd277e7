"""A finished trial's capture on disk, so that it can be inspected, proved again and replayed.

A folder holds two files. ``calls.jsonl`` begins with a header (format, splits, lost generations, what it was made
with, the text of every id that occurs) and has one line a call: what was asked beyond what its segment held, the reply,
and where its tokens are. ``tokens.npz`` holds the arrays: per segment ``prompt_ids, response_ids, response_mask,
logprobs, versions, routes`` as ``<name>_<index>``, and of all calls in order ``call_ids, call_logprobs,
call_versions``. Those of a run's old steps may be in a file a step instead: see ``token_table``.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from lego_verl.capture.call import Call, Sample
from lego_verl.capture.fingerprint import fingerprint
from lego_verl.capture.message import Message, Tool, ToolCall
from lego_verl.capture.proof import Lost, Proof, prove
from lego_verl.capture.render import Renderer
from lego_verl.capture.segment import TrainingSegment
from lego_verl.capture.session import Asked, SessionCapture
from lego_verl.capture.split import Split
from lego_verl.capture.token_table import read_arrays, table_of

FORMAT = 1
_ARRAYS = ("prompt_ids", "response_ids", "response_mask", "logprobs", "versions")


class RecordingError(ValueError):
    """A recording that cannot be read; the message names the file."""


@dataclass(frozen=True)
class Token:
    """One token of a segment, for people."""

    position: int
    id: int
    text: str
    call: int | None
    """The call that sampled it; None for context."""
    version: int | None
    logprob: float | None
    trained: bool


@dataclass(frozen=True)
class Recording:
    calls: list[Call]
    asked: list[Asked]
    replies: list[Message]
    segments: list[TrainingSegment]
    """Those that are trained; a segment's ``index`` counts all."""
    splits: list[Split]
    lost: list[Lost]
    pieces: dict[int, str]
    """The text of every id that occurs."""
    made_with: Mapping[str, Any] = field(default_factory=dict)
    """``renderer`` (its fingerprint), ``eos_ids``, ``reasoning_open``, ``parser``, ``reasoning``, ``untrained``; empty
    where the recording does not say."""

    def proof(self) -> Proof:
        return prove(self.segments, self.calls, self.splits, self.lost)

    def tokens(self, segment: TrainingSegment) -> Iterator[Token]:
        """Every token of a segment with where it came from."""
        owner = {
            call.prompt_length + offset: call.index
            for call in self.calls
            if call.segment == segment.index
            for offset in range(len(call.sample.ids))
        }
        prompt = len(segment.prompt_ids)
        for position, token in enumerate(segment.ids.tolist()):
            place = position - prompt
            trained = place >= 0 and bool(segment.response_mask[place])
            yield Token(
                position=position,
                id=token,
                text=self.pieces.get(token, ""),
                call=owner.get(position),
                version=int(segment.versions[place]) if trained else None,
                logprob=float(segment.logprobs[place]) if trained else None,
                trained=trained,
            )


def write_recording(folder: Path, capture: SessionCapture) -> None:
    """Write a capture into ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    segments = capture.segments()
    arrays: dict[str, np.ndarray] = {}
    for segment in segments:
        for name in _ARRAYS:
            arrays[f"{name}_{segment.index}"] = getattr(segment, name)
        if segment.routes is not None:
            arrays[f"routes_{segment.index}"] = segment.routes
    samples = [call.sample for call in capture.calls]
    arrays["call_ids"] = _joined([sample.ids for sample in samples], np.int32)
    arrays["call_logprobs"] = _joined([sample.logprobs for sample in samples], np.float32)
    arrays["call_versions"] = _joined([sample.versions for sample in samples], np.int32)
    known = [arrays["call_ids"], *(segment.ids for segment in segments)]
    unique = np.unique(np.concatenate(known)).tolist()
    header = {
        "format": FORMAT,
        "splits": capture.splits(),
        "segments": [{"index": s.index, "reason": s.reason, "calls": s.calls} for s in segments],
        "lost": [{"reason": loss.reason, "tokens": loss.tokens} for loss in capture.lost],
        "made_with": {
            "renderer": fingerprint(capture.renderer),
            "eos_ids": sorted(capture.renderer.eos_ids),
            "reasoning_open": capture.renderer.reasoning_open,
            "parser": capture.parser.name,
            "reasoning": capture.reasoning,
            "untrained": sorted(capture.untrained),
        },
        "pieces": [[token, _piece(capture.renderer, token)] for token in unique],
    }
    with (folder / "calls.jsonl").open("wb") as file:
        file.write(orjson.dumps(header) + b"\n")
        for call, asked, reply in zip(capture.calls, capture.asked, capture.replies, strict=True):
            file.write(orjson.dumps(_call_line(call, asked, reply)) + b"\n")
    with (folder / "tokens.npz").open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


@lru_cache(maxsize=1 << 16)
def _piece(renderer: Renderer, token: int) -> str:
    """The text of an id. Trials of a run share nearly all of theirs."""
    return renderer.decode([token])


def _joined(parts: Sequence[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate([np.asarray(part, dtype=kind) for part in parts]) if parts else np.empty(0, dtype=kind)


def _call_line(call: Call, asked: Asked, reply: Message) -> dict[str, Any]:
    line: dict[str, Any] = {
        "index": call.index,
        "segment": call.segment,
        "prompt_length": call.prompt_length,
        "prompt_digest": call.prompt_digest.hex(),
        "sampled": len(call.sample.ids),
        "finish": call.sample.finish,
        "seconds": round(call.seconds, 4),
        "text": call.text,
        "reply": _message_line(reply),
        "asked": {
            "kept": asked.kept,
            "messages": [_message_line(message) for message in asked.messages],
            "sampling": dict(asked.sampling),
        },
    }
    if asked.tools is not None:
        line["asked"]["tools"] = list(asked.tools)
    if asked.stop:
        line["asked"]["stop"] = list(asked.stop)
    if asked.origin != "main":
        line["asked"]["origin"] = asked.origin
    if asked.after is not None:
        line["asked"]["after"] = asked.after
    return line


def _message_line(message: Message) -> dict[str, Any]:
    line = {key: value for key, value in message._asdict().items() if value}
    if message.tool_calls:
        line["tool_calls"] = [call._asdict() for call in message.tool_calls]
    return line


def _read_message(line: dict[str, Any]) -> Message:
    calls = tuple(ToolCall(**call) for call in line.get("tool_calls", []))
    return Message(**{**line, "tool_calls": calls})


def read_recording(folder: Path) -> Recording:
    """Read what ``write_recording`` wrote.

    Raises:
        RecordingError: when a file is missing, or is none of ours.
    """
    try:
        lines = [orjson.loads(line) for line in (folder / "calls.jsonl").read_bytes().splitlines()]
        arrays = _arrays(folder)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise RecordingError(f"{folder} holds no readable recording: {error}") from error
    try:
        if lines[0]["format"] != FORMAT:
            raise RecordingError(f"{folder / 'calls.jsonl'} is not a recording of format {FORMAT}")
        return _read(lines[0], lines[1:], arrays)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, RecordingError):
            raise
        raise RecordingError(f"{folder} holds a recording that is not whole: {error!r}") from error


def _arrays(folder: Path) -> dict[str, np.ndarray]:
    """From the trial's own file, or from its step's where old steps were put together."""
    if not (folder / "tokens.npz").exists() and (table := table_of(folder)).exists():
        return read_arrays(table, folder.name)
    with np.load(folder / "tokens.npz") as file:
        return dict(file)


def _read(header: dict[str, Any], lines: Sequence[dict[str, Any]], arrays: dict[str, np.ndarray]) -> Recording:
    calls: list[Call] = []
    offset = 0
    for line in lines:
        here = slice(offset, offset + line["sampled"])
        offset = here.stop
        sample = Sample(
            arrays["call_ids"][here], arrays["call_logprobs"][here], arrays["call_versions"][here], line["finish"]
        )
        digest = bytes.fromhex(line["prompt_digest"])
        places = line["index"], line["segment"], line["prompt_length"]
        calls.append(Call(*places, sample=sample, text=line["text"], seconds=line["seconds"], prompt_digest=digest))
    return Recording(
        calls=calls,
        asked=[_read_asked(line["asked"]) for line in lines],
        replies=[_read_message(line["reply"]) for line in lines],
        segments=[_read_segment(entry, arrays) for entry in header["segments"]],
        splits=[Split(split) for split in header["splits"]],
        lost=[Lost(**loss) for loss in header["lost"]],
        pieces=dict(header["pieces"]),
        made_with=header.get("made_with", {}),
    )


def _read_asked(line: dict[str, Any]) -> Asked:
    tools: Sequence[Tool] | None = line.get("tools")
    messages = tuple(_read_message(message) for message in line["messages"])
    stop, origin = tuple(line.get("stop", ())), line.get("origin", "main")
    return Asked(line["kept"], messages, tools, line["sampling"], stop, origin, line.get("after"))


def _read_segment(entry: dict[str, Any], arrays: dict[str, np.ndarray]) -> TrainingSegment:
    index = entry["index"]
    return TrainingSegment(
        index=index,
        reason=Split(entry["reason"]),
        calls=tuple(entry["calls"]),
        routes=arrays.get(f"routes_{index}"),
        **{name: arrays[f"{name}_{index}"] for name in _ARRAYS},
    )
