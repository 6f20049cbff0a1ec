"""The process groups that are the training's own."""
from __future__ import annotations

import datetime
from typing import Any, Dict, Optional

import torch.distributed as dist

from ._leaving import Leavers
from ._numbers import sum_over
from ._state import StateError

# Who waits in an exchange waits for a process that may evaluate for hours, or for a job that Slurm has suspended. torch would give up after half
# an hour. A process that ends closes its connections, and the launcher ends a generation that hangs; without one, torch's limit is the only one.
_PATIENCE = datetime.timedelta(days=14)


def patience(led: bool) -> Dict[str, Any]:
    """What dist.new_group() is told of its timeout. led: by a launcher."""
    return {"timeout": _PATIENCE} if led else {}


class Groups:
    """To make them is collective. Raises StateError."""

    def __init__(self, rank: int, world: int, led: bool) -> None:
        """rank, world: this process's and the run's processes. led: there is a launcher."""
        if world > 1 and not dist.is_initialized():
            raise StateError("call torch.distributed.init_process_group() before run.steps(): there are "
                             f"{world} processes")
        if dist.is_initialized() and (dist.get_rank(), dist.get_world_size()) != (rank, world):
            raise StateError(f"this process is process {rank} of {world} of the run, and torch.distributed's group has {dist.get_world_size()} processes, "
                             f"of which it is {dist.get_rank()}; call init_process_group() with the RANK and WORLD_SIZE of the environment, "
                             "after espalier.join()")
        self.all: Any = dist.new_group(backend="gloo", **patience(led)) if world > 1 else None
        self.sum = sum_over(self.all)
        self.leavers: Optional[Leavers] = None

    def leave_together(self) -> None:
        """Each process writes its part of a checkpoint, and so waits for the others where the loop is left early. Collective."""
        if self.all is not None:
            self.leavers = Leavers()

    def barrier(self) -> None:
        if self.all is not None:
            dist.barrier(group=self.all)

    def release(self) -> None:
        """The groups' threads must have ended before the interpreter does, or its end aborts."""
        for group in (self.leavers and self.leavers.group, self.all):
            try:
                if group is not None:
                    dist.destroy_process_group(group)
            except (ValueError, RuntimeError):
                pass  # the script has destroyed all groups
        self.leavers, self.all, self.sum = None, None, sum_over(None)
