"""torch's threads when the interpreter ends."""
from __future__ import annotations

import atexit
import os
import sys
import time

_SECONDS = 0.05


def wait_at_exit() -> None:
    """A thread of a gloo group frees the tensors of its last exchange some time after that is over. Where the interpreter ends meanwhile, as in a
    script that does not destroy its groups, the thread finds no interpreter and aborts the process, whose training then counts as failed."""
    atexit.register(_wait, os.getpid())


def _wait(process: int) -> None:
    dist = sys.modules.get("torch.distributed")
    if os.getpid() == process and dist is not None and dist.is_available() and dist.is_initialized():
        time.sleep(_SECONDS)
