"""The end of a training whose loop was left before its last step: whether all processes have left it, and at the same place."""
from __future__ import annotations

import datetime
from typing import Any

import torch
import torch.distributed as dist

_SECONDS = 60.0  # that a process may leave the loop later than another one, as where it evaluates before


class Alone(RuntimeError):
    """Other processes have not left the loop."""


class Leavers:
    """Who has left the loop. They have a process group of their own: in the training's one, what they tell would meet what processes tell
    that still train. Its timeout ends an exchange in any version of torch; before 2.9, gloo heeds no timeout of a single exchange.
    To make one is collective."""

    def __init__(self) -> None:
        self._seconds = _SECONDS
        self.group = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=_SECONDS))

    def all_can_write(self, step: int, can: bool) -> bool:
        """Whether the state of each process is the one after `step`. Collective over those who have left the loop, and waits for others no
        longer than the group does. Raises Alone."""
        told = torch.tensor([0 if can else 1, step, -step], device="cpu")
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        try:
            self.group.allreduce([told], options).wait()
        except RuntimeError as error:  # of which torch's own kinds are
            raise Alone(f"the loop was left after step {step} by this process and not by all within {self._seconds:.0f} s; all processes must "
                        f"leave it in the same step, and end the loop, or the block of `with run.steps()`, within that time: evaluate after it "
                        f"({_short(error)})") from error
        return told[0].item() == 0 and told[1].item() == -told[2].item()


def _short(error: Any) -> str:
    return " ".join(str(error).split())[:200]
