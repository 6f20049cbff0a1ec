"""Copies of the state in memory that the node's vault holds: they outlive this process."""
from __future__ import annotations

import sys
import time
from typing import Any, Callable, List, Optional

from . import _vault
from ._memory import SharedMemory
from ._state import Packed
from ._worker import Worker

_SHARE = 20  # a snapshot is due when so many times as long as the last one took has passed


class Snapshots:
    """Two copies, written in turn, so that one is always whole."""

    def __init__(self, worker: Worker, pack: Callable[[int], Packed], seconds: float) -> None:
        """pack: what this process keeps of the state after a step. seconds: how often at most."""
        self._worker, self._pack, self._seconds = worker, pack, seconds
        self._line: Optional[_vault.Line] = None
        self._copies: List[Optional[SharedMemory]] = [None] * len(_vault.SLOTS)
        self._newest = 0  # index of the newest copy
        self._at, self._took = time.monotonic(), 0.0
        self.kept = False  # a vault takes them

    def reach(self) -> None:
        """Finds the node's vault. Says so where there is none."""
        worker = self._worker
        try:
            name = _vault.own_vault(worker.vault, worker.owner) if worker.vault else None
            if name is not None:
                self._line = _vault.Line(name, worker.generation, worker.rank)
        except OSError as error:
            print(f"espalier: worker: rank {worker.rank}: {error}; a loss goes back to a checkpoint", file=sys.stderr)
        self.kept = self._line is not None

    def due(self) -> bool:
        return self.kept and time.monotonic() - self._at >= max(self._seconds, _SHARE * self._took)

    def adopt(self, step: int, fd: int) -> None:
        """Memory that holds the state after `step` and does not change. The descriptor remains the caller's."""
        if self._line is not None:
            self._line.deposit(0, step, fd)

    def make(self, step: int) -> None:
        if self._line is None:
            return
        begin, index = time.monotonic(), 1 - self._newest
        packed, memory = self._pack(step), self._copies[index]
        self._line.tear(index)
        if memory is None or memory.size < packed.size:
            if memory is not None:
                memory.close()
            self._copies[index] = memory = SharedMemory(packed.size)
            packed.write(memory.map)
            self._line.deposit(index, step, memory.fd)
        else:
            packed.write(memory.map)
            self._line.mark(index, step)
        self._newest = index
        self._at, self._took = time.monotonic(), time.monotonic() - begin
