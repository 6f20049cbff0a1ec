"""Shared memory in which the state lives while it trains, so that its pages themselves are handed over, and no copy of them.

The memory is laid out as _state.py says: room for a head, the tensors that live here, and room for what does not. While this is the job, this
process alone maps it to write. freeze() puts a private mapping in the place of that one: what this process writes from then on goes to pages of its
own, and the memory never changes again. So whoever takes it over may keep it, whether this process goes on, ends, or is killed. Before a fork the
same is done, as a child must see the state of that moment, and must not write into this process's.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import time
import weakref
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import torch

from ._memory import SharedMemory
from ._named import Parts
from ._registered import innermost
from ._state import Packed, TooLarge, is_divided

_WORTH = 8 << 20   # bytes of tensors for which a move pays; fewer are copied in a few milliseconds
_LARGE = 16 << 10  # bytes of a tensor that moves
_SHARE, _LEAST_TOOK = 20, 0.05  # a move is due when so many times as long as the last one took, in seconds, has passed
_MORE = 4          # a head and what is copied may grow by this part, and by _LEAST_MORE bytes
_LEAST_MORE = 1 << 20  # pages that nobody writes take no memory
_TRIM = 16 << 20  # bytes that were freed and may still be the C library's
_PAGE = mmap.PAGESIZE
_MAP_NORESERVE, _MAP_FIXED = 0x4000, 0x10  # sys/mman.h


def _private_in_place(address: int, size: int, fd: int) -> None:
    """A private mapping of the whole file where another one was, with the same content. Raises OSError."""
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | _MAP_FIXED | _MAP_NORESERVE
    if call(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0) != address:
        number = ctypes.get_errno()
        raise OSError(number, f"a private mapping of {size} bytes: {os.strerror(number)}")


def _give_back() -> None:
    """The C library keeps what lay between other memory; the system gets it now."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc
    if trim is not None:
        trim(0)


def _users(tensor: torch.Tensor) -> int:
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)  # type: ignore[attr-defined,no-any-return]


