"""Parts of a state between nodes: each process serves its memory to the processes of the next generation over TCP.

A connection begins with a proof by both sides that they have the key of the job's servers, which follows from the job's token and goes
nowhere. The proof is for the server's address and port, so that nobody passes a connection on to another server. Then the client names the
memory that it wants and asks for ranges of it. What it reads of another process's head is sealed (_state.py). The bytes themselves are as
open as those of the process group.
"""
from __future__ import annotations

import ctypes
import hmac
import mmap
import os
import socket
import struct
import threading
import time
from typing import Any, Dict, List, Sequence, Tuple

import torch

from ._forks import not_for_children
from ._keys import key_for, seal_of, tag_of
from ._network import own_address
from ._state import StateError, head_bytes, read_head

_SECONDS = 600.0   # for memory to be there, and for each piece of it
_LOGIN_SECONDS = 10.0
_NONCE, _PROOF = 16, 32
_COUNT, _RANGE = struct.Struct("<I"), struct.Struct("<QQ")
_MOST_RANGES = 1 << 20
# Connections whose login has not ended. A login takes a millisecond and each process has one at a time, so more than some are not of this job.
_MOST_STRANGERS = 256


def _receive(connection: socket.socket, into: Any) -> None:
    view = memoryview(into).cast("B")
    while len(view):
        count = connection.recv_into(view)
        if count == 0:
            raise ConnectionError("the other side has ended")
        view = view[count:]


def _received(connection: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    _receive(connection, data)
    return bytes(data)


def _buffer(tensor: torch.Tensor) -> Any:
    """The memory of a contiguous tensor, which must outlive it."""
    return (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())


class _Proof:
    """That a side of a connection to a server has the token."""

    def __init__(self, token: str, host: str, port: int) -> None:
        self._key, self._where = key_for(token, "state server"), f"{host}:{port}".encode()

    def of(self, side: bytes, nonces: bytes) -> bytes:
        return tag_of(self._key, self._where, side, nonces)


class Server:
    """Listens for the process's life. Anybody who has not the token is hung up on. Where too many have not shown it yet, the one that has
    had most time for it is hung up on first: so those who say nothing keep nobody out."""

    def __init__(self, token: str) -> None:
        host = own_address()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = not_for_children(socket.create_server((host, 0), family=family, backlog=128))
        self.address: Tuple[str, int] = (host, self._listener.getsockname()[1])
        self._proof = _Proof(token, *self.address)
        self._memories: Dict[str, mmap.mmap] = {}
        self._changed = threading.Condition()
        self._strangers: "Dict[socket.socket, None]" = {}  # the oldest first
        self._admitting = threading.Lock()
        threading.Thread(target=self._accept, name="espalier-shards", daemon=True).start()

    def provide(self, name: str, fd: int) -> None:
        """The memory does not change until withdraw(). The descriptor remains the caller's."""
        memory = mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ)
        with self._changed:
            self._memories[name] = memory
            self._changed.notify_all()

    def withdraw(self, name: str) -> None:
        with self._changed:
            self._memories.pop(name, None)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the other side has ended, or this process has no descriptor left for now
                time.sleep(0.1)
                continue
            self._meet(not_for_children(connection))
            try:
                threading.Thread(target=self._serve, args=(connection,), name="espalier-shards", daemon=True).start()
            except RuntimeError:  # no thread can be started now
                self._forget(connection)
                connection.close()

    def _meet(self, connection: socket.socket) -> None:
        with self._admitting:
            self._strangers[connection] = None
            if len(self._strangers) > _MOST_STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                try:
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
                except OSError:
                    pass  # the other side has ended

    def _forget(self, connection: socket.socket) -> None:
        with self._admitting:
            self._strangers.pop(connection, None)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._answer(connection)
            except (OSError, ValueError):
                return
            finally:
                self._forget(connection)  # before it is closed

    def _answer(self, connection: socket.socket) -> None:
        """Raises OSError and ValueError where the other side ends, or says what cannot be."""
        connection.settimeout(_LOGIN_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        nonces = os.urandom(_NONCE)
        connection.sendall(nonces)
        said = _received(connection, _NONCE + _PROOF)
        nonces += said[:_NONCE]
        if not hmac.compare_digest(said[_NONCE:], self._proof.of(b"client", nonces)):
            return
        self._forget(connection)
        connection.sendall(self._proof.of(b"server", nonces))
        name = _received(connection, _COUNT.unpack(_received(connection, _COUNT.size))[0] & 0xFFFF).decode()
        memory = self._waited(name)
        connection.settimeout(_SECONDS)
        while memory is not None:
            count = _COUNT.unpack(_received(connection, _COUNT.size))[0]
            ranges = _received(connection, min(count, _MOST_RANGES) * _RANGE.size)
            with memoryview(memory) as view:
                for offset, size in _RANGE.iter_unpack(ranges):
                    if offset + size > len(view):
                        return
                    with view[offset:offset + size] as piece:
                        connection.sendall(piece)

    def _waited(self, name: str) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: name in self._memories, _SECONDS)
            return self._memories.get(name)


class Far:
    """A shelf (see _shards) whose memory another process serves."""

    near = False

    def __init__(self, address: Sequence[Any], name: str, token: str) -> None:
        host, port = str(address[0]), int(address[1])
        proof = _Proof(token, host, port)
        try:
            self._connection = socket.create_connection((host, port), _LOGIN_SECONDS)
        except OSError as error:
            raise StateError(f"{host}:{port}, part of the state {name}: {error}") from error
        try:
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nonces = _received(self._connection, _NONCE) + os.urandom(_NONCE)
            self._connection.sendall(nonces[_NONCE:] + proof.of(b"client", nonces))
            if not hmac.compare_digest(_received(self._connection, _PROOF), proof.of(b"server", nonces)):
                raise StateError(f"{host}:{port}: what listens there is not a process of this job")
            self._connection.settimeout(_SECONDS)
            self._connection.sendall(_COUNT.pack(len(name)) + name.encode())
            begin = bytearray(16)
            self._read([(0, begin)])
            head = bytearray(head_bytes(bytes(begin)))
            self._read([(0, head)])
            self.head = read_head(bytes(head), seal_of(token))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise StateError(f"{host}:{port}, part of the state {name}: {error}") from error
            raise

    def _read(self, wanted: "List[Tuple[int, Any]]") -> None:
        for at in range(0, len(wanted), _MOST_RANGES):
            some = wanted[at:at + _MOST_RANGES]
            asked = b"".join(_RANGE.pack(offset, memoryview(into).nbytes) for offset, into in some)
            self._connection.sendall(_COUNT.pack(len(some)) + asked)
            for _, into in some:
                _receive(self._connection, into)

    def fetch(self, wanted: "List[Tuple[int, torch.Tensor]]") -> None:
        try:
            self._read([(offset, _buffer(tensor)) for offset, tensor in wanted if tensor.numel()])
        except OSError as error:
            raise StateError(f"{self._connection.getpeername()}: {error}") from error

    def close(self) -> None:
        self._connection.close()
