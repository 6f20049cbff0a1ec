"""A process that was started ahead and has loaded torch makes others by fork(), so that torch is loaded once and not by each of them.

espalier-launch(1), "Spares", tells what the launcher's side does.
"""
from __future__ import annotations

import array
import ctypes
import gc
import os
import signal
import socket
import sys
import time
from typing import List, Optional, Set

_PR_SET_PDEATHSIG = 1
_INTS = array.array("i").itemsize


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def _open_files() -> Set[int]:
    """Descriptors beside the standard ones. That of the folder itself is closed again when this returns."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue
        found.add(int(name))
    return found - {0, 1, 2}


def _poisoned() -> bool:
    """A device's library that has been asked for anything, if only how many devices there are, works in no process forked from then on. To
    be called in a forked process."""
    torch = sys.modules.get("torch")
    for name in "_cuda_isInBadFork", "_xpu_isInBadFork", "_hip_isInBadFork":
        ask = getattr(getattr(torch, "_C", None), name, None)
        if ask is not None and ask():
            return True
    return False


def _may_fork(server: socket.socket) -> bool:
    """Whether a copy of this process is as good as one that has loaded by itself.

    A library that is prepared for fork(), such as NumPy's OpenBLAS, ends its threads before one. Threads that are still there after a
    fork belong to one that is not. Copies would share the position in an open file, and a device's file works in one process."""
    try:
        if _open_files() != {server.fileno()}:
            return False
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = int(_poisoned())
            finally:
                os._exit(code)
        for _ in range(200):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status == 0 and _threads() == 1
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except OSError:
        pass
    return False


def _receive(server: socket.socket) -> Optional[List[int]]:
    """The descriptors of a request: the new process's socket, standard output and standard error. None: nobody will ask any more."""
    byte, ancillary, _, _ = server.recvmsg(1, socket.CMSG_SPACE(3 * _INTS))
    if not byte:
        return None
    numbers = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) - len(data) % _INTS])
    return list(numbers)


def _make(request: List[int], parent: int) -> bool:
    """A process between this one and the new one ends at once, so that the new one becomes the child of `parent`. True in the new
    process, once it is."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        between = os.fork()
    except OSError:  # the request's socket tells it by its end
        os.close(reader)
        os.close(writer)
        return False
    if between:
        os.close(reader)
        os.waitpid(between, 0)
        os.close(writer)
        return False
    try:
        made = os.fork()
    except OSError:
        os._exit(1)
    if made:
        os._exit(0)
    os.close(writer)
    os.read(reader, 1)  # ends when the process between has been reaped
    os.close(reader)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before prctl
    os.setpgid(0, 0)
    os.dup2(request[1], 1)
    os.dup2(request[2], 2)
    os.close(request[1])
    os.close(request[2])
    # Each process draws numbers of its own, as if it had imported these itself. Python's own generator is seeded by fork().
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
    fingerprints = getattr(sys.modules.get("datasets.fingerprint"), "fingerprint_rng", None)
    if fingerprints is not None:
        fingerprints.seed()
    return True


def serve_forks(server: socket.socket) -> socket.socket:
    """Serves until the launcher closes the socket, and then ends this process. Returns in each process that it has made: the socket on
    which that one is told who it is. Returns `server` itself, at once, where this process must not fork."""
    parent = os.getppid()
    if parent <= 0 or not _may_fork(server):
        return server
    gc.collect()
    gc.freeze()  # the pages of what is loaded stay shared
    try:
        server.send(b"f", socket.MSG_NOSIGNAL)
        while True:
            request = _receive(server)
            if request is None:
                break
            if len(request) == 3 and _make(request, parent):
                server.close()
                return socket.socket(fileno=request[0])
            for one in request:
                os.close(one)
    except OSError:
        pass
    os._exit(0)
