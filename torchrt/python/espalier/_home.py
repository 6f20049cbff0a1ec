"""Shared memory in which the state lives while it trains, so that its pages themselves are handed over, and no copy of them.

The memory is laid out as _state.py says: room for a head, the tensors that live here, and room for what does not. While this is the job, this
process alone maps it to write. freeze() puts a private mapping in the place of that one: what this process writes from then on goes to pages of its
own, and the memory never changes again. So whoever takes it over may keep it, whether this process goes on, ends, or is killed. Before a fork the
same is done, as a child must see the state of that moment, and must not write into this process's. A process that forks once may fork each epoch, and
each time the state would be there twice. So after a fork the state goes back to torch's memory, and stays there; a change copies it then.
"""
from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, Optional, Set, Tuple

import torch

from . import _forks
from ._memory import SharedMemory
from ._named import Parts
from ._registered import innermost
from ._state import Packed, TooLarge, is_divided, was_read

_WORTH = 8 << 20   # bytes of tensors for which a move pays; fewer are copied in a few milliseconds
_LARGE = 16 << 10  # bytes of a tensor that moves
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
            known = hasattr(torch._C, "_storage_Use_Count") and hasattr(torch.UntypedStorage, "resizable")
            return known and file.read().strip() != "2"
    except OSError:
        return False


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _is_plain(one: Any) -> bool:
    """Other classes and layouts of tensors may have no address."""
    return type(one) in (torch.Tensor, torch.nn.Parameter) and one.device.type == "cpu" and one.layout == torch.strided


