"""``python -m lego_verl.serve policy=scripted policy.script=FILE``: the command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from omegaconf import OmegaConf

from lego_verl.compose import compose_recipe, show_recipe
from lego_verl.config import CaptureConfig, ConfigError, PolicyConfig, ServeConfig, typed_part
from lego_verl.serve.behind import behind
from lego_verl.serve.run import serve, tell_difference


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0: ended by a signal, 1: it cannot listen, 2: a bad recipe)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if any(argument.startswith("-") for argument in arguments):
        return show_recipe(arguments, "serve")
    try:
        config = compose_recipe(arguments, config_name="serve")
        policy = behind(typed_part(config, "lego.policy", PolicyConfig), told=tell_difference)
        capture = typed_part(config, "lego.capture", CaptureConfig)
        own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "lego"])
        settings = typed_part(own, "", ServeConfig)
        check(settings)
    except ConfigError as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 2
    try:
        asyncio.run(serve(policy, settings, capture))
    except OSError as error:
        print(f"lego_verl: {error.strerror or error} (host={settings.host} port={settings.port})", file=sys.stderr)
        return 1
    return 0


def check(settings: ServeConfig) -> None:
    """Raise ``ConfigError`` for a value that no server can have."""
    if not 0 <= settings.port < 1 << 16:
        raise ConfigError(f"port={settings.port}: a port is a number from 0 (any free one) to 65535")
    if settings.sessions < 1:
        raise ConfigError(f"sessions={settings.sessions}: at least one is needed")


if __name__ == "__main__":
    sys.exit(main())
