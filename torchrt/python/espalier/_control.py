"""The worker's line to its launcher: a thread that reads, one that writes, and what to do when the line is lost.

The training's thread only puts what it tells into a queue: to make a frame of it and to send that takes as long as all else that a step
costs here. One thread takes it out in the same order, heartbeats among it. After its last words, and where the launcher waits for an
answer, the training waits until all has been sent.

No module that is imported here imports torch: the launcher must hear of the worker long before torch is loaded.
"""
from __future__ import annotations

import math
import os
import queue
import sys
import threading
import time
from typing import Any, Optional, Union

from ._channel import Channel, ChannelError, Frame

_LAST_WORDS = 0.3
_ANSWERS = ("ready", "loaded", "switched", "done", "failed")
_LOOK = 1.0  # seconds; a wait is cut into looks of this length
_STALLED = 5.0  # by so many seconds a look is late when the process stood still
_SENT_WITHIN = 15.0  # the kernel gives a launcher up that takes nothing for ten seconds


class Leave(SystemExit):
    """The launcher said `exit`. Ends the process with code 0 unless somebody catches SystemExit."""

    def __init__(self) -> None:
        super().__init__(0)


class Control:
    def __init__(self, address: str, token: str, heartbeat: float, patience: float = 600.0) -> None:
        """patience: seconds that the launcher may take for what it has to do next. Beyond, it is broken: its own limits are shorter."""
        self._patience = patience
        self._channel = Channel(address, token)
        self._heartbeat = heartbeat
        self._frames: "queue.SimpleQueue[Frame]" = queue.SimpleQueue()
        self._telling: "queue.SimpleQueue[Union[Frame, threading.Event]]" = queue.SimpleQueue()
        self._untold: Optional[Exception] = None  # why something could not be made a frame
        self.left = False  # the launcher has said `exit`
        self._leaving = False
        self._checkpoint_asked = False
        self._beats: Optional[threading.Thread] = None
        self._progress_told = -math.inf  # when, by time.monotonic()
        self._progressing = threading.Lock()
        self._process = os.getpid()

    def hello(self, **fields: Any) -> None:
        self._channel.send({"type": "hello", **fields})
        for name, work in (("espalier-launcher", self._read), ("espalier-telling", self._write)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def begin_heartbeats(self) -> None:
        """From now on ten missed ones mean that this worker hangs. Not before torch is loaded: loading it holds the
        interpreter for seconds."""
        if self._heartbeat > 0 and self._beats is None:
            self._beats = threading.Thread(target=self._beat, name="espalier-heartbeat", daemon=True)
            self._beats.start()

    def progress(self) -> None:
        """Tells that this process gets on with work that is no step. Cheap, and for any thread: it tells once per heartbeat at most. It tells nothing
        before the heartbeats begin, as the launcher counts silence from the first one on, and nothing where it wants none. It does tell after
        `done`: what follows the last step is waited for as well. Neither a child that was forked tells, nor who was told to leave."""
        if self._beats is None or self.left or os.getpid() != self._process:
            return
        if not self._progressing.acquire(blocking=False):
            return  # it is told just now, by another thread or by what this signal's handler has interrupted
        try:
            now = time.monotonic()
            if now - self._progress_told >= self._heartbeat:
                self._progress_told = now
                self._telling.put({"type": "heartbeat", "progress": True})
        finally:
            self._progressing.release()

    def send(self, kind: str, **fields: Any) -> None:
        """Soon; at once where the launcher waits for it. Raises ChannelError where something told before cannot be a message."""
        fields["type"] = kind
        self._telling.put(fields)
        if kind in _ANSWERS:
            sent = threading.Event()
            self._telling.put(sent)
            if not sent.wait(_SENT_WITHIN):
                print(f"espalier: worker: `{kind}` could not be sent to the launcher within {_SENT_WITHIN:.0f} s; see its log", file=sys.stderr,
                      flush=True)
        if self._untold is not None and not self._leaving:
            error, self._untold = self._untold, None
            raise ChannelError(f"launcher: a message cannot be told: {error}") from error

    def expect(self, *kinds: str, timeout: Optional[float] = None) -> Frame:
        """The next message, which must be one of `kinds`. Raises Leave on `exit`. Time in which this process stood still, e.g. while Slurm had
        the job suspended, does not count: the launcher stood still as well."""
        timeout = self._patience if timeout is None else timeout
        left = timeout
        while left > 0:
            look, began = min(left, _LOOK), time.monotonic()
            try:
                frame = self._checked(self._frames.get(timeout=look), kinds)
            except queue.Empty:
                frame = None
            if frame is not None:
                return frame
            passed = time.monotonic() - began
            left -= look if passed > look + _STALLED else passed
        raise ChannelError(f"launcher: no `{kinds[0]}` within {timeout:.0f} s; see its log")

    def poll(self, *kinds: str) -> Optional[Frame]:
        """The same of what has come; None: nothing more."""
        while not self._frames.empty():  # nobody else takes them out; and an exception in each step would be slow
            frame = self._checked(self._frames.get(), kinds)
            if frame is not None:
                return frame
        return None

    def take_checkpoint(self) -> bool:
        """Once after each `checkpoint`. It may come at any time, so every other call hears of it too."""
        asked, self._checkpoint_asked = self._checkpoint_asked, False
        return asked

    def _checked(self, frame: Frame, kinds: "tuple[str, ...]") -> Optional[Frame]:
        """None: it was `checkpoint`, which take_checkpoint() tells of."""
        if frame["type"] == "exit":
            self.left = True
            raise Leave()
        if frame["type"] == "refused":
            raise ChannelError(f"the launcher refuses this worker: {frame.get('reason')}")
        if frame["type"] == "checkpoint":
            self._checkpoint_asked = True
            return None
        if frame["type"] not in kinds:
            raise ChannelError(f"launcher: sent `{frame['type']}` instead of `{kinds[0]}`; "
                               "launcher and package are of different versions")
        return frame

    def farewell(self) -> None:
        """From now on the launcher may hang up: the process is about to end by itself."""
        self._leaving = True

    def _read(self) -> None:
        try:
            while True:
                frame = self._channel.receive()
                if frame is not None:
                    self._frames.put(frame)
        except ChannelError as error:
            self._lost(str(error))

    def _write(self) -> None:
        lost = False
        while True:
            told = self._telling.get()
            if isinstance(told, threading.Event):
                told.set()
            elif not lost:
                try:
                    self._channel.send(told)
                except (TypeError, ValueError) as error:
                    self._untold = error
                except ChannelError as error:
                    self._lost(str(error))
                    lost = True  # nobody needs to wait for what is told now

    # The main thread may wait for ever for ranks that are gone.
    def _lost(self, why: str) -> None:
        time.sleep(_LAST_WORDS)  # for an `exit` that came just before the end of the line
        if self._leaving:
            return
        print(f"espalier: worker: the launcher is gone ({why}); leaving", file=sys.stderr, flush=True)
        os._exit(1)

    def _beat(self) -> None:
        while not self._leaving:
            self._telling.put({"type": "heartbeat"})
            time.sleep(self._heartbeat)
