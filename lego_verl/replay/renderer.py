"""The renderer of a recording, found again: by its fingerprint, never by a guess."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.fingerprint import fingerprint
from lego_verl.capture.record import Recording
from lego_verl.capture.render import TemplateRenderer
from lego_verl.capture.template import TemplateError

TEMPLATE = "chat_template.jinja"


class RendererError(ValueError):
    """A tokenizer and a template that cannot be used; one line that says why."""


def renderer_of_files(tokenizer: Path, template: Path | None = None) -> TemplateRenderer:
    """A renderer from ``tokenizer.json`` and a chat template; None: ``chat_template.jinja`` beside it.

    Raises:
        RendererError: when one is missing, or they cannot render append-only.
    """
    template = template or tokenizer.parent / TEMPLATE
    for path in (tokenizer, template):
        if not path.is_file():
            raise RendererError(f"{path}: there is no such file; a tokenizer needs tokenizer.json and a chat template")
    try:
        # ``tokenizers`` raises a bare Exception for a file that is none of its own.
        read = Tokenizer.from_file(str(tokenizer))
    except Exception as error:
        raise RendererError(f"{tokenizer} is no tokenizer: {error}") from error
    try:
        return TemplateRenderer(read, template.read_text(encoding="utf-8"), name=template.name)
    except (TemplateError, UnicodeDecodeError) as error:
        raise RendererError(f"{template}: {error}") from error


def renderer_of(recording: Recording, folder: Path, given: TemplateRenderer | None = None) -> TemplateRenderer | None:
    """The renderer that a recording was made with, or None when it is not known.

    Args:
        folder: where the recording lies; in a run, the policy's own tokenizer lies beside the trials.
        given: one that a person says is it.

    Raises:
        RendererError: when ``given`` is not it.
    """
    wanted = recording.made_with.get("renderer")
    if given is not None:
        if wanted is not None and fingerprint(given) != wanted:
            raise RendererError(f"{folder} was rendered with another tokenizer or template than these files")
        return _as_recorded(given, recording)
    if wanted is None:
        return None
    for candidate in (byte_renderer(), _of_run(folder)):
        if candidate is not None and fingerprint(candidate) == wanted:
            return _as_recorded(candidate, recording)
    return None


def _of_run(folder: Path) -> TemplateRenderer | None:
    """Of ``<run>/policy``, where ``folder`` is ``<run>/trials/<step>/<trial>``."""
    parents = folder.resolve().parents
    tokenizer = parents[2] / "policy" / "tokenizer.json" if len(parents) > 2 else None
    if tokenizer is None or not tokenizer.is_file():
        return None
    try:
        return renderer_of_files(tokenizer)
    except RendererError:  # a run's policy may have a template that only verl's builders can continue
        return None


def _as_recorded(renderer: TemplateRenderer, recording: Recording) -> TemplateRenderer:
    if "eos_ids" in recording.made_with:
        renderer.eos_ids = frozenset(recording.made_with["eos_ids"])
    return renderer
