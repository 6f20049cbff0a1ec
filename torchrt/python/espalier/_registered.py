"""What run.register() was given: modules under their wrappers, and whether their gradients are averaged."""
from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._state import StateError, is_divided


def wrappers_of(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The module, what it wraps, and so on, to the script's own. torch.compile() wraps one in an OptimizedModule, which has it as _orig_mod."""
    while True:
        yield module
        inner = module.module if isinstance(module, DistributedDataParallel) else module._modules.get("_orig_mod")
        if inner is None:
            return
        module = inner


def unwrapped(module: Any) -> Any:
    """The script's own module: wrappers differ from generation to generation, and have names of parameters that are not the state's."""
    return list(wrappers_of(module))[-1] if isinstance(module, torch.nn.Module) else module


def averaging(module: torch.nn.Module) -> List[DistributedDataParallel]:
    """Those of its wrappers that average gradients."""
    return [one for one in wrappers_of(module) if isinstance(one, DistributedDataParallel)]


def innermost(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Libraries wrap an optimizer in an object of the same class that has none of its parts."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer  # type: ignore[attr-defined]
    return optimizer


class Registered:
    """The registered objects by kind."""

    def __init__(self, objects: Dict[str, Any]) -> None:
        """objects: by name, each one or a list of them."""
        self.all: List[Tuple[str, Any]] = []
        for name, one in objects.items():
            self.all += [(name, part) for part in (one if isinstance(one, (list, tuple)) else [one])]
        self.modules = [(name, one) for name, one in self.all if isinstance(one, torch.nn.Module)]
        self.optimizers = [one for _, one in self.all if isinstance(one, torch.optim.Optimizer)]
        self.is_divided = any(is_divided(p) for _, one in self.modules for p in one.parameters())
        self.gpu: Optional[torch.device] = next((p.device for _, one in self.modules for p in one.parameters() if p.is_cuda), None)

    def check(self, replicas: int) -> None:
        """Raises StateError where nobody would average gradients, or they could not be kept."""
        trained = self._trained()
        for name, one in self.modules:
            _check_not_hidden(name, one)
            if replicas > 1 and any(p.requires_grad and (trained is None or id(p) in trained) for p in one.parameters()):
                _check_averaged(name, one, replicas)

    def _trained(self) -> Any:
        """Identities of the parameters that optimizers step. A moving average of a model has others, which get no gradients. None: no
        registered object tells its parameters, or those are of no registered module, as where an optimizer has master copies of them."""
        groups = [group for _, one in self.all for group in getattr(one, "param_groups", None) or ()]
        trained = {id(parameter) for group in groups for parameter in group["params"]}
        return trained if any(id(parameter) in trained for _, one in self.modules for parameter in one.parameters()) else None


def _check_not_hidden(name: str, module: torch.nn.Module) -> None:
    """Raises StateError where torch has replaced divided tensors by others of its own, which no state_dict() has after a step."""
    if any(hasattr(parameter, "_st_info") for parameter in module.parameters()):
        raise StateError(f"run.register({name}=...): DistributedDataParallel(device_mesh=...) takes the tensors that are divided out of the "
                         'model, and they could not be kept; use fully_shard(module, mesh=...["dp"]) instead')


def _check_averaged(name: str, module: torch.nn.Module, replicas: int) -> None:
    """Raises StateError where nobody averages the gradients over the replicas."""
    for wrapper in averaging(module):
        size = dist.get_world_size(wrapper.process_group)
        if size % replicas:
            raise StateError(f"run.register({name}=...): its process group has {size} processes, and there are {replicas} replicas; "
                             'DistributedDataParallel needs process_group=run.plan.mesh(...)["dp"].get_group()')
    if not averaging(module) and not any(hasattr(part, "set_requires_gradient_sync") for part in module.modules()):
        raise StateError(f"run.register({name}=...): wrap the module in DistributedDataParallel or by fully_shard(), and "
                         "register that")
