"""The end of a training whose loop was left before its last step: whether all processes have left it, and at the same place."""
from __future__ import annotations

import datetime
from typing import Any, Optional

import torch
import torch.distributed as dist

_SECONDS = 60.0  # that a process may leave the loop later than another one, as where it evaluates before


class Alone(RuntimeError):
    """Other processes have not left the loop."""


def all_can_write(group: "Optional[dist.ProcessGroup]", step: int, can: bool, seconds: float = _SECONDS) -> bool:
    """Whether the state of each process is the one after `step`. Processes that still train wait for this one in an exchange of their
    own, so it waits for them no longer than `seconds`. Collective over those who have left the loop. Raises Alone."""
    if group is None:
        return can
    told = torch.tensor([0 if can else 1, step, -step])
    options = dist.AllreduceOptions()
    options.reduceOp, options.timeout = dist.ReduceOp.MAX, datetime.timedelta(seconds=seconds)
    try:
        group.allreduce([told], options).wait()
    except RuntimeError as error:  # of which torch's own kinds are
        raise Alone(f"the loop was left after step {step} by this process and not by all within {seconds:.0f} s; all processes must leave it "
                    f"in the same step ({_short(error)})") from error
    return told[0].item() == 0 and told[1].item() == -told[2].item()


def _short(error: Any) -> str:
    return " ".join(str(error).split())[:200]
