"""Random numbers that follow from what is computed, not from who computes it: the generators of torch, of `random` and of numpy.

Nothing here imports torch when it is imported: join() comes before torch.
"""
from __future__ import annotations

import random
import sys
from typing import Any, Callable, Iterable, List, Tuple

_MASK = 0x7FFFFFFFFFFFFFFF


_torch: Any = None
_devices: List[Any] = []  # kinds of devices with generators of their own


def seed_step(seed: int, step: int, sample: int) -> None:
    """All random numbers of this process follow from the step and its first sample, so that a resumed step draws the same
    ones on the same slices."""
    global _torch
    if _torch is None:
        import torch
        _torch = torch
        _devices[:] = [one for one in (torch.cuda, getattr(torch, "xpu", None)) if one is not None]
    value = (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + sample * 0x94D049BB133111EB) & _MASK
    for device in _devices:
        if device.is_initialized():
            device.manual_seed_all(value)
    _seed_host(_torch, value)


def _seed_host(torch: Any, value: int) -> None:
    # Not torch.manual_seed(): where CUDA is not in use it writes down the caller's stack each time, which takes ten times as long as all the rest.
    torch.default_generator.manual_seed(value)
    random.seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value & 0xFFFFFFFF)


def seed_worker(_: int, rank: int, generation: int) -> None:
    """In a worker process of a DataLoader: other random numbers than in those of other ranks and generations. torch seeds it by a number that the
    script's generator gives, which is the same in all of them where the script has seeded that alike."""
    import torch

    _seed_host(torch, (torch.initial_seed() + rank * 0x9E3779B97F4A7C15 + generation * 0xBF58476D1CE4E5B9) & _MASK)


def by_sample(seed: int, samples: Iterable[Tuple[int, Any]], element: Callable[[Any], Any]) -> List[Any]:
    """element(index) of each (number, index). What it draws on the CPU follows from the seed and the sample's number alone. The
    generators are afterwards as before."""
    import torch

    numpy = sys.modules.get("numpy")
    before = torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.random.get_state(legacy=False)
    made = []
    try:
        for number, index in samples:
            # The low 32 bits, of which torch and numpy use no more, differ for 2**32 samples.
            _seed_host(torch, (seed * 0x9E3779B97F4A7C15 + number * 0xBF58476D1CE4E5B9) & _MASK)
            made.append(element(index))
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        if numpy is not None:
            numpy.random.set_state(before[2])
    return made
