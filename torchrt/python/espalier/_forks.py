"""Whether this process has been forked since it joined the job, and what its children do not get. Worker processes of a DataLoader are
forked, and a script may call os.fork(). Imports no torch. A program that subprocess starts is no such child: it does not see this process's
memory, and has none of its descriptors."""
from __future__ import annotations

import os
import socket
import weakref

count = 0
_sockets: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()


def begin() -> None:
    global count
    count = 0


def _one_more() -> None:
    global count
    count += 1


def not_for_children(one: socket.socket) -> socket.socket:
    """The same socket, which each process that is forked from this one closes at once. Else a child that outlives this process would hold
    its names, ports and connections, and others would take this process for one that lives."""
    _sockets.add(one)
    return one


def _in_child() -> None:
    begin()
    for one in list(_sockets):
        one.close()
    _sockets.clear()


os.register_at_fork(before=_one_more, after_in_child=_in_child)
