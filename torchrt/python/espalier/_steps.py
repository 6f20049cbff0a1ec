"""The iterator of a script's loop: it tells a loop that was left by `break` or `return` from one that an exception has ended."""
from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
import weakref
from types import TracebackType
from typing import Any, Dict, Iterable, Iterator, Optional, Type

from ._frames import closed_well, dropped_well

_collecting = 0  # the thread in which Python's collector of reference cycles runs now


def _watch(phase: str, _: Dict[str, int]) -> None:
    global _collecting
    _collecting = threading.get_ident() if phase == "start" else 0


class _Progress:
    """What the object that the script has, and the iterators that its loops have, share."""

    def __init__(self, run: Any, loader: Optional[Iterable[Any]]) -> None:
        self.run, self._loader = run, loader
        self._given: Optional[Iterator[Any]] = None
        self.begun = self.in_step = self.over = False
        self.looping = False
        self.held = True  # the script may go on with another loop
        self.well = True  # how the last loop was left
        self._last = getattr(sys, "last_value", None)
        self._handled = sys.exc_info()[1]
        self._process = os.getpid()

    def next(self) -> Any:
        if self.over:
            raise StopIteration
        try:
            if not self.begun:
                self.begun = True
                self.run.start()
                # What a module holds is dropped when no other thread runs any more, and the launcher would not hear of the end.
                atexit.register(_at_exit, weakref.ref(self), threading.current_thread())
            if self.in_step:
                self.in_step = False
                self.run.end()
            if self.run.done < self.run.total_steps:
                step = self.run.begin()
                self.in_step = True
                return step if self._loader is None else (step, self._batch())
        except BaseException as error:
            self.over = True
            if not isinstance(error, SystemExit):
                self.run.fail()
            raise
        self.over = True
        self.run.finish()
        raise StopIteration

    def _batch(self) -> Any:
        """The loader is asked for its first batch when the first step is known."""
        if self._given is None:
            self._given = iter(self._loader)  # type: ignore[arg-type]
        try:
            return next(self._given)
        except StopIteration:
            from ._run import RunError

            raise RunError(f"run.batches(): the loader has no batch for step {self.run.done + 1}; it needs a batch_sampler="
                           "espalier.Batches(run, dataset) without pass_steps=, which goes on to the training's end") from None

    def leave(self, well: bool, at_exit: bool = False, certain: bool = False) -> Optional[BaseException]:
        """certain: what the interpreter says of exceptions does not concern this loop. Returns what has interrupted the end, and is no error: an
        interrupt, which a finalizer cannot raise."""
        if self.over or not self.begun or os.getpid() != self._process:  # a child that was forked tells and writes nothing
            return None
        self.over = True
        # An exception that nobody caught has been printed, or one is being handled that was not when the loop began.
        other = getattr(sys, "last_value", None) is not self._last or sys.exc_info()[1] not in (None, self._handled)
        if well and (certain or not other):
            return self.run.finish()  # type: ignore[no-any-return]
        self.run.fail(at_exit)
        return None


def _at_exit(reference: "weakref.ref[_Progress]", thread: threading.Thread) -> None:
    progress = reference()
    if progress is not None and (thread is threading.current_thread() or not thread.is_alive()):  # else it trains still
        progress.leave(progress.well, at_exit=True)


class Steps:
    """What run.steps() and run.batches() return. As a context manager it is told how it was left, where else that is read from frames."""

    def __init__(self, run: Any, loader: Optional[Iterable[Any]] = None) -> None:
        self._progress = _Progress(run, loader)

    def __iter__(self) -> "_Loop":
        return _Loop(self._progress)

    def __next__(self) -> Any:
        return self._progress.next()

    def __enter__(self) -> "Steps":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        # How a generator is left that has the block, its consumer knows; whatever loop or next() was in the block, and how that was left.
        well = kind is None or (kind is GeneratorExit and self._progress.well and closed_well(sys._getframe(1)))
        interrupt = self._progress.leave(well, certain=True)
        if interrupt is not None:
            raise interrupt

    def close(self) -> None:
        """Ends the training here, as `break` does."""
        self._progress.leave(self._progress.well)

    def __del__(self) -> None:
        self._progress.held = False
        if not self._progress.looping:
            self.close()


class _Loop:
    """Of one `for`, which alone has it. It has no close(), so `yield from` drops it as `for` does."""

    def __init__(self, progress: _Progress) -> None:
        self._progress = progress
        progress.looping, progress.well = True, True
        if _watch not in gc.callbacks:
            gc.callbacks.append(_watch)

    def __iter__(self) -> "_Loop":
        return self

    def __next__(self) -> Any:
        return self._progress.next()

    def __del__(self) -> None:
        progress = self._progress
        # The collector drops a loop in the middle of whatever else runs, whose frame says nothing of it.
        progress.looping, progress.well = False, _collecting != threading.get_ident() and dropped_well(sys._getframe().f_back)
        if not progress.held:
            progress.leave(progress.well)
