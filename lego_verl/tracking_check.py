"""Whether the loggers that a recipe names are there, before anything is loaded."""

from __future__ import annotations

import importlib.util

from omegaconf import DictConfig

from lego_verl.config import ConfigError

_PACKAGES = {"wandb": "wandb", "tensorboard": "tensorboard", "mlflow": "mlflow", "swanlab": "swanlab"}


def check_loggers(config: DictConfig) -> None:
    """Of ``trainer.logger``.

    Raises:
        ConfigError: naming the package that is missing.
    """
    named = config.trainer.logger
    for name in [named] if isinstance(named, str) else named:
        package = _PACKAGES.get(str(name))
        if package is not None and importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"trainer.logger names {name}, and the package {package} is not installed: pip install {package}, or "
                f"leave {name} out"
            )
