"""Take-over and hand-over of a state that is divided among the processes (FSDP2, layouts of a replica): each process of the next
generation reads what it needs from those of the old one, from their memory on its node and over TCP from other nodes.

Every process offers its memory under its own name on its node, and serves it to other nodes. Which address each process has
is part of what each offers, so one old process on one node of the new generation is enough to find all. It is not in the head, which others read
of each process that they need: with as many processes as there are addresses, that would be most of what is read. After a loss the
lowest new rank of each node serves what the node's vaults hold.
"""
from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from ._alike import sample_of
from ._exchange import gathered, told_by
from ._handover import Offer, from_vaults, lowest_by_node, offer_name, take
from ._home import Home
from ._memory import SharedMemory
from ._partners import Partners, keepers_of
from ._named import Parts
from ._shards import Search, Shelf, assemble
from ._slices import nodes_of
from ._state import Packed, StateError, apply
from ._transfer import Far, Server
from ._whole import Taken, largest_in
from ._worker import Worker


def _packed(addresses: List[Any]) -> torch.Tensor:
    return torch.frombuffer(bytearray(json.dumps(addresses).encode()), dtype=torch.uint8)


def _unpacked(shelf: Shelf) -> List[Any]:
    """The addresses of all processes of the generation whose state it is."""
    told = torch.empty(shelf.head.note.shape, dtype=torch.uint8, device="cpu")
    shelf.fetch([(shelf.head.first + shelf.head.note.offset, told)])
    return json.loads(told.numpy().tobytes())  # type: ignore[no-any-return]


