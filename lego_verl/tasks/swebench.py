"""Tasks of a dataset in SWE-bench's columns, written as folders in Harbor's layout.

So the rest of the code knows one kind of task. Their ``tests`` hold no ``test.sh``, but what ``sandbox.report``
describes: how the tests are run, the patch that brings them, and the names of those that have to pass. Columns:

- ``instance_id``, ``repo``, ``problem_statement``, ``FAIL_TO_PASS``, ``PASS_TO_PASS`` (lists, or JSON of lists);
- ``patch`` (the reference), ``test_patch``, ``base_commit``, ``version``: may be missing;
- the image: ``image``, ``docker_image`` or ``image_name``, else ``sweb.eval.x86_64.<id>:latest``;
- how tests are run: swebench 5's ``eval_script``, ``log_parser`` and ``eval_type``; or ``install_config`` with
  ``test_cmd`` and ``log_parser`` (SWE-rebench's), or ``test_cmd``; else what is known of the repository, else pytest.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from lego_verl.tasks.harbor import load_tasks
from lego_verl.tasks.harbor_writer import TaskFiles, remove_task, write_task
from lego_verl.tasks.swebench_columns import Columns, encoded
from lego_verl.tasks.swebench_options import SwebenchOptions
from lego_verl.tasks.swebench_rows import read_rows
from lego_verl.tasks.swebench_tests import Scripts, make_scripts, owned_files, split_script
from lego_verl.tasks.task import Task, TaskError
from sandbox.report import EVAL_TYPES, FILE, PATCH, RUN, SETUP

_IMAGE = "sweb.eval.x86_64.{id}:latest"
_IMAGES = ("image", "docker_image", "image_name")
_KEPT = ("repo", "base_commit", "version", "environment_setup_commit", "created_at", "difficulty")
"""Columns that become metadata."""


def swebench_tasks(source: str, folder: Path, options: SwebenchOptions | None = None) -> list[Task]:
    """Write the tasks of ``source`` (see ``read_rows``) to ``folder``, which is replaced, and read them.

    A source that is a folder of tasks in Harbor's layout was converted before: it is read as it is.

    Raises:
        TaskError: naming row and column of what cannot be used.
    """
    options = options or SwebenchOptions()
    if any(Path(source).glob("*/task.toml")):
        tasks = load_tasks(Path(source))
        tasks = tasks if options.only is None else [task for task in tasks if task.name in options.only]
    else:
        made = _made(source, options)
        for old in folder.iterdir() if folder.is_dir() else ():
            remove_task(old)
        for name, files in made.items():
            write_task(folder / name, files)
        tasks = load_tasks(folder) if made else []
    if not tasks:
        raise TaskError(f"{source}: none of {', '.join(options.only or ())} is in it")
    return tasks


def _made(source: str, options: SwebenchOptions) -> dict[str, TaskFiles]:
    made: dict[str, TaskFiles] = {}
    places: dict[str, str] = {}
    for where, row in read_rows(source, options.split):
        columns = Columns(where, row)
        if options.only is not None and columns.id not in options.only:
            continue
        if columns.id in made:
            raise columns.wrong("instance_id", f"it is that of {places[columns.id]} as well")
        made[columns.id], places[columns.id] = task_files(columns, options), where
    return made


def task_files(columns: Columns, options: SwebenchOptions) -> TaskFiles:
    """One row as a task.

    Raises:
        TaskError: naming row and column.
    """
    fail_to_pass, pass_to_pass = columns.names("FAIL_TO_PASS"), columns.names("PASS_TO_PASS", default=[])
    if not fail_to_pass:
        raise columns.wrong("FAIL_TO_PASS", "it is empty: nothing would tell a solution")
    if any(columns.mapping("image_assets").values()):
        raise columns.wrong("image_assets", "tests with files from the web are not read")
    eval_type = columns.text("eval_type", default="")
    if eval_type not in EVAL_TYPES:
        raise columns.wrong("eval_type", f"{eval_type!r} is neither {' nor '.join(EVAL_TYPES[1:])}")
    reference, test_patch = columns.patch("patch"), columns.patch("test_patch")
    owned = owned_files([*fail_to_pass, *pass_to_pass], reference)
    scripts = _scripts(columns, test_patch, owned, options)
    report = {
        "repo": columns.text("repo"),
        "version": columns.text("version", default=""),
        "parser": _parser(columns, options),
        "eval_type": eval_type,
        "FAIL_TO_PASS": fail_to_pass,
        "PASS_TO_PASS": pass_to_pass,
        "owned": owned,
    }
    dockerfile = columns.text("dockerfile", default="")
    if options.build and not dockerfile:
        raise columns.wrong("dockerfile", "is missing; without options.build=true the image is got by its name")
    return TaskFiles(
        instruction=columns.text("problem_statement"),
        environment={"Dockerfile": encoded(dockerfile)} if dockerfile else {},
        tests={
            FILE: json.dumps(report, indent=1).encode(),
            SETUP: encoded(scripts.setup),
            RUN: encoded(scripts.run),
            PATCH: test_patch,
        },
        solution={"reference.patch": reference, "solve.sh": _solve(options.workdir)} if reference else {},
        image=None if options.build else _image(columns, options),
        workdir=options.workdir,
        metadata=columns.kept(_KEPT),
        agent_timeout=options.agent_timeout,
        verifier_timeout=options.verifier_timeout,
        memory_mb=options.memory_mb,
        storage_mb=options.storage_mb,
    )


def _solve(workdir: str) -> bytes:
    return f"#!/bin/sh\nset -e\ncd {shlex.quote(workdir)}\ngit apply /solution/reference.patch\n".encode()


def _scripts(columns: Columns, test_patch: bytes, owned: list[str], options: SwebenchOptions) -> Scripts:
    script = columns.text("eval_script", default="")
    if script.strip() and options.test_command is None:
        try:
            scripts = split_script(script)
        except ValueError as error:
            raise columns.wrong("eval_script", str(error)) from None
        return Scripts(f"{scripts.setup}{options.setup}\n" if options.setup else scripts.setup, scripts.run)
    command = options.test_command or columns.mapping("install_config").get("test_cmd")
    if isinstance(command, list) and all(isinstance(each, str) for each in command):
        command = "\n".join(command)
    if command and not isinstance(command, str):
        raise columns.wrong("install_config", f"test_cmd is {command!r:.60}, not a command")
    command = command or columns.text("test_cmd", default="")
    if not owned and not test_patch and "{files}" not in command:
        raise columns.wrong("test_patch", "it is empty, and the tests' names tell no file: nothing says what to run")
    repo, version = columns.text("repo"), columns.text("version", default="")
    return make_scripts(repo, version, options.workdir, test_patch, owned, command, options.setup)


def _parser(columns: Columns, options: SwebenchOptions) -> str:
    name = options.log_parser or columns.text("log_parser", default="")
    name = name or columns.mapping("install_config").get("log_parser") or ""
    if not isinstance(name, str) or not re.fullmatch(r"\w*", name):
        raise columns.wrong("log_parser", f"{name!r:.60} is not the name of a parser")
    return f"parse_log_{name}" if name and not name.startswith("parse_log_") else name


def _image(columns: Columns, options: SwebenchOptions) -> str:
    if options.image is None:
        for column in _IMAGES:
            said = columns.text(column, default="")
            if said:
                return said
    name = columns.id.lower().replace("__", options.image_dunder)
    return (options.image or _IMAGE).replace("{id}", name)
