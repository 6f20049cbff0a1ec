"""Copies of the state in memory that the node's vault holds: they outlive this process."""
from __future__ import annotations

import sys
import time
from typing import Callable, Dict, List, Optional, Tuple

from . import _vault
from ._memory import SharedMemory
from ._partners import Partners
from ._state import Packed
from ._worker import Worker

_SHARE = 20  # a snapshot is due when so many times as long as the last one took has passed
_ROOM_SHARE, _LEAST_ROOM = 64, 1 << 20  # of a copy, and in bytes; pages that nobody writes take no memory


class Snapshots:
    """Two copies, written in turn, so that one is always whole. Of a divided state also those of other nodes' processes."""

    def __init__(self, worker: Worker, pack: Callable[[int], Packed], partners: Optional[Partners], seconds: float) -> None:
        """pack: what this process keeps of the state after a step. seconds: how often at most."""
        self._worker, self._pack, self._partners, self._seconds = worker, pack, partners, seconds
        self._ranks = [worker.rank] + (partners.wards if partners else [])  # whose copies are here, this process's first
        self._line: Optional[_vault.Line] = None
        self._copies: Dict[Tuple[int, int], SharedMemory] = {}  # by the place in _ranks, and 0 or 1
        self._dropped: Optional[_vault.Line] = None
        self._newest = 0
        self._at, self._took = time.monotonic(), 0.0
        self.safe = False  # what a loss needs of this process is in vaults

    def reach(self) -> None:
        """Finds the node's vault. Says so where it cannot be used."""
        worker = self._worker
        try:
            name = _vault.own_vault(worker.vault, worker.owner) if worker.vault else None
            if name is not None:
                self._line = _vault.Line(name, worker.generation, worker.rank, len(_vault.SLOTS) * len(self._ranks))
        except OSError as error:
            print(f"espalier: worker: rank {worker.rank}: {error}; a loss goes back to a checkpoint", file=sys.stderr)

    def due(self) -> bool:
        if self._line is None:
            return False
        return not self.safe or time.monotonic() - self._at >= max(self._seconds, _SHARE * self._took)

    def adopt(self, step: int, fd: int) -> None:
        """Memory that holds the state after `step` and does not change. The descriptor remains the caller's."""
        if self._line is None:
            return
        try:
            self._line.deposit(0, self._worker.rank, 0, step, fd)
            self.safe = True
        except OSError as error:
            self._drop(error)

    def make(self, step: int, elsewhere: bool = True) -> None:
        """elsewhere: also on other nodes; all processes call it then. Without, it takes no time on the network, and the next
        one is due at once."""
        if self._line is None and self._partners is None:
            return
        begin, index, packed = time.monotonic(), 1 - self._newest, self._pack(step)
        fresh: List[int] = []  # places in _ranks whose memory is another one than before
        own: Optional[SharedMemory] = None
        problem: Optional[OSError] = None
        try:
            own = self._memory(0, index, packed.size, fresh)
            packed.write(own.map)
        except OSError as error:
            problem = error
        filled = [0]  # places whose memory is of this step: a ward without memory sends nothing, and what is kept of it is older
        if self._partners is not None and elsewhere:
            # Others wait in this exchange, whatever has failed here.
            def into(ward: int, size: int) -> SharedMemory:
                place = self._ranks.index(ward)
                memory = self._memory(place, index, size, fresh)
                filled.append(place)
                return memory

            lacks = self._partners.exchange(own, packed.size if own else 0, into)
            problem = problem or lacks
            for place in range(len(self._ranks)):
                if place not in filled:
                    self._mark(place, index, -1)
        try:
            if problem is not None:
                raise problem
            self._deposit(step, index, filled, fresh)
        except OSError as error:
            self._drop(error)
            return
        self._newest = index
        self._at, self._took = time.monotonic(), time.monotonic() - begin
        self.safe = self._line is not None and (elsewhere or self._partners is None)

    def _memory(self, place: int, index: int, size: int, fresh: List[int]) -> SharedMemory:
        """For a copy of `size` bytes, with room for some more: the state's head grows with what a script logs, and other memory is another
        deposit. Raises OSError."""
        self._mark(place, index, -1)
        there = self._copies.get((place, index))
        if there is None or there.size < size:
            if there is not None:
                del self._copies[place, index]
                there.close()
            there = self._copies[place, index] = SharedMemory(size + max(size // _ROOM_SHARE, _LEAST_ROOM))
            fresh.append(place)
        return there

    def _deposit(self, step: int, index: int, places: List[int], fresh: List[int]) -> None:
        """Raises OSError."""
        for place in places:
            if place in fresh and self._line is not None:
                self._line.deposit(len(_vault.SLOTS) * place + index, self._ranks[place], index, step, self._copies[place, index].fd)
            else:
                self._mark(place, index, step)

    def _drop(self, error: OSError) -> None:
        """A training does not end because its node's vault does. What the vault has stays there as it is, so its memory is not written
        again; and the line stays open, by which the vault knows that this process lives."""
        if self._line is not None:
            print(f"espalier: worker: rank {self._worker.rank}: {error}; no more snapshots are made here, and a loss goes back to an older one or "
                  "to a checkpoint", file=sys.stderr, flush=True)
        self._dropped, self._line = self._line or self._dropped, None
        for copy in self._copies.values():
            copy.close()
        self._copies.clear()
        self.safe = False

    def _mark(self, place: int, index: int, step: int) -> None:
        if self._line is not None:
            self._line.mark(len(_vault.SLOTS) * place + index, step)
