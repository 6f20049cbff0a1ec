"""Whether this process has been forked since it joined the job: worker processes of a DataLoader are, and a script may call os.fork().
Imports no torch. A program that subprocess starts is no such child, as it does not see this process's memory."""
from __future__ import annotations

import os

count = 0


def begin() -> None:
    global count
    count = 0


def _one_more() -> None:
    global count
    count += 1


os.register_at_fork(before=_one_more, after_in_child=begin)
