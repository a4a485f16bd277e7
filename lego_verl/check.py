"""``python -m lego_verl.check [the arguments of lego_verl.main]``: is this a recipe that can run?

Composes it, checks the types of its ``lego`` part, and has verl build its own typed configurations and run its
own validation. Loads no weights, starts nothing.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from omegaconf import DictConfig

from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, typed
from lego_verl.consistency import check_consistency

_TYPED_PARTS = ("actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm")


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        config = compose_recipe(arguments)
        lego = typed(config)
        check_consistency(config, lego)
        verl_accepts(config)
    except ConfigError as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 2
    print(
        f"this recipe composes and verl accepts it: {lego.harness.name} in sandbox {lego.sandbox.backend}, policy "
        f"{lego.policy.model or lego.policy.kind}, {config.trainer.nnodes} x {config.trainer.n_gpus_per_node} "
        f"{config.trainer.device}, rollout {config.actor_rollout_ref.rollout.name}, {config.data.train_batch_size} "
        f"tasks x {config.actor_rollout_ref.rollout.n} trials a step"
    )
    return 0


def verl_accepts(config: DictConfig) -> None:
    """Have verl check a recipe.

    Raises:
        ConfigError: with what verl says.
    """
    # On a machine without a GPU verl would look for one, loudly.
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    warnings.filterwarnings("ignore", message="Disabled critic")
    from hydra.errors import InstantiationException
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    try:
        for part in _TYPED_PARTS:
            omega_conf_to_dataclass(OmegaConf.select(config, part))
        validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=False)
        if need_critic(config):
            # Without its model, which verl would open: it may be made later, or be far away.
            critic = OmegaConf.to_container(config.critic, resolve=True)
            assert isinstance(critic, dict)
            del critic["model"]
            processes = config.trainer.n_gpus_per_node * config.trainer.nnodes
            omega_conf_to_dataclass(OmegaConf.create(critic)).validate(processes, config.data.train_batch_size)
    except (AssertionError, ValueError, TypeError, KeyError, AttributeError, InstantiationException) as error:
        cause = error.__cause__ if isinstance(error, InstantiationException) and error.__cause__ else error
        message = str(cause).strip().splitlines()
        raise ConfigError(f"verl does not accept this recipe: {message[0] if message else error!r}") from error


if __name__ == "__main__":
    sys.exit(main())
