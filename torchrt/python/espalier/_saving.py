"""The training's checkpoints: which is due, and what happens where one cannot be written."""
from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, Optional

from . import _checkpoint
from ._exchange import gathered
from ._state import StateError
from ._whole import largest_in


class Saving:
    def __init__(self, run: Any, objects: Dict[str, Any], path: Optional[str], every: int, minutes: float,
                 goes_on: bool = False) -> None:
        """objects: by name, as their state is kept. every: steps; 0: none by steps. minutes: the longest time without one; 0: any.
        goes_on: the training has begun in an earlier generation."""
        self.path, self.every = path, every
        self._run, self._objects = run, objects
        self._due = _checkpoint.Due(path, minutes, goes_on)
        self._written = -1  # the step of the last one
        self.asked = False  # by the launcher

    def is_due_by_time(self) -> bool:
        return self._due.now()

    def is_there(self, group: Any) -> bool:
        """Whether there is a checkpoint. All processes call it, so that none loads one alone. Raises StateError where only some see it."""
        told = gathered(bool(self.path) and os.path.exists(self.path), group)  # type: ignore[arg-type]
        if any(told) and not all(told):
            raise StateError(f"the checkpoint {self.path}: the processes {[rank for rank, one in enumerate(told) if one]} of {len(told)} find it, "
                             "and the others do not; all must see the same file: give checkpoint= a path in a folder that all nodes share")
        return all(told)

    def is_older(self, begun: int, group: Any) -> bool:
        """Whether the checkpoint that is there is of an earlier step than `begun`, that of what the program has read by itself (0: nothing, or not
        all that is registered). Where that is not the same in all processes, the checkpoint is all that they have in common, and counts. All
        processes call it. Raises OSError, and StateError also where an earlier one is of another global batch: `begun` then counts other samples."""
        told = gathered(begun, group)
        if begun == 0 or len(set(told)) > 1:
            return False
        if max(gathered(_checkpoint.step_of(self.path), group)) >= begun:  # type: ignore[arg-type]
            return False
        _checkpoint.check_batch(self.path, self._run.global_batch)  # type: ignore[arg-type]
        return True

    def load(self, divided: bool, group: Any) -> int:
        """The step of the one that is there, which is in the objects then. All processes call it. Raises OSError and StateError."""
        run = self._run
        return _checkpoint.load(self.path, self._objects, divided, run.rank % run.unit, run.unit, bool(run.has_layouts),  # type: ignore[arg-type]
                                largest_in(group), run.global_batch)

    def write(self, step: int, divided: bool, largest: Callable[[Any], None]) -> None:
        """All processes call it. Raises OSError."""
        run = self._run
        self._due.written()
        _checkpoint.write(self.path, step, self._objects, run.rank, run.world, divided, largest, run.unit,  # type: ignore[arg-type]
                          bool(run.has_layouts), run.progress, run.global_batch)
        self._written = step

    def is_due_after(self, step: int) -> bool:
        return bool(self.path) and self.every > 0 and step % self.every == 0

    def try_to_write(self, step: int, divided: bool, largest: Callable[[Any], None]) -> None:
        """A full disk does not end a training that may go on for days."""
        if not self.path:
            return
        try:
            self.write(step, divided, largest)
        except OSError as error:
            if self._run.rank == 0 or not isinstance(error, _checkpoint.Elsewhere):
                print(f"espalier: checkpoint: {self.path} was not written after step {step}: {error}; the training goes on, and the "
                      "checkpoint of before remains; make room, or give checkpoint= another folder", file=sys.stderr, flush=True)

    def lacks(self, step: int) -> bool:
        """Whether the end of the training after `step` has one to write."""
        return bool(self.path) and self.every > 0 and self._written != step
