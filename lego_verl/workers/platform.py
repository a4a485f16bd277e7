"""verl on a machine without an accelerator: a platform named ``cpu``.

Registered with verl's own ``PlatformRegistry`` (verl/plugin/platform/platform_manager.py) and chosen by
``VERL_PLATFORM=cpu``; it never offers itself on a machine that has an accelerator.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
import torch.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


class _CPUDeviceModule(types.ModuleType):
    """``torch.cpu`` with the calls of ``torch.cuda`` that verl makes on its device module."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> torch.device:
        # An index would make torch build "cuda:0"-like strings; FSDP2 takes the bare device.
        return torch.device("cpu")

    def set_device(self, *_: Any) -> None: ...

    def synchronize(self, *_: Any) -> None: ...

    def empty_cache(self) -> None: ...

    def reset_peak_memory_stats(self, *_: Any) -> None: ...

    def memory_allocated(self, *_: Any) -> int:
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    def mem_get_info(self, *_: Any) -> tuple[int, int]:
        """(free, total) bytes of the machine's memory."""
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_device_name(self, *_: Any) -> str:
        return "cpu"

    def get_rng_state(self, *_: Any) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, *_: Any) -> None:
        torch.set_rng_state(state)

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """One logical device a process, gloo between processes."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _CPUDeviceModule("lego_verl_cpu_device")

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False  # only by VERL_PLATFORM=cpu, never found by itself

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        # Ray has to place verl's workers on something: the recipe gives it logical GPUs.
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def accept_gloo_alone() -> None:
    """Let verl start a process group on the CPU.

    verl/utils/distributed.py joins ``cpu:gloo`` and the device's backend; on this platform both are the
    same, and torch refuses the pair. The only place where verl or torch is patched.
    """
    original = torch.distributed.init_process_group
    if getattr(original, "accepts_gloo_alone", False):
        return

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        return original("cpu:gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    init_process_group.accepts_gloo_alone = True  # type: ignore[attr-defined]
    torch.distributed.init_process_group = init_process_group
