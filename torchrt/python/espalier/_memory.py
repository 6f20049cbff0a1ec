"""Memory that processes of one node share by descriptor, and sockets in the abstract namespace that pass descriptors."""
from __future__ import annotations

import array
import errno
import fcntl
import mmap
import os
import socket
import struct
from typing import List, Optional, Tuple

_ADD_SEALS, _SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW = 1033, 1, 2, 4  # fcntl.h; Python 3.9 has no names for them


class SharedMemory:
    """A memfd, sealed against changes of its size, mapped into this process. Owns both; close() or the end frees them."""

    def __init__(self, size: int, name: str = "espalier-state") -> None:
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            fcntl.fcntl(self.fd, _ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL)
            self.map = mmap.mmap(self.fd, size)
        except BaseException:
            os.close(self.fd)
            raise
        self.size = size

    def close(self) -> None:
        """Tensors that look into the memory keep the mapping."""
        try:
            self.map.close()
        except BufferError:
            pass
        os.close(self.fd)


def private_map(fd: int) -> mmap.mmap:
    """What the memory holds, as a copy that is made page by page when this process writes: nobody else sees it."""
    return mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_COPY)


def written_bytes(fd: int) -> int:
    """Of memory or a file: up to the last page that was written. What is beyond is zeros, as the room that a state may grow by (_home.py)."""
    end, size = 0, os.fstat(fd).st_size
    while end < size:
        try:
            end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            return end if error.errno == errno.ENXIO else size  # ENXIO: no more data
    return size


def abstract_sockets(prefix: str) -> List[str]:
    """Names of listening sockets of this node's abstract namespace that begin with `prefix`."""
    names = set()
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name = line.rstrip("\n").partition("@")[2]
            if name.startswith(prefix):
                names.add(name)
    return sorted(names)


def peer_uid(connection: socket.socket) -> int:
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]


def connect(name: str, seconds: float) -> socket.socket:
    """Raises OSError, also when another user listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(seconds)
        connection.connect("\0" + name)
        if peer_uid(connection) != os.geteuid():
            raise PermissionError(f"socket {name}: another user listens there")
    except BaseException:
        connection.close()
        raise
    return connection


def send_packet(connection: socket.socket, packet: bytes, fd: Optional[int] = None) -> None:
    ancillary = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
    connection.sendmsg([packet], ancillary)


def receive_packet(connection: socket.socket, most: int) -> Tuple[bytes, Optional[int]]:
    """The packet and the descriptor that came with it, which the caller closes. Raises OSError, also at the end."""
    packet, ancillary, flags, _ = connection.recvmsg(most, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    fd = None
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS and len(data) >= 4:
            fd = struct.unpack("i", data[:4])[0]
    if not packet or flags & socket.MSG_TRUNC:
        if fd is not None:
            os.close(fd)
        raise ConnectionError("the socket's other side has ended, or sent too much")
    return packet, fd
