"""Copies elsewhere of a state that is divided among the processes, so that the loss of a node, or of an extension, loses no part of it."""
from __future__ import annotations

from typing import Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from ._memory import SharedMemory

_CHUNK = 256 << 20  # bytes of one message
_MOST_WARDS = 4  # of one process, while others have room: each takes memory for two copies, and makes snapshots longer.


def keepers_of(nodes: Sequence[str], jobs: Sequence[str]) -> List[str]:
    """By rank: what its snapshots are lost with. That is its node, or, where all are on one node, its Slurm job: what an extension's
    processes keep ends with it."""
    return list(nodes) if len(set(nodes)) > 1 else list(jobs)


def partners_of(nodes: Sequence[str]) -> List[Optional[int]]:
    """By rank: the rank on the next node (keepers_of()) that keeps its copy. None: all are on one. Where each rank of that node keeps copies of
    _MOST_WARDS others already, it is one of the node after it, and so on. Where no rank elsewhere has room, it is the one with the fewest: a state
    of which one part is lost is lost."""
    by_node: Dict[str, List[int]] = {}
    for rank, node in enumerate(nodes):
        by_node.setdefault(node, []).append(rank)
    found: List[Optional[int]] = [None] * len(nodes)
    groups, wards = list(by_node.values()), [0] * len(nodes)
    # The largest node chooses first: fewer ranks are elsewhere for its ranks than for others'.
    for at in sorted(range(len(groups)), key=lambda at: -len(groups[at])) if len(groups) > 1 else ():
        further = 1
        for rank in groups[at]:
            best = min(groups[(at + further) % len(groups)], key=wards.__getitem__)
            while wards[best] >= _MOST_WARDS and further + 1 < len(groups):
                further += 1
                best = min(groups[(at + further) % len(groups)], key=wards.__getitem__)
            if wards[best] >= _MOST_WARDS:
                best = min((one for group in groups if group is not groups[at] for one in group), key=wards.__getitem__)
            found[rank] = best
            wards[best] += 1
    return found


class Partners:
    def __init__(self, nodes: Sequence[str], rank: int, group: "Optional[dist.ProcessGroup]") -> None:
        partners = partners_of(nodes)
        self._rank, self._partner, self._group = rank, partners[rank], group
        self.wards = [other for other, partner in enumerate(partners) if partner == rank]  # whose copies this process keeps

    def exchange(self, memory: Optional[SharedMemory], size: int, into: Callable[[int, int], SharedMemory]) -> Optional[OSError]:
        """Sends the first `size` bytes of the memory to the partner, and receives those of each ward into the memory
        into(ward, bytes). A size of 0: there is nothing to send. Returns the error where there was no memory for some ward: what it sends is
        received all the same, as it waits for that. Collective."""
        if self._partner is None or self._group is None:
            return None
        sizes = [torch.zeros(1, dtype=torch.int64, device="cpu") for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(sizes, torch.tensor([size], device="cpu"), group=self._group)
        works, problem = [], None
        if memory is not None:
            for first in range(0, size, _CHUNK):
                works.append(dist.isend(self._bytes(memory, first, size), self._partner, group=self._group, tag=self._rank))
        for ward in self.wards:
            theirs = int(sizes[ward])
            room: Optional[SharedMemory] = None
            if theirs:
                try:
                    room = into(ward, theirs)
                except OSError as error:
                    problem = error
            for first in range(0, theirs, _CHUNK):
                piece = self._bytes(room, first, theirs) if room else torch.empty(min(_CHUNK, theirs - first), dtype=torch.uint8, device="cpu")
                works.append(dist.irecv(piece, ward, group=self._group, tag=ward))
        for work in works:
            work.wait()
        return problem

    @staticmethod
    def _bytes(memory: SharedMemory, first: int, size: int) -> torch.Tensor:
        return torch.frombuffer(memory.map, dtype=torch.uint8, count=min(_CHUNK, size - first), offset=first)