def _can_move() -> bool:
    """Whether torch tells who uses memory, and private mappings need no memory of their own (they do where nothing is overcommitted)."""
    try:
        with open("/proc/sys/vm/overcommit_memory", encoding="ascii") as file:
            return hasattr(torch._C, "_storage_Use_Count") and file.read().strip() != "2"
    except OSError:
        return False


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _up(size: int, unit: int = _PAGE) -> int:
    return -(-size // unit) * unit


class _Frozen:
    """What every fork of this process does first. Weak: a training that is over keeps nothing."""

    def __init__(self, home: "Home") -> None:
        self._home = weakref.ref(home)

    def __call__(self) -> None:
        home = self._home()
        if home is not None:
            home.freeze()


class Home:
    def __init__(self, objects: Dict[str, Any], pack: "Callable[[int, Optional[Home]], Packed]") -> None:
        """objects: by registered name, unwrapped. pack: the state after a step, for memory like this one's or for other memory."""
        self._objects, self._pack = objects, pack
        self._memory: Optional[SharedMemory] = None  # None: the state is where torch has put it
        self._map: Optional[mmap.mmap] = None  # of the last memory in which it lived
        self._live = False  # this process writes the memory
        self._address = self._first = self._end = 0  # of the mapping; in it, of the tensors that live here
        self._able = _can_move()
        self._calls, self._at, self._took = 0, 0.0, 0.0
        os.register_at_fork(before=_Frozen(self))

    # ---- moving in

    def between_steps(self) -> None:
        """Moves the state where that is due: the optimizer has its state, and the last move, which a fork may have undone, was long ago.
        Where there is no memory the state stays where it is."""
        self._calls += 1
        if self._live or not self._able or self._calls < 2 or time.monotonic() - self._at < _SHARE * self._took:
            return
        begin = time.monotonic()
        try:
            self._move()
        except OSError:
            self.leave()
        self._at, self._took = time.monotonic(), max(time.monotonic() - begin, _LEAST_TOOK)

    def _move(self) -> None:
        """Tensor by tensor, so that no more than one of them is there twice. Raises OSError."""
        tensors = list(self._movable())
        size = sum(_up(_bytes_of(one)) for one in tensors)
        if size < _WORTH:
            return
        packed = self._pack(0, None)
        head = packed.head_bytes + packed.head_bytes // _MORE + _LEAST_MORE
        rest = max(0, packed.size - sum(map(_bytes_of, tensors)))
        self._first = _up(head)
        self._end = self._first + size
        del packed
        memory = SharedMemory(self._end + _up(rest + rest // _MORE + _LEAST_MORE), "espalier-live")
        self._close()
        before, old = self._map, self._address
        self._memory, self._map, at = memory, memory.map, self._first
        self._address = torch.frombuffer(memory.map, dtype=torch.uint8).data_ptr()
        self._live = True
        freed = 0
        for one in tensors:
            there, was = torch.frombuffer(memory.map, dtype=one.dtype, count=one.numel(), offset=at).view(one.shape), one.data_ptr()
            there.copy_(one.detach())
            one.data = there
            if before is not None and old <= was < old + len(before):
                before.madvise(mmap.MADV_DONTNEED, was - old, _up(_bytes_of(there)))  # pages of this process's own
            at += _up(_bytes_of(there))
            freed += _bytes_of(there)
            if freed >= _TRIM or one is tensors[-1]:
                freed = 0
                _give_back()

    def _movable(self) -> "Iterator[torch.Tensor]":
        """Parameters, buffers and what optimizers keep of them, each once. Not what is part of other memory, or has it together with another
        tensor: that one would not follow."""
        seen = set()
        for one in self._tensors():
            if (id(one) in seen or type(one) not in (torch.Tensor, torch.nn.Parameter) or one.device.type != "cpu" or one.layout != torch.strided
                    or _bytes_of(one) < _LARGE or not one.is_contiguous() or one.untyped_storage().nbytes() != _bytes_of(one)
                    or _users(one) > _ALONE):
                continue
            seen.add(id(one))
            yield one

    def _tensors(self) -> "Iterator[Any]":
        for one in self._parts():
            if isinstance(one, torch.nn.Module):
                yield from one.parameters()
                yield from one.buffers()
            elif isinstance(one, torch.optim.Optimizer):
                for state in innermost(one).state.values():
                    # Of a tensor that is divided, what is here. fully_shard() has parameters in memory that several tensors share.
                    yield from (value._local_tensor if is_divided(value) else value for value in state.values())

    def _parts(self) -> "Iterator[Any]":
        for one in self._objects.values():
            yield from one.parts if isinstance(one, Parts) else [one]

    # ---- handing over

    def pack(self, step: int) -> Optional[Packed]:
        """The state after `step`, of which only what does not live here is written by its write(). None: it does not live here, or what is
        to be copied has outgrown its room."""
        if not self._live:
            return None
        assert self._memory is not None
        try:
            return self._pack(step, self)
        except TooLarge:
            return None

    @property
    def layout(self) -> "Tuple[int, int, int]":
        """Bytes of the head, where what is copied begins, and bytes of all."""
        assert self._memory is not None
        return self._first, self._end, self._memory.size

    def offset(self, tensor: torch.Tensor) -> Optional[int]:
        """From the first tensor on, of one that lives here whole."""
        at = tensor.data_ptr() - self._address
        if tensor.device.type == "cpu" and tensor.is_contiguous() and self._first <= at and at + _bytes_of(tensor) <= self._end:
            return at - self._first
        return None

    def give(self, packed: Packed) -> int:
        """Completes the memory. Its descriptor, which remains this object's: it does not change any more. Raises OSError."""
        assert self._memory is not None
        packed.write(self._memory.map)
        self.freeze()
        return self._memory.fd

    def freeze(self) -> None:
        """Raises OSError."""
        if self._live:
            assert self._memory is not None
            _private_in_place(self._address, self._memory.size, self._memory.fd)
            self._live = False

    def leave(self) -> None:
        """The next generation has failed: this one trains on, on pages of its own wherever it writes."""
        self.freeze()
        self._close()

    def _close(self) -> None:
        """The descriptor alone: the tensors keep the mapping, without which they would be lost, as long as one of them looks into it."""
        if self._memory is not None:
            os.close(self._memory.fd)
            self._memory = None


_probe = torch.empty(1)
_ALONE = _users(_probe) if hasattr(torch._C, "_storage_Use_Count") else 0  # of a tensor that has its memory for itself
