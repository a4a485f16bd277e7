"""``python -m lego_verl.main``: compose a recipe, check it, prepare what it needs, hand it to verl, show what happens.

This process imports neither verl nor torch: it composes in a second, stops on a bad recipe at once, and stays
small while verl's processes work.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console

from lego_verl.compose import compose_recipe, show_recipe
from lego_verl.config import ConfigError, LegoConfig, typed
from lego_verl.consistency import check_consistency
from lego_verl.model_check import check_model_folder
from lego_verl.monitor.clock_watch import ClockWatch
from lego_verl.monitor.display import Display, summary
from lego_verl.monitor.memory import PeakMemory
from lego_verl.monitor.run_folder import RunFolder, keep_steps_up_to
from lego_verl.monitor.trained_tokens import forget_trained_after
from lego_verl.monitor.view import RunView
from lego_verl.prepare import PrepareError, prepare
from lego_verl.training_process import TrainingProcess, clear_dead_runs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0 trained, 1 failed, 2 a bad recipe, 130 interrupted)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    console = Console(stderr=False, highlight=False)
    if any(argument.startswith("-") for argument in arguments):
        return show_recipe(arguments)
    try:
        config = compose_recipe(arguments)
        lego = typed(config)
        check_consistency(config, lego)
        run = open_run(config, lego)
    except ConfigError as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return train(config, lego, run, console)
    except (ConfigError, PrepareError) as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 1
    except OSError as error:  # a disk that is full, a folder that may not be written
        print(f"lego_verl: {error.strerror or error}: {error.filename or run.path}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        console.print(
            f"interrupted; nothing of it is running any more. To go on: the same command with lego.run.name={run.name}"
        )
        return 130


def open_run(config: DictConfig, lego: LegoConfig) -> RunFolder:
    """Name the run, make its folder, and write the name back into the recipe.

    Raises:
        ConfigError: for a name that is none, or a folder that cannot be made.
    """
    name = lego.run.name or f"{lego.harness.name}-{lego.policy.kind}-{time.strftime('%Y%m%d-%H%M%S')}"
    if "/" in name or name in ("", ".", ".."):
        raise ConfigError(f"lego.run.name={name}: a name is the name of a folder, without '/'")
    lego.run.name = name
    lego.run.folder = str(Path(lego.run.folder).resolve())
    run = RunFolder(Path(lego.run.folder) / name)
    try:
        run.create()
    except OSError as error:
        raise ConfigError(f"lego.run.folder={lego.run.folder} cannot be used: {error.strerror}") from error
    with open_dict(config):
        config.lego = OmegaConf.structured(lego)
        config.trainer.experiment_name = name
        config.trainer.default_local_dir = str(run.checkpoints)
    return run


def train(config: DictConfig, lego: LegoConfig, run: RunFolder, console: Console) -> int:
    """Prepare and train, showing both; return the exit code."""
    started, memory = time.monotonic(), PeakMemory()
    clear_dead_runs()
    console.print(f"run [bold]{run.path}[/bold]", soft_wrap=True)
    asyncio.run(prepare(config, lego, run, console))
    check_model_folder(config, lego)
    resumed_from = run.last_checkpoint()
    for path in (run.metrics, run.heldout, run.events):
        if path.exists():
            keep_steps_up_to(path, resumed_from)
    forget_trained_after(run, resumed_from)
    if resumed_from:
        console.print(f"resumed after step {resumed_from}")
    OmegaConf.save(config, run.recipe, resolve=True)
    view = RunView(run)
    display = Display(
        view,
        console,
        total_steps=int(config.trainer.total_training_steps or 0),
        trials=int(config.data.train_batch_size) * int(config.actor_rollout_ref.rollout.n),
        style=_style(lego, console),
        clock=ClockWatch(run),
    )
    with TrainingProcess(run, use_cpu=config.trainer.device == "cpu") as process, display:
        while process.running():
            display.refresh()
            memory.sample()
            time.sleep(0.3)
        display.refresh()
    if process.error is not None:
        print(f"lego_verl: {process.error}\n  the whole story: {process.log}", file=sys.stderr)
        return 1
    summary(view, console, seconds=time.monotonic() - started, memory=memory.peak)
    console.print(f"everything of it: {run.path}", soft_wrap=True)
    return 0


def _style(lego: LegoConfig, console: Console) -> str:
    if lego.monitor.display != "auto":
        return lego.monitor.display
    return "live" if console.is_terminal else "lines"


if __name__ == "__main__":
    sys.exit(main())
