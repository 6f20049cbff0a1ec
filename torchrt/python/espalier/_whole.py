"""Take-over and hand-over of a state that every process has whole (DistributedDataParallel, or one process)."""
from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional

import torch.distributed as dist

from ._handover import Found, Offer, from_vaults, lowest_by_node, offer_name, spread, take
from ._memory import SharedMemory, private_map
from ._slices import nodes_of
from ._state import Packed, StateError, apply, read
from ._worker import Worker


class Taken(NamedTuple):
    step: int
    near_bytes: int  # read from memory of this node
    far_bytes: int   # from other nodes
    fd: Optional[int] = None  # memory that holds it and does not change, to be closed


def gathered(value: Any, group: "Optional[dist.ProcessGroup]") -> List[Any]:
    """By rank."""
    if group is None:
        return [value]
    told: List[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, value, group=group)
    return told


class Whole:
    partners = None  # what each node's keeper keeps is whole

    def __init__(self, worker: Worker, objects: Dict[str, Any], group: "Optional[dist.ProcessGroup]") -> None:
        self._worker, self._objects, self._group = worker, objects, group
        self.keeps = lowest_by_node(worker.nodes)[worker.nodes[worker.rank]] == worker.rank  # for its node
        self._offer: Optional[Offer] = None
        self._received: Optional[Offer] = None  # of state from another node, to this node's other processes
        self._memory: Optional[SharedMemory] = None
        self.listen()

    def listen(self) -> None:
        if self.keeps:
            self._offer = Offer(offer_name(self._worker.token, self._worker.generation, self._worker.rank))

    def pack(self, step: int) -> Packed:
        return Packed(step, self._objects)

    def take_over(self, source: Dict[str, Any]) -> Taken:
        """The state that the generation before hands over."""
        worker = self._worker
        givers = lowest_by_node(nodes_of(source["plan"]))
        have = [node in givers for node in worker.nodes]
        if not any(have):
            raise StateError("no node of the new generation has processes of the old one")
        found = None
        if have[worker.rank]:
            found = Found(*take(offer_name(worker.token, source["generation"], givers[worker.nodes[worker.rank]])))
        return self._apply(found, have, source)

    def recover(self, source: Dict[str, Any]) -> Optional[Taken]:
        """The newest snapshot on any node, if there is one."""
        worker = self._worker
        lost = [(int(source["generation"]), None)]
        lost += [(int(one["generation"]), int(one["step"])) for one in source.get("earlier", [])]
        here = from_vaults(worker.vault, lost, worker.generation) if worker.vault else []
        told = gathered((here[0][0], here[0][1]) if here else (-1, -1), self._group)
        step, generation = max(told)
        if step < 0:
            return None
        found = None
        for at, of, item in here:
            if (at, of) == (step, generation):
                found = Found(step, item.fetch(of))
                break
        return self._apply(found, gathered(found is not None, self._group), source)

    def _apply(self, found: Optional[Found], have: List[bool], source: Dict[str, Any]) -> Taken:
        worker, origin = self._worker, f"the state of generation {source['generation']}"
        prefix = offer_name(worker.token, worker.generation, worker.rank).rpartition("-")[0] + "-received"
        whole, self._received = spread(found, worker.nodes, worker.rank, have, self._group, prefix)
        step, state = read(private_map(whole.fd))
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

    def provide(self, step: int) -> None:
        """For the next generation, until withdraw() or the process's end. Raises OSError, StateError, RuntimeError."""
        if self._offer is not None:
            self._memory = SharedMemory((packed := self.pack(step)).size)
            packed.write(self._memory.map)
            self._offer.provide(step, self._memory.fd)

    def withdraw(self) -> None:
        """The next generation has failed."""
        if self._offer is not None:
            self._offer.close()
            self.listen()
        if self._memory is not None:
            self._memory.close()
            self._memory = None
