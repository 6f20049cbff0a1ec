"""The node's vault: a process of Espalier that holds descriptors of workers' memory, and outlives the workers.

The packets are those of planner/wire/vault_message.hpp, in host byte order; espalier-worker(7) tells them. A snapshot of the
whole state is one deposit (unit 0, rank: the depositor's own) in a slot above 0, with a mark: the step whose state it is. Where
the state is divided, each process's part is a deposit, and one with its rank by a process of another node is a copy of it.
"""
from __future__ import annotations

import os
import socket
import struct
from typing import List, NamedTuple, Optional

from ._forks import not_for_children
from ._memory import SharedMemory, abstract_sockets, connect, receive_packet, send_packet

_REQUEST = struct.Struct("@4siiiiiiiiiQ")  # magic kind generation asker holder rank unit slot mark reserved bytes
_REPLY = struct.Struct("@4siii112s")       # magic kind items reserved reason
_ITEM = struct.Struct("@iiiiqQ")           # holder rank unit slot step bytes
_MAGIC = b"ESP1"
_HELLO, _DEPOSIT, _INVENTORY, _FETCH = range(4)
_DONE, _MORE, _REFUSED = range(3)
_MARKS = 64  # bytes before the marks
_SECONDS = 5.0
SLOTS = (1, 2)


class VaultError(OSError):
    pass


class Item(NamedTuple):
    vault: str
    holder: int
    rank: int
    slot: int
    step: int
    bytes: int

    def fetch(self, generation: int) -> int:
        """A descriptor of the deposit's memory, which the caller closes."""
        with connect(self.vault, _SECONDS) as connection:
            _ask(connection, _FETCH, generation=generation, holder=self.holder, rank=self.rank, slot=self.slot)
            _, _, fd = _hear(connection)
            if fd is None:
                raise VaultError("vault: sent no descriptor")
            return fd


def _ask(connection: socket.socket, kind: int, *, generation: int = 0, asker: int = 0, holder: int = 0, rank: int = 0,
         slot: int = 0, mark: int = 0, size: int = 0, fd: Optional[int] = None) -> None:
    send_packet(connection, _REQUEST.pack(_MAGIC, kind, generation, asker, holder, rank, 0, slot, mark, 0, size), fd)


def _hear(connection: socket.socket) -> "tuple[int, bytes, Optional[int]]":
    packet, fd = receive_packet(connection, 1 << 16)
    if len(packet) < _REPLY.size:
        raise VaultError("vault: an answer is too short")
    magic, kind, items, _, reason = _REPLY.unpack_from(packet)
    rest = packet[_REPLY.size:]
    if magic != _MAGIC or len(rest) != items * _ITEM.size:
        raise VaultError("vault: an answer is malformed; launcher and package are of different versions")
    if kind == _REFUSED:
        raise VaultError("vault: " + reason.split(b"\0")[0].decode(errors="replace"))
    return kind, rest, fd


def own_vault(base: str, owner: str) -> Optional[str]:
    """The name of the vault of the Slurm job `owner` on this node. Where another user took the name, it has a longer one."""
    names = [n for n in abstract_sockets(f"{base}-{owner}") if n == f"{base}-{owner}" or n.startswith(f"{base}-{owner}.")]
    for name in names:
        try:
            connect(name, _SECONDS).close()
            return name
        except OSError:
            continue
    return None


class Line:
    """This worker's line to a vault, for as long as it lives. Each deposit has a mark: the step whose state it holds."""

    def __init__(self, vault: str, generation: int, rank: int, marks: int) -> None:
        self._marks = SharedMemory(_MARKS + 8 * marks, "espalier-marks")
        struct.pack_into("@q", self._marks.map, 0, -1)
        for index in range(marks):
            self.mark(index, -1)
        self._connection = not_for_children(connect(vault, _SECONDS))
        _ask(self._connection, _HELLO, generation=generation, rank=rank, size=self._marks.size, fd=self._marks.fd)
        _hear(self._connection)

    def mark(self, index: int, step: int) -> None:
        """A step of -1: the memory is about to change, and is no state until it has another mark."""
        struct.pack_into("@q", self._marks.map, _MARKS + 8 * index, step)

    def deposit(self, mark: int, rank: int, slot: int, step: int, fd: int) -> None:
        """The memory holds the state of `rank` after `step`, whole. slot: 0 or 1."""
        self.mark(mark, -1)
        _ask(self._connection, _DEPOSIT, rank=rank, slot=SLOTS[slot], mark=mark, size=os.fstat(fd).st_size, fd=fd)
        _hear(self._connection)
        self.mark(mark, step)

    def close(self) -> None:
        self._connection.close()
        self._marks.close()


def inventory(base: str, generation: int, asker: int) -> List[Item]:
    """What all vaults of the job on this node hold whole of a lost generation. The vaults first end workers of
    generations before `asker` that still live."""
    found: List[Item] = []
    for name in abstract_sockets(base + "-"):
        try:
            with connect(name, _SECONDS) as connection:
                _ask(connection, _INVENTORY, generation=generation, asker=asker)
                kind = _MORE
                while kind == _MORE:
                    kind, rest, _ = _hear(connection)
                    for holder, rank, _unit, slot, step, size in _ITEM.iter_unpack(rest):
                        if step >= 0 and slot in SLOTS:
                            found.append(Item(name, holder, rank, slot, step, size))
        except OSError:
            continue  # a vault that ends holds nothing for anybody
    return found

