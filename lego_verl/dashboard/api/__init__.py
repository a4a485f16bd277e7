"""The JSON behind the page: one router a view, thin over ``lego_verl.monitor.queries``. See ``lego_verl.dashboard``."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from fastapi import APIRouter


def routers() -> list[APIRouter]:
    """The ``router`` of every module of this package that has one."""
    modules = (import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__))
    return [module.router for module in modules if hasattr(module, "router")]