class Divided:
    keeps = True  # each process keeps its part

    def __init__(self, worker: Worker, objects: Dict[str, Any], group: "Optional[dist.ProcessGroup]", pages: bool = True) -> None:
        """pages: whether those of the state may be handed over, and no copy of them."""
        self._worker, self._objects, self._group = worker, objects, group
        self._server = Server(worker.token)
        self._addresses = gathered(self._server.address, group)
        self.partners = Partners(keepers_of(worker.nodes, worker.jobs), worker.rank, group)
        self._memory: Optional[SharedMemory] = None
        self._home = Home(objects, self.pack, worker.rank, pages)
        self._offer = Offer(offer_name(worker.token, worker.generation, worker.rank))

    def pack(self, step: int, home: Optional[Home] = None) -> Packed:
        worker = self._worker
        return Packed(step, self._objects, _packed(self._addresses), sample_of(self._objects) if worker.rank < worker.unit else None,
                      worker.seal, home)

    def take_over(self, source: Dict[str, Any]) -> Taken:
        worker, generation = self._worker, int(source["generation"])
        nodes, here = nodes_of(source["plan"]), worker.nodes[worker.rank]
        near: Dict[int, Shelf] = {}
        for rank in [rank for rank, node in enumerate(nodes) if node == here]:
            step, fd = take(offer_name(worker.token, generation, rank))
            near[rank] = self._shelf(fd)
        know = gathered(bool(near), self._group)
        if True not in know:
            raise StateError("no node of the new generation has processes of the old one")
        addresses = told_by(know.index(True), _unpacked(next(iter(near.values()))) if near else None, self._group)
        return self._read(near, [(address, f"{generation}.{rank}") for rank, address in enumerate(addresses)], source)

    def recover(self, source: Dict[str, Any]) -> Optional[Taken]:
        """The newest snapshot of which every part is on some node, if there is one."""
        worker = self._worker
        lost = [(int(source["generation"]), None)]
        lost += [(int(one["generation"]), int(one["step"])) for one in source.get("earlier", [])]
        parts: Dict[Tuple[int, int], Dict[int, Shelf]] = {}  # by step and generation: rank and memory
        serves = lowest_by_node(worker.nodes)[worker.nodes[worker.rank]] == worker.rank
        names = []
        for step, generation, item in from_vaults(worker.vault, lost, worker.generation) if worker.vault else []:
            try:
                fd = item.fetch(generation)
            except OSError:
                continue  # a vault that ends holds nothing for anybody
            if serves:
                names.append(f"vault.{generation}.{step}.{item.rank}")
                self._server.provide(names[-1], fd)
            parts.setdefault((step, generation), {}).setdefault(item.rank, self._shelf(fd))
        # Of each state: who serves which rank's part, and of how many ranks it is.
        mine = [(key, list(ranks), len(_unpacked(next(iter(ranks.values()))))) for key, ranks in parts.items()] if serves else []
        where: Dict[Tuple[int, int], Dict[int, int]] = {}
        worlds: Dict[Tuple[int, int], int] = {}
        for server, told in enumerate(gathered(mine, self._group)):
            for (at, of), ranks, world in told:
                key = (at, of)
                worlds[key] = world
                where.setdefault(key, {}).update({rank: server for rank in ranks})
        whole = [key for key, ranks in where.items() if set(ranks) == set(range(worlds[key]))]
        if not whole:
            return None
        step, generation = max(whole)
        served = [(self._addresses[where[step, generation][rank]], f"vault.{generation}.{step}.{rank}")
                  for rank in range(worlds[step, generation])]
        taken = self._read(parts.get((step, generation), {}), served, source)
        gathered(None, self._group)  # all have read
        for name in names:
            self._server.withdraw(name)
        return taken

    def _shelf(self, fd: int) -> Shelf:
        try:
            return Shelf(fd, self._worker.seal)
        finally:
            os.close(fd)

    def _read(self, near: Dict[int, Shelf], far: List[Tuple[Any, str]], source: Dict[str, Any]) -> Taken:
        """near: memory of this node by rank. far: by rank, where else a rank's memory is served."""
        origin = f"the state of generation {source['generation']}"
        remote: Dict[int, Far] = {}

        def reach(rank: int) -> Far:
            remote[rank] = Far(*far[rank], self._worker.token)
            return remote[rank]

        try:
            targets = self._search(near, remote, reach, len(far))
            shelves: List[Any] = [*near.values(), *remote.values()]
            steps = sorted({shelf.head.step for shelf in shelves})
            if len(steps) != 1:
                raise StateError(f"{origin}: its parts are of the steps {steps}")
            state, near_bytes, far_bytes = assemble(self._objects, shelves, largest_in(self._group), targets)
        finally:
            for one in remote.values():
                one.close()
        apply(self._objects, state, origin)
        return Taken(steps[0], near_bytes, far_bytes)

    def _search(self, near: Dict[int, Shelf], remote: Dict[int, Far], reach: Callable[[int], Far], world: int) -> Any:
        """Fills `remote` with what this process needs of the shelves of `world` ranks. Returns the targets of the Search, if there was one.
        Collective: no rank alone knows what is in those that it does not look at."""
        own, count = self._worker.rank, len(self._worker.nodes)
        others = [rank for rank in range(world) if rank not in near]
        if any(isinstance(one, Parts) for one in self._objects.values()):  # others' names are in no other shelf
            for rank in others[own % max(1, len(others)):] + others[:own % max(1, len(others))]:  # not all begin at the same one
                reach(rank)
            return None
        search = Search(self._objects)
        for rank, shelf in near.items():
            search.look(rank, shelf.head)
        # Blocks of this rank lie around here, where they cannot be guessed better.
        around = iter(sorted(others, key=lambda rank: abs((2 * rank + 1) * count - (2 * own + 1) * world)))
        left = set(others)
        while left and search.lacks:
            rank = search.guess()
            if rank not in left:
                rank = next(one for one in around if one in left)
            left.remove(rank)
            search.look(rank, reach(rank).head)
        # Shelves that nobody needs are looked at by one process each: all must be of one step, and hold what the others hold.
        seen = {rank for ranks in gathered([*near, *remote], self._group) for rank in ranks}
        for rank in [rank for rank in others if rank not in seen][own::count]:
            search.note(reach(rank).head)
        kinds = {(step, kind) for told in gathered(sorted(search.kinds), self._group) for step, kind in told}
        if len(kinds) > 1:
            for rank in left - set(remote):
                reach(rank)
        return search.targets

    def settle(self) -> None:
        pass

    def between_steps(self) -> None:
        """Training goes on after this boundary."""
        self._home.between_steps()

    def provide(self, step: int) -> None:
        """For the next generation, until withdraw() or the process's end. Raises OSError, StateError, RuntimeError."""
        packed = self._home.pack(step)
        fd = None if packed is None else self._home.give(packed)
        if fd is None:
            self._memory = SharedMemory((packed := self.pack(step)).size)
            packed.write(self._memory.map)
            fd = self._memory.fd
        self._server.provide(f"{self._worker.generation}.{self._worker.rank}", fd)
        self._offer.provide(step, fd)

    def withdraw(self) -> None:
        """The next generation has failed."""
        self._offer.withdraw()
        self._server.withdraw(f"{self._worker.generation}.{self._worker.rank}")
        self._home.leave()
        if self._memory is not None:
            self._memory.close()
            self._memory = None
