"""What the launcher is told at the end of a training, and when."""
from __future__ import annotations

import atexit
import os
import sys
from typing import Callable, Optional

from ._worker import Worker


class Ending:
    """The training's groups are released after its last words: the script may have ended them before, and nothing of that may keep the words
    back."""

    def __init__(self, worker: Optional[Worker], release: Callable[[], None]) -> None:
        self._worker, self._release = worker, release
        self._uncaught = getattr(sys, "last_value", None)  # of an earlier line at a prompt
        self._process = os.getpid()

    def done(self, step: int) -> None:
        if self._worker is not None:
            self._worker.control.farewell()
            self._worker.control.send("done", step=step)
        self._release()

    def failed(self, why: str) -> None:
        print(f"espalier: {why}", file=sys.stderr, flush=True)
        if self._worker is not None:
            self._worker.control.farewell()
            self._worker.control.send("failed", message=why[:2000], peer=False, memory=False)
        self._release()

    def not_written(self, what: str, error: BaseException) -> None:
        remedy = "; make room, or give checkpoint= another folder" if isinstance(error, OSError) else ""
        self.failed(f"checkpoint: {what}: {str(error) or type(error).__name__}{remedy}")

    def at_exit(self, step: int, unwritten: Optional[str], now: bool) -> None:
        """When the interpreter ends. Where nobody catches an exception, `failed` is told and no `done`; where the script goes on to its end,
        the training has ended there. unwritten: what is said of a checkpoint that `break` would have written. now: it ends, and takes no more callbacks."""
        if now:
            self._last(step, unwritten)
        else:
            atexit.register(self._last, step, unwritten)

    @property
    def is_over(self) -> bool:
        """Whether another generation is the job: nothing is told or written here any more."""
        return self._worker is not None and self._worker.control.left

    def _last(self, step: int, unwritten: Optional[str]) -> None:
        if os.getpid() != self._process:
            return  # a child that was forked since
        error = getattr(sys, "last_value", None)
        if self.is_over:
            self._release()
            return
        if error is None or error is self._uncaught:
            if unwritten:
                print(f"espalier: {unwritten}", file=sys.stderr, flush=True)
            self.done(step)
            return
        # The script has an excepthook of its own, so the worker's has not told it.
        if self._worker is not None:
            self._worker.tell_failure(type(error), error)
        self._release()
