"""The training process: verl's own entry, given a prepared run folder.

``python -m lego_verl.workers.train RUN`` is started by ``lego_verl.main``, which shows what happens; what this
process and verl's processes print goes to a file. An error is left, in one line, in ``RUN/error.txt``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.training_process import die_with


def main(folder: str, parent: int) -> int:
    """Train; return the exit code. ``parent`` is the process to die with."""
    die_with(parent)
    run = RunFolder(Path(folder))
    config = OmegaConf.load(run.recipe)
    assert isinstance(config, DictConfig)
    try:
        train(config, run)
    except Exception as error:  # noqa: BLE001
        # The one boundary of this process: whatever ended the run is told to whoever started it.
        with contextlib.suppress(OSError):  # on a full disk; the parent then says so
            (run.path / "error.txt").write_text(one_line(error))
            traceback.print_exc()
        return 1
    return 0


def train(config: DictConfig, run: RunFolder) -> None:
    """Run verl's trainer on a resolved recipe.

    Raises:
        RuntimeError: when verl did not load this project's plug-in.
    """
    import ray
    from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    require_plugin()

    class HarnessTaskRunner(TaskRunnerV1.__ray_actor_class__):  # type: ignore[name-defined, misc]
        """verl's task runner, which first opens the run's ledger and makes the trainer known."""

        def run(self, config: DictConfig) -> None:
            require_plugin()
            from lego_verl.workers import trainer, trainer_async  # noqa: F401
            from lego_verl.workers.run_ledger import ACTOR_NAME, RunLedger

            self.ledger = (
                ray.remote(RunLedger).options(name=ACTOR_NAME, num_cpus=0).remote(str(run.events), store=str(run.store))
            )
            super().run(config)

    if scratch := os.environ.get("LEGO_VERL_SCRATCH"):
        # Ray's sockets need a short path, and what it leaves is removed with the run's scratch folder.
        config.ray_kwargs.ray_init._temp_dir = f"{scratch}/ray"
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    run_ppo(config, task_runner_class=ray.remote(num_cpus=1)(HarnessTaskRunner))


def require_plugin() -> None:
    """verl goes on in silence when a plug-in fails to load: import it, so that its error is seen."""
    from lego_verl.workers import plugin

    if not plugin.LOADED:
        raise RuntimeError("verl did not load the plug-in lego_verl (entry point verl.plugins): reinstall lego_verl")


def one_line(error: BaseException) -> str:
    """What went wrong, without Ray's wrapping.

    Ray carries the remote error as ``cause``; its own text repeats the remote traceback.
    """
    cause: Any = error
    while getattr(cause, "cause", None) is not None and cause.cause is not cause:
        cause = cause.cause
    text = str(cause).strip() or type(cause).__name__
    last = text.splitlines()[-1].strip()
    return last if type(cause).__module__.startswith("lego_verl") else f"{type(cause).__name__}: {last}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
