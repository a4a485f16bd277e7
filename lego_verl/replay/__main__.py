"""``python -m lego_verl.replay TRIAL``: the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lego_verl.capture.record import RecordingError, read_recording
from lego_verl.replay.derive import Derivation, derive, proof_problems
from lego_verl.replay.renderer import RendererError, renderer_of, renderer_of_files
from lego_verl.replay.show import show_derivation
from lego_verl.serve.__main__ import main as serve_main

_EPILOG = """\
Without --serve no harness is needed: every recorded request goes through a fresh capture, the recorded samples are
committed to it, and segments and proof must come out as they were recorded, id for id. Prompts are rendered again
where the tokenizer is known (a script's always is, a run's where its folder is there); else they are held against
the digests of what was sent. A recording that was changed everywhere alike is not seen through.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0: as recorded, 1: different, 2: nothing that can be replayed)."""
    parser = argparse.ArgumentParser("lego_verl.replay", description="Replay a recorded trial.", epilog=_EPILOG)
    parser.add_argument("trial", type=Path, help="a trial's folder: calls.jsonl and tokens.npz")
    parser.add_argument("--tokenizer", type=Path, help="the tokenizer.json that the trial was rendered with")
    parser.add_argument("--template", type=Path, help="its chat template; default: chat_template.jinja beside it")
    parser.add_argument("--serve", action="store_true", help="serve the recorded replies to a live harness")
    parser.add_argument("settings", nargs="*", help="with --serve: KEY=VALUE for lego_verl.serve (port=0 out=FOLDER)")
    given = parser.parse_intermixed_args(arguments)
    if given.serve:
        files = [("tokenizer", given.tokenizer), ("template", given.template)]
        policy = [f"policy.{name}={quoted(path)}" for name, path in files if path is not None]
        recording = f"policy.recording={quoted(given.trial)}"
        return serve_main(["policy=replay", recording, *policy, *given.settings])
    try:
        if given.settings:
            raise RecordingError(f"{given.settings[0]}: settings are for --serve")
        derivation = derived(given.trial, given.tokenizer, given.template)
    except (RecordingError, RendererError) as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 2
    show_derivation(derivation, Console(highlight=False), given.trial)
    return 0 if derivation.equal else 1


def derived(trial: Path, tokenizer: Path | None = None, template: Path | None = None) -> Derivation:
    """Derive a trial's folder again, and hold the proof against its record where there is one.

    Raises:
        RecordingError: when the folder holds no recording, or a record that is none.
        RendererError: when the tokenizer and template are not those of the recording.
    """
    if template and not tokenizer:
        raise RendererError("--template needs --tokenizer, the tokenizer.json that belongs to it")
    recording = read_recording(trial)
    given = renderer_of_files(tokenizer, template) if tokenizer else None
    derivation = derive(recording, renderer_of(recording, trial, given))
    record = trial / "trial.json"
    if record.is_file() and derivation.proof is not None:
        try:
            derivation.problems.extend(proof_problems(derivation.proof, json.loads(record.read_text())["proof"]))
        except (ValueError, LookupError, TypeError) as error:
            raise RecordingError(f"{record} is no trial's record: {error!r}") from error
    return derivation


def quoted(path: Path) -> str:
    """A path as a value on Hydra's command line."""
    return "'" + str(path).replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    sys.exit(main())
