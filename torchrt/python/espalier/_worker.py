"""The launcher's side of a run: login, who this process is, and its words at the end. Imports no torch."""
from __future__ import annotations

import ctypes
import hashlib
import math
import os
import signal
import socket
import sys
import threading
import traceback
from typing import Any, Dict, List, Optional, Sequence

from ._channel import ChannelError
from ._control import Control, Leave
from ._keys import seal_of
from ._slices import jobs_of, nodes_of, shares_of

_PR_SET_PDEATHSIG = 1  # of sys/prctl.h
# How long no heartbeat may come. One call can keep the interpreter's lock for so long, e.g. pickle.dumps() of some gigabytes or a list's sort().
# A process that ends is missed at once: its connection closes.
_SILENT_SECONDS = 60.0
_PEER_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Connection refused", "NCCL error",
              "Timed out waiting")


def _number(name: str, kind: type = int) -> Any:
    text = os.environ.get(name)
    if text is None:
        raise ChannelError(f"{name}: is not set though ESPALIER_LAUNCHER is; let the launcher start workers")
    try:
        return kind(text)
    except ValueError:
        raise ChannelError(f'{name}: "{text}" is not a number') from None


def program_name() -> str:
    """The same for runs of the same script with the same arguments, as far as can be told."""
    digest = hashlib.sha256("\0".join(sys.argv[1:]).encode(errors="replace"))
    try:
        with open(sys.argv[0], "rb") as script:
            digest.update(script.read())
    except OSError:
        pass
    name = "".join(c if " " < c <= "~" else "?" for c in os.path.basename(sys.argv[0] or "python"))
    return f"{name[:80]} {digest.hexdigest()[:16]}"


def _die_with_parent() -> None:
    """torchrun puts its processes into sessions of their own, so what kills torchrun does not reach them."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Worker:
    """What the launcher has assigned. Made by join()."""

    def __init__(self, global_batch: int, steps: int, start_seconds: int, units: Sequence[int]) -> None:
        """units: how many processes a replica may have, the preferred number first."""
        self.token = os.environ.get("ESPALIER_TOKEN", "")
        self.generation: int = _number("ESPALIER_GENERATION")
        self.rank: int = _number("OMPI_COMM_WORLD_RANK")
        if not self.token:
            raise ChannelError("ESPALIER_TOKEN: is not set though ESPALIER_LAUNCHER is; let the launcher start workers")
        self.seal = seal_of(self.token)  # of what processes of the job read of each other (_state.py)
        self.vault = os.environ.get("ESPALIER_VAULT", "")
        anchor = os.environ.get("ESPALIER_ANCHOR", "")
        self.owner = os.environ.get("SLURM_JOB_ID", anchor)
        self._extension = int(self.owner) if self.owner.isdigit() and self.owner != anchor else 0
        self._noticed = False
        # Slurm tells the processes of an extension to leave by SIGTERM. The launcher decides what that means.
        signal.signal(signal.SIGTERM, self._notice)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        # Children end by SIGTERM as usual: multiprocessing ends its own so, and waits for them without a limit.
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
        under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
        if under_torchrun:
            _die_with_parent()
        heartbeat = float(os.environ.get("ESPALIER_HEARTBEAT", "0"))
        patience = max(float(os.environ.get("ESPALIER_PATIENCE", "600")), 2.0 * start_seconds)
        self.control = Control(os.environ["ESPALIER_LAUNCHER"], self.token, heartbeat, patience)
        several = {"units": list(units)} if len(units) > 1 else {}
        self.control.hello(generation=self.generation, rank=self.rank, node=socket.gethostname(), pid=os.getpid(),
                           total_steps=steps, handoff="device", spare=True,
                           capabilities={"parallel": "data", "unit": units[0], **several, "global_batch": global_batch,
                                         "program": program_name(), "start_seconds": start_seconds,
                                         "missed_heartbeats": math.ceil(_SILENT_SECONDS / heartbeat) if heartbeat > 0 else 0,
                                         "handoff": ["device"], "adopt": False, "profile": "flat", "vault": True})
        self.hear_of_exceptions()
        assign = self.control.expect("assign")
        self.plan: Dict[str, Any] = assign["plan"]
        self.source: Optional[Dict[str, Any]] = assign.get("source")
        self.shares, self.unit = shares_of(self.plan, global_batch, units)  # unit: processes of a replica in this generation
        self.nodes: List[str] = nodes_of(self.plan)
        self.jobs: List[str] = jobs_of(self.plan, assign.get("jobs") or {})
        self.device = int(assign.get("device") or 0)
        if under_torchrun:
            os.environ["LOCAL_RANK"] = str(self.device)  # torchrun numbers the processes that it has started itself: one
        if os.environ.get("WORLD_SIZE", str(len(self.nodes))) != str(len(self.nodes)):
            raise ChannelError(f"the launcher's plan has {len(self.nodes)} processes, and WORLD_SIZE is "
                               f"{os.environ['WORLD_SIZE']}")

    def _notice(self, *_: Any) -> None:
        self._noticed = True

    def tell_notice(self) -> None:
        if self._noticed and self._extension:
            self.control.send("notice", job=self._extension)
        self._noticed = False

    trains_in: Optional[threading.Thread] = None  # None: it has not begun to train

    def hear_of_exceptions(self) -> None:
        """Those that nobody catches: in the main thread, and in the thread that trains."""
        sys.excepthook = self._last_words
        others = threading.excepthook

        def of_thread(ended: Any) -> None:
            if ended.thread is not None and ended.thread is self.trains_in and not issubclass(ended.exc_type, SystemExit):
                self._last_words(ended.exc_type, ended.exc_value, ended.exc_traceback)
            others(ended)

        threading.excepthook = of_thread

    def _last_words(self, kind: type, error: BaseException, trace: Any) -> None:
        if issubclass(kind, Leave):
            return
        traceback.print_exception(kind, error, trace)
        self.tell_failure(kind, error)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # what else would end may wait for processes that go on without this one

    def tell_failure(self, kind: type, error: BaseException) -> None:
        text = f"{kind.__name__}: {error}"
        if issubclass(kind, KeyboardInterrupt):
            text = "interrupted"
        self.control.farewell()
        peer = kind.__name__.startswith("Dist") or any(word in text for word in _PEER_LOST)
        memory = "out of memory" in text or issubclass(kind, MemoryError)
        self.control.send("failed", message=text[:2000], peer=peer, memory=memory)
