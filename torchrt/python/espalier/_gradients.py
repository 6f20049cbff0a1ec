"""The average of gradients over a global batch that is divided unevenly, and when a step's parts ended.

DDP divides the sum of all processes' gradients by their number. That is the mean over the batch only where every process
has as many samples. Here each process's gradient is weighed by its samples before the sum.
"""
from __future__ import annotations

import contextlib
import time
from typing import Any, List, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Mark:
    """A moment: on a GPU that of its work, which runs behind the program's."""

    def __init__(self, cuda: bool) -> None:
        self._event: Any = None
        self._time = 0.0
        if cuda:
            self._event = torch.cuda.Event(enable_timing=True)
            self._event.record()
        else:
            self._time = time.perf_counter()

    def ms_since(self, earlier: "Mark") -> float:
        """Waits for the GPU's work up to here."""
        if self._event is None:
            return (self._time - earlier._time) * 1000
        self._event.synchronize()
        return float(earlier._event.elapsed_time(self._event))


class Averager:
    """Of the DDP modules among the registered objects. One for the process's life."""

    def __init__(self, modules: List[DistributedDataParallel], cuda: bool) -> None:
        self.weight = 1.0  # of what backward() computes: this process's share of the samples, where the loss is their mean
        self.last_bucket: Optional[Mark] = None  # when the last gradients of a step were there, before their sum
        self._modules, self._cuda = modules, cuda
        for module in modules:
            module.register_comm_hook(module.process_group, self._hook)

    # Without annotations: DDP compares them with types, and here they would be texts.
    def _hook(self, group, bucket):  # type: ignore[no-untyped-def]
        buffer = bucket.buffer()
        if self.weight != 1.0:
            buffer.mul_(self.weight)
        if bucket.is_last():
            self.last_bucket = Mark(self._cuda)
        future = dist.all_reduce(buffer, group=group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])

    @contextlib.contextmanager
    def alone(self) -> Any:
        """Forward and backward passes inside exchange nothing: their gradients are summed here."""
        with contextlib.ExitStack() as stack:
            for module in self._modules:
                stack.enter_context(module.no_sync())
            yield