def _up(size: int, unit: int = _PAGE) -> int:
    return -(-size // unit) * unit


def _put(one: torch.Tensor, there: torch.Tensor) -> bool:
    """Moves a tensor to the memory of another one. False: something else looks into its memory by now, so it stays there."""
    there.copy_(one.detach())
    if _users(one) > _ALONE:
        return False
    was = one.detach()  # keeps its memory
    one.data = there
    if not was.untyped_storage().resizable():  # a private mapping of this package, whose pages nobody else has
        first, end = _up(was.data_ptr()), was.data_ptr() + _bytes_of(was)
        if first + _PAGE <= end:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t((end - first) // _PAGE * _PAGE), mmap.MADV_DONTNEED)
    return True


# Held where memory changes who writes it, and by a thread that forks until its child is there: the child must not begin between two of them.
_switch = threading.RLock()
_homes: "weakref.WeakSet[Home]" = weakref.WeakSet()  # a training that is over keeps nothing


def _before_fork() -> None:
    _switch.acquire()
    for home in list(_homes):
        home.freeze()


def _in_child() -> None:
    global _switch
    _switch = threading.RLock()  # other threads, which may have waited for it, are not there
    for home in list(_homes):
        home.is_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=lambda: _switch.release(), after_in_child=_in_child)


class Home:
    def __init__(self, objects: Dict[str, Any], pack: "Callable[[int, Optional[Home]], Packed]", rank: int = 0, able: bool = True) -> None:
        """objects: by registered name, unwrapped. pack: the state after a step, for memory like this one's or for other memory. rank: this
        process's, in what is said. able: whether the state may move."""
        self._objects, self._pack, self._rank = objects, pack, rank
        self._memory: Optional[SharedMemory] = None  # None: the state is where torch has put it, or no memory can be given any more
        self._map: Optional[mmap.mmap] = None  # of the last memory in which it lived, as long as tensors may be there
        self._live = False  # this process writes the memory
        self._address = self._first = self._end = 0  # of the mapping; in it, of the tensors that live here
        self._able = able and _can_move()
        self._calls = 0
        self._said: Set[str] = set()
        _homes.add(self)

    # ---- moving in and out

    def between_steps(self) -> None:
        """Moves the state where that is due: the optimizer has its state, and this process has not forked. Raises nothing: where it cannot
        move, the state stays where it is, and a change copies it."""
        self._calls += 1
        try:
            if _forks.count or not self._able:
                self._move_out()
            elif not self._live and self._calls > 1:
                self._move_in()
        except Exception as error:  # a state_dict() of the script's own may raise whatever it likes
            self._able = False
            self._say(f"the state cannot move into shared memory, and is copied at a change: {str(error) or type(error).__name__}")

    def _move_in(self) -> None:
        """Tensor by tensor, so that no more than one of them is there twice. Raises OSError, RuntimeError, and what a state_dict() raises."""
        tensors = list(self._movable())
        size = sum(_up(_bytes_of(one)) for one in tensors)
        if size < _WORTH:
            self._able = False
            return
        packed = self._pack(0, None)
        first = _up(packed.head_bytes + packed.head_bytes // _MORE + _LEAST_MORE)
        rest = max(0, packed.size - sum(map(_bytes_of, tensors)))
        del packed
        with _switch:
            if _forks.count:
                return
            memory = SharedMemory(first + size + _up(rest + rest // _MORE + _LEAST_MORE), "espalier-live")
            self._close()
            self._memory, self._map, self._first, self._end, at = memory, memory.map, first, first + size, first
            self._address = torch.frombuffer(memory.map, dtype=torch.uint8).data_ptr()
            self._live = True
            freed = 0
            for one in tensors:
                _put(one, torch.frombuffer(memory.map, dtype=one.dtype, count=one.numel(), offset=at).view(one.shape))
                at += _up(_bytes_of(one))
                freed += _bytes_of(one)
                if freed >= _TRIM or one is tensors[-1]:
                    freed = 0
                    _give_back()
            self._bring_back(was_read)  # what is small would keep all the memory that was taken over

    def _move_out(self) -> None:
        """Back to torch's memory, tensor by tensor, except what something else looks into. The mapping ends with the last that looks into it."""
        if self._map is None or not self.freeze():
            return
        try:
            self._close()
            self._bring_back(self._within)
        finally:
            self._map = None

    def _bring_back(self, which: "Callable[[torch.Tensor], bool]") -> None:
        for one in self._tensors():
            if _is_plain(one) and which(one) and _users(one) <= _ALONE:
                _put(one, torch.empty_like(one.detach()))

    def _movable(self) -> "Iterator[torch.Tensor]":
        """Parameters, buffers and what optimizers keep of them, each once."""
        seen = set()
        for one in self._tensors():
            if id(one) not in seen and _is_plain(one) and self._may_move(one):
                seen.add(id(one))
                yield one

    def _may_move(self, one: torch.Tensor) -> bool:
        """Not what is part of other memory, or has it together with another tensor, with another process, or with an array of NumPy: these would
        not follow. Nor pinned memory, which a GPU reads."""
        if _bytes_of(one) < _LARGE or not one.is_contiguous() or one.untyped_storage().nbytes() != _bytes_of(one) or _users(one) > _ALONE:
            return False
        # torch can resize what it has allocated; all else is somebody else's, or was taken over.
        known = one.untyped_storage().resizable() or self._within(one) or was_read(one)
        return known and not one.is_shared() and not one.is_pinned()

    def _within(self, one: torch.Tensor) -> bool:
        return self._map is not None and 0 <= one.data_ptr() - self._address < len(self._map)

    def _tensors(self) -> "Iterator[Any]":
        """Of the state: not buffers that are in no state_dict()."""
        for one in self._parts():
            if isinstance(one, torch.nn.Module):
                kept = {id(value) for value in one.state_dict(keep_vars=True).values()}
                yield from (value for value in [*one.parameters(), *one.buffers()] if id(value) in kept)
            elif isinstance(one, torch.optim.Optimizer):
                for state in innermost(one).state.values():
                    # Of a tensor that is divided, what is here. fully_shard() has parameters in memory that several tensors share.
                    yield from (value._local_tensor if is_divided(value) else value for value in state.values())

    def _parts(self) -> "Iterator[Any]":
        for one in self._objects.values():
            yield from one.parts if isinstance(one, Parts) else [one]

    # ---- handing over

    def pack(self, step: int) -> Optional[Packed]:
        """The state after `step`, of which only what does not live here is written by its write(). None: it does not live here, what is to be
        copied has outgrown its room, or the script has replaced so many tensors by others that most pages are of none any more."""
        if not self._live:
            return None
        try:
            packed = self._pack(step, self)
        except TooLarge:
            return None
        return packed if 2 * packed.in_place >= self._end - self._first else None

    @property
    def layout(self) -> "Tuple[int, int, int]":
        """Bytes of the head, where what is copied begins, and bytes of all."""
        assert self._memory is not None
        return self._first, self._end, self._memory.size

    def offset(self, tensor: torch.Tensor) -> Optional[int]:
        """From the first tensor on, of one that lives here whole."""
        at = tensor.data_ptr() - self._address if _is_plain(tensor) and tensor.is_contiguous() else -1
        return at - self._first if self._first <= at and at + _bytes_of(tensor) <= self._end else None

    def give(self, packed: Packed) -> Optional[int]:
        """Completes the memory. Its descriptor, which remains this object's: it does not change any more. None: another thread has forked
        since pack(), or the memory cannot be frozen, so a copy must be given."""
        with _switch:
            if not self._live:
                return None
            assert self._memory is not None
            packed.write(self._memory.map)
            # A signal's handler may have forked in the meantime: what was written then is this process's own.
            return self._memory.fd if self._live and self.freeze() else None

    def freeze(self) -> bool:
        """Whether what this process writes is its own from here on. False: the system has refused the mapping, and all is as before."""
        with _switch:
            if self._live:
                assert self._memory is not None
                try:
                    _private_in_place(self._address, self._memory.size, self._memory.fd)
                except OSError as error:
                    self._say(f"the state's memory cannot be frozen: {error}")
                    return False
                self._live = False
            return True

    def is_in_child(self) -> None:
        """Of this process, which was forked. Where freeze() has failed before, it would write into its parent's state."""
        self._able = False
        if not self.freeze():
            print(f"espalier: worker: rank {self._rank}: its child {os.getpid()} ends, which would write into the state of its parent; let the "
                  "system give more mappings (vm.max_map_count), or call espalier.join(hand_over_pages=False)", file=sys.stderr, flush=True)
            os._exit(1)

    def leave(self) -> None:
        """The next generation has failed: this one trains on, on pages of its own wherever it writes."""
        if self.freeze():
            self._close()

    def _close(self) -> None:
        """The descriptor alone: the tensors keep the mapping, without which they would be lost, as long as one of them looks into it."""
        if self._memory is not None:
            os.close(self._memory.fd)
            self._memory = None

    def _say(self, what: str) -> None:
        if what not in self._said:
            self._said.add(what)
            print(f"espalier: worker: rank {self._rank}: {what}", file=sys.stderr, flush=True)


_probe = torch.empty(1, device="cpu")
_ALONE = _users(_probe) if hasattr(torch._C, "_storage_Use_Count") else 0  # of a tensor that has its memory for itself
