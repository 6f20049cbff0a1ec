"""Plain tensors of a replica whose layout may change: each of its processes has the same of them. One that the processes divide by
hand has another value in each, and would be replaced by one process's part. A few elements of each parameter tell the two apart.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import torch

from ._named import Modules
from ._state import StateError, is_divided

_ELEMENTS = 32    # of a parameter, evenly spaced
_DRIFT = 0.01     # of the largest: what sums in another order, in bfloat16, may have added up to

Sample = Dict[str, List[float]]  # by OBJECT.NAME


def sample_of(objects: Dict[str, Any]) -> Sample:
    """Elements of the parameters that this process has whole. One copy from the device."""
    names: List[str] = []
    parts: List[torch.Tensor] = []
    for one in objects.values():
        for name, parameter in one.parameters() if isinstance(one, Modules) else ():
            if not is_divided(parameter) and parameter.numel() and parameter.is_floating_point():
                flat = parameter.detach().reshape(-1)
                names.append(name)
                parts.append(flat[::max(1, flat.numel() // _ELEMENTS)][:_ELEMENTS].double())
    devices = {part.device for part in parts}
    together = torch.cat([part if len(devices) == 1 else part.cpu() for part in parts]).tolist() if parts else []
    made, at = {}, 0
    for name, part in zip(names, parts):
        made[name] = together[at:at + part.numel()]
        at += part.numel()
    return made


def check_alike(samples: "Sequence[Optional[Sample]]") -> None:
    """samples: of the processes of one replica. Raises StateError where two of them have other values of one name."""
    first: Sample = {}
    for sample in samples:
        for name, values in (sample or {}).items():
            known = first.setdefault(name, values)
            if known is not values and len(known) == len(values) and not _close(known, values):
                raise StateError(f"{name}: the processes of one replica have different values of it; a tensor that they divide must be a "
                                 "DTensor, and one that they do not divide must begin with the same values (seed the model alike), or use unit=")


def _close(one: List[float], other: List[float]) -> bool:
    largest = max(abs(value) for value in one + other)
    # A comparison with NaN is false: a model that has diverged is no sign of a divided tensor.
    return not any(abs(a - b) > _DRIFT * largest for a, b in zip(one, other))
