"""What processes of a group tell each other: JSON in tensors of bytes.

Not torch's functions for objects, which unpickle what comes. The connections of a process group know nobody, and a pickle runs what it
likes as the user who reads it.
"""
from __future__ import annotations

import json
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from ._state import StateError

_MOST = 1 << 30  # bytes that one process receives in one exchange


def _bytes_of(value: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _value_of(data: torch.Tensor, teller: int) -> Any:
    try:
        return json.loads(data.numpy().tobytes())
    except (ValueError, RecursionError) as error:  # of which the errors of encodings are
        raise StateError(f"what process {teller} of the group told is no JSON: {error}") from None


def _within(size: int, count: int) -> None:
    if not 0 < size <= _MOST // count:
        raise StateError(f"a process of the group tells {size} bytes, and each of {count} may tell from 1 to {_MOST // count}")


def gathered(value: Any, group: "Optional[dist.ProcessGroup]") -> List[Any]:
    """What each process told, by rank: as JSON has it, so tuples come as lists. Collective. Raises StateError, on all processes where one
    tells too much."""
    if group is None:
        return [json.loads(json.dumps(value))]
    mine, world = _bytes_of(value), dist.get_world_size(group)
    sizes = [torch.zeros(1, dtype=torch.int64, device="cpu") for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([mine.numel()], device="cpu"), group=group)
    lengths = [int(one) for one in sizes]
    for length in (min(lengths), max(lengths)):
        _within(length, world)
    rooms = [torch.zeros(max(lengths), dtype=torch.uint8, device="cpu") for _ in range(world)]
    padded = torch.zeros(max(lengths), dtype=torch.uint8, device="cpu")
    padded[:mine.numel()] = mine
    dist.all_gather(rooms, padded, group=group)
    return [_value_of(room[:length], teller) for teller, (room, length) in enumerate(zip(rooms, lengths))]


def told_by(teller: int, value: Any, group: "Optional[dist.ProcessGroup]") -> Any:
    """The value of one process of the group, as JSON has it; the others' is not looked at. Collective. Raises StateError as gathered()."""
    if group is None:
        return json.loads(json.dumps(value))
    mine = _bytes_of(value) if dist.get_rank(group) == teller else None
    size = torch.tensor([0 if mine is None else mine.numel()], device="cpu")
    dist.broadcast(size, group=group, group_src=teller)
    _within(int(size), 1)
    data = torch.zeros(int(size), dtype=torch.uint8, device="cpu") if mine is None else mine
    dist.broadcast(data, group=group, group_src=teller)
    return _value_of(data, teller)
