"""Moments of a step."""
from __future__ import annotations

import time
from typing import Any, Optional

import torch


class Mark:
    """A moment: on a GPU that of its work, which runs behind the program's. Used again in each step, as an event is costly to make."""

    def __init__(self, gpu: Optional[torch.device]) -> None:
        """gpu: the model's. A program may use one that is not its current device. None: the model is on none."""
        self._gpu = gpu
        self._event: Any = None
        self._time = 0.0

    def now(self) -> "Mark":
        if self._gpu is None:
            self._time = time.perf_counter()
            return self
        if self._event is None:
            self._event = torch.cuda.Event(enable_timing=True)
        self._event.record(torch.cuda.current_stream(self._gpu))
        return self

    def ms_since(self, earlier: "Mark") -> float:
        """Waits for the GPU's work up to here."""
        if self._event is None:
            return (self._time - earlier._time) * 1000
        self._event.synchronize()
        return float(earlier._event.elapsed_time(self._event))
