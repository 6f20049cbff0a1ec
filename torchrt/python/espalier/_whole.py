"""Take-over and hand-over of a state that every process has whole (DistributedDataParallel, or one process)."""
from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

from ._exchange import gathered
from ._handover import Found, Offer, from_vaults, lowest_by_node, offer_name, spread, take
from ._home import Home
from ._memory import SharedMemory, private_map
from ._slices import nodes_of
from ._state import Packed, StateError, apply, read
from ._worker import Worker


class Taken(NamedTuple):
    step: int
    near_bytes: int  # read from memory of this node
    far_bytes: int   # from other nodes
    fd: Optional[int] = None  # memory that holds it and does not change, to be closed


def largest_in(group: "Optional[dist.ProcessGroup]") -> Callable[[torch.Tensor], None]:
    """What replaces each element of a tensor by the largest of all processes."""
    def largest(tensor: torch.Tensor) -> None:
        if group is not None and tensor.numel():
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=group)
    return largest


def newest_of_all(found: "List[List[tuple[int, int]]]", unit: int) -> "Optional[tuple[int, int]]":
    """The newest (step, generation) of which some process of each place in a replica has found its part. found: by rank."""
    places = [set(one for rank in found[place::unit] for one in rank) for place in range(unit)]
    everywhere = set.intersection(*places)
    return max(everywhere) if everywhere else None


class Whole:
    partners = None  # what each node's keeper keeps is whole

    def __init__(self, worker: Worker, objects: Dict[str, Any], group: "Optional[dist.ProcessGroup]", pages: bool = True) -> None:
        """pages: whether those of the state may be handed over, and no copy of them."""
        self._worker, self._objects, self._group = worker, objects, group
        # Each place of a replica has its own part of the state; the processes of that place in all replicas have the same.
        self._place = worker.rank % worker.unit
        self._ranks = list(range(self._place, len(worker.nodes), worker.unit))
        self._nodes = [worker.nodes[rank] for rank in self._ranks]
        self._own = worker.rank // worker.unit  # in both
        self.keeps = lowest_by_node(self._nodes)[self._nodes[self._own]] == self._own  # for its node
        self._offer = Offer(offer_name(worker.token, worker.generation, worker.rank)) if self.keeps else None
        self._received: Optional[Offer] = None  # of state from another node, to this node's other processes
        self._memory: Optional[SharedMemory] = None
        self._home = Home(objects, self.pack, worker.rank, pages) if self.keeps else None

    def pack(self, step: int, home: Optional[Home] = None) -> Packed:
        return Packed(step, self._objects, seal=self._worker.seal, home=home)

    def take_over(self, source: Dict[str, Any]) -> Taken:
        """The state that the generation before hands over."""
        worker = self._worker
        givers = lowest_by_node(nodes_of(source["plan"])[self._place::worker.unit])
        have = [node in givers for node in self._nodes]
        if not any(have):
            raise StateError("no node of the new generation has processes of the old one")
        found = None
        if have[self._own]:
            giver = givers[self._nodes[self._own]] * worker.unit + self._place
            found = Found(*take(offer_name(worker.token, source["generation"], giver)))
        return self._apply(found, have, source)

    def recover(self, source: Dict[str, Any]) -> Optional[Taken]:
        """The newest snapshot on any node, if there is one."""
        worker = self._worker
        lost = [(int(source["generation"]), None)]
        lost += [(int(one["generation"]), int(one["step"])) for one in source.get("earlier", [])]
        here: Dict[Tuple[int, int], int] = {}  # descriptors by step and generation
        for at, of, item in from_vaults(worker.vault, lost, worker.generation) if worker.vault else []:
            if item.rank % worker.unit != self._place or (at, of) in here:
                continue
            try:
                here[at, of] = item.fetch(of)
            except OSError:
                continue  # a vault that ends holds nothing for anybody
        told = [[(int(at), int(of)) for at, of in rank] for rank in gathered(list(here), self._group)]
        newest = newest_of_all(told, worker.unit)
        found = None
        for key, fd in here.items():
            if key == newest:
                found = Found(key[0], fd)
            else:
                os.close(fd)
        if newest is None:
            return None
        return self._apply(found, [newest in rank for rank in told[self._place::worker.unit]], source)

    def _apply(self, found: Optional[Found], have: List[bool], source: Dict[str, Any]) -> Taken:
        worker, origin = self._worker, f"the state of generation {source['generation']}"
        whole, self._received = spread(found, self._nodes, self._own, have, self._ranks,
                                       lambda rank: offer_name(worker.token, worker.generation, rank, received=True))
        step, state = read(private_map(whole.fd), worker.seal, self._objects)
        if step != whole.step:
            raise StateError(f"{origin}: its memory is of step {step}, not {whole.step}")
        apply(self._objects, state, origin)
        size = os.fstat(whole.fd).st_size
        # What came from another node is counted once for each node.
        return Taken(step, 0 if whole.remote else size, size if whole.remote and self.keeps else 0, whole.fd)

    def settle(self) -> None:
        """All have taken it: the generation trains."""
        if self._received is not None:
            self._received.close()
            self._received = None

    def between_steps(self) -> None:
        """Training goes on after this boundary."""
        if self._home is not None:
            self._home.between_steps()

    def provide(self, step: int) -> None:
        """For the next generation, until withdraw() or the process's end. Raises OSError, StateError, RuntimeError."""
        if self._offer is None:
            return
        assert self._home is not None
        packed = self._home.pack(step)
        fd = None if packed is None else self._home.give(packed)
        if fd is None:
            self._memory = SharedMemory((packed := self.pack(step)).size)
            packed.write(self._memory.map)
            fd = self._memory.fd
        self._offer.provide(step, fd)

    def withdraw(self) -> None:
        """The next generation has failed."""
        if self._offer is not None:
            self._offer.withdraw()
        if self._home is not None:
            self._home.leave()
        if self._memory is not None:
            self._memory.close()
            self._memory = None
