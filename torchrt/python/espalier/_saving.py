"""The training's checkpoints: which is due, and what happens where one cannot be written."""
from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, Optional

from . import _checkpoint


class Saving:
    def __init__(self, run: Any, objects: Dict[str, Any], path: Optional[str], every: int, minutes: float) -> None:
        """objects: by name, as their state is kept. every: steps; 0: none by steps. minutes: the longest time without one; 0: any."""
        self.path, self.every = path, every
        self._run, self._objects = run, objects
        self._due = _checkpoint.Due(path, minutes)
        self._written = -1  # the step of the last one
        self.asked = False  # by the launcher

    def is_there(self) -> bool:
        return bool(self.path) and os.path.exists(self.path)  # type: ignore[arg-type]

    def is_due_by_time(self) -> bool:
        return self._due.now()

    def load(self, divided: bool, largest: Callable[[Any], None]) -> int:
        """The step of the one that is there, which is in the objects then. All processes call it. Raises OSError and StateError."""
        run = self._run
        return _checkpoint.load(self.path, self._objects, divided, run.rank % run.unit, run.unit, bool(run.has_layouts), largest)  # type: ignore[arg-type]

    def write(self, step: int, divided: bool, largest: Callable[[Any], None]) -> None:
        """All processes call it. Raises OSError."""
        run = self._run
        self._due.written()
        _checkpoint.write(self.path, step, self._objects, run.rank, run.world, divided, largest, run.unit, bool(run.has_layouts))  # type: ignore[arg-type]
        self._written = step

    def write_at(self, step: int, now: bool, divided: bool, largest: Callable[[Any], None]) -> None:
        """Where one is due after `step`, or must be written now. A full disk does not end a training that may go on for days."""
        if not self.path or not (now or (self.every > 0 and step % self.every == 0)):
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
