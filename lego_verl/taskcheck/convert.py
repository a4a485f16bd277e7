"""``python -m lego_verl.tasks convert``: a dataset in SWE-bench's columns as folders of tasks."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from lego_verl.config import ConfigError, typed_part
from lego_verl.tasks.swebench import swebench_tasks
from lego_verl.tasks.swebench_options import OPTIONS, SwebenchOptions
from lego_verl.tasks.task import TaskError

_USAGE = f"""\
usage: python -m lego_verl.tasks convert source=FILE|FOLDER|OWNER/NAME out=FOLDER [KEY=VALUE ...]

Writes each row of a dataset in SWE-bench's columns (.parquet, .jsonl, .json, swebench 5's folders, or by its name on
the hub) as a task in Harbor's layout, which tasks=harbor reads and `tasks check` examines. FOLDER is replaced.

{textwrap.fill(", ".join(OPTIONS), 110, initial_indent="  ", subsequent_indent="  ")}
      options of the reading; lego_verl/tasks/swebench_options.py says what each is

exit codes: 0 all are written, 2 a row or an argument that cannot be used"""


@dataclass
class ConvertConfig(SwebenchOptions):
    """What the verb takes."""

    source: str | None = None
    out: str | None = None


def convert(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    if not arguments or any(each in ("-h", "--help") for each in arguments):
        print(_USAGE)
        return 0 if arguments else 2
    try:
        given = OmegaConf.from_dotlist(list(arguments))
        assert isinstance(given, DictConfig)
        settings = typed_part(given, "", ConvertConfig)
        if settings.source is None or settings.out is None:
            raise ConfigError("convert takes source=FILE|FOLDER|OWNER/NAME and out=FOLDER")
        options = SwebenchOptions(**{each.name: getattr(settings, each.name) for each in fields(SwebenchOptions)})
        tasks = swebench_tasks(settings.source, Path(settings.out), options)
    except (ConfigError, TaskError) as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"lego_verl: {error.strerror or error}: {error.filename or settings.out}", file=sys.stderr)
        return 1
    print(f"{len(tasks)} tasks in {settings.out}")
    return 0
