"""How the state of one generation comes to the ranks of the next: by shared memory on a node, by broadcast to other nodes.

On each node of the old generation its lowest rank writes the state into memory and offers the descriptor (Offer). Every new
rank on such a node maps it. On a node without old ranks the lowest new rank receives the state over the network, and offers
it to the others there. After a loss the vaults take the part of the old ranks.
"""
from __future__ import annotations

import os
import socket
import struct
import threading
import time
from typing import Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from . import _vault
from ._forks import not_for_children
from ._groups import patience
from ._keys import key_for
from ._memory import SharedMemory, connect, peer_uid, private_map, receive_packet, send_packet, written_bytes
from ._state import StateError

_SECONDS = 600.0
_CLOSE_SECONDS = 5.0  # the thread wakes at once, or after the packet that it sends
_CHUNK = 16 << 20  # bytes of one broadcast
_STEP = struct.Struct("@q")


def offer_name(token: str, generation: int, rank: int, received: bool = False) -> str:
    """Nobody who has not the job's token can guess it, also not from the names of other ranks and generations, which all users of the node see.
    received: of state from another node, which the rank offers to this node's other processes."""
    kind = "received" if received else "state"
    return f"espalier-{kind}-{generation}-{rank}-{key_for(token, f'{kind} at {generation} {rank}').hex()[:32]}"


class Offer:
    """Listens from the beginning until close(), and answers with the descriptor once there is one. What is offered may be withdrawn, and other
    memory be offered in its place: the name stays this process's all the time."""

    def __init__(self, name: str) -> None:
        self._listener = not_for_children(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC))
        self._listener.bind("\0" + name)
        self._listener.listen(128)
        self._changed = threading.Condition()
        self._fd, self._step = -1, -1
        self._withdrawn = 0  # how often
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="espalier-offer", daemon=True)
        self._thread.start()

    def provide(self, step: int, fd: int) -> None:
        """The memory does not change until withdraw() or close(). The descriptor remains the caller's."""
        with self._changed:
            self._fd, self._step = os.dup(fd), step
            self._changed.notify_all()

    def withdraw(self) -> None:
        """Who has waited since before this call is hung up on: the generation of which it is has failed."""
        with self._changed:
            fd, self._fd = self._fd, -1
            self._withdrawn += 1
            self._changed.notify_all()
        if fd >= 0:
            os.close(fd)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the other side has ended, or this process has no descriptor left for now
                if self._closed:
                    return
                time.sleep(0.1)
                continue
            with not_for_children(connection):
                try:
                    if peer_uid(connection) == os.geteuid():
                        self._answer(connection)
                except OSError:
                    continue

    def _answer(self, connection: socket.socket) -> None:
        """Raises OSError."""
        with self._changed:
            withdrawn = self._withdrawn
            self._changed.wait_for(lambda: self._fd >= 0 or self._withdrawn != withdrawn, _SECONDS)
            if self._fd < 0 or self._withdrawn != withdrawn:
                return
            fd, step = os.dup(self._fd), self._step
        try:
            send_packet(connection, _STEP.pack(step), fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        self._closed = True
        self.withdraw()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        except OSError:
            pass
        # A thread inside accept() keeps the socket, and with it the name, which the next hand-off of this rank may need.
        self._thread.join(_CLOSE_SECONDS)
        self._listener.close()


def take(name: str) -> "tuple[int, int]":
    """The step and the descriptor that is offered at `name`; the caller closes it. Waits for the offer."""
    until = time.monotonic() + _SECONDS
    while True:
        try:
            with connect(name, _SECONDS) as connection:
                packet, fd = receive_packet(connection, _STEP.size)
                if fd is None:
                    raise ConnectionError("no descriptor came")
                return _STEP.unpack(packet)[0], fd
        except (ConnectionRefusedError, FileNotFoundError):
            if time.monotonic() > until:
                raise StateError(f"nobody on this node offers the state within {_SECONDS:.0f} s") from None
            time.sleep(0.005)


def lowest_by_node(nodes: Sequence[str]) -> Dict[str, int]:
    """The lowest rank of each node."""
    lowest: Dict[str, int] = {}
    for rank, node in enumerate(nodes):
        lowest.setdefault(node, rank)
    return lowest


class Found:
    """Memory with the state after `step`, found on this node. Owns the descriptor."""

    def __init__(self, step: int, fd: int, remote: bool = False) -> None:
        self.step, self.fd, self.remote = step, fd, remote


def spread(found: Optional[Found], nodes: Sequence[str], own: int, have: Sequence[bool], ranks: Sequence[int],
           offer: Callable[[int], str]) -> "tuple[Found, Optional[Offer]]":
    """Every process of `ranks` gets the state that they all have whole. The other lists go by the place in `ranks`: nodes, and
    `have`, whether that process found the state on its node, the same on all of them; `own`: this process's place. `offer`: the
    name at which a receiver of this rank offers it to its node. Collective over `ranks`."""
    giver = list(have).index(True)
    receivers = [at for at in lowest_by_node(nodes).values() if not have[at]]
    if not receivers:
        assert found is not None
        return found, None
    own_receiver = None if have[own] else lowest_by_node(nodes)[nodes[own]]
    if own != giver and own != own_receiver:
        if found is not None:
            return found, None
        step, fd = take(offer(ranks[own_receiver]))  # type: ignore[index]
        return Found(step, fd, True), None
    # Other processes do not take part: those of a replica's other places have other parts of the state.
    meeting = dist.new_group(sorted(ranks[at] for at in [giver] + receivers), backend="gloo", use_local_synchronization=True, **patience(True))
    head = torch.zeros(2, dtype=torch.int64, device="cpu")
    if own == giver:
        assert found is not None
        head = torch.tensor([found.step, written_bytes(found.fd)], dtype=torch.int64, device="cpu")
    else:
        local = Offer(offer(ranks[own]))
    dist.broadcast(head, ranks[giver], group=meeting)
    size = int(head[1])
    if own == giver:
        assert found is not None
        memory = private_map(found.fd)
    else:
        received = SharedMemory(size)
        memory = received.map
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    for first in range(0, size, _CHUNK):
        dist.broadcast(whole[first:min(first + _CHUNK, size)], ranks[giver], group=meeting)
    if own == giver:
        assert found is not None
        return found, None
    del whole
    local.provide(int(head[0]), received.fd)
    return Found(int(head[0]), received.fd, True), local


def from_vaults(base: str, lost: "List[tuple[int, Optional[int]]]", asker: int) -> "List[tuple[int, int, _vault.Item]]":
    """What this node's vaults hold of lost generations: (step, generation, item), the best first. `lost`: generations
    with the newest step that counts."""
    found = []
    for generation, newest in lost:
        for item in _vault.inventory(base, generation, asker):
            if newest is None or item.step <= newest:
                found.append((item.step, generation, item))
    return sorted(found, key=lambda one: (-one[0], -one[1], one[2]))
