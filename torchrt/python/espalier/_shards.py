"""State that is divided among processes (FSDP2, DTensor): what another number of processes takes of it.

Each process's memory is a shelf: it holds one block of each divided tensor, and a copy of each other one. A process of the
next generation needs other blocks. It reads exactly the rows that they have in common with each shelf's. It looks only at shelves that have
some of them (Search): as many as its blocks lie on, however many processes there are.
"""
from __future__ import annotations

import hashlib
import math
import mmap
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch

from ._alike import check_alike
from ._named import Modules, Needs, Optimizers, Parts
from ._state import Head, Part, Place, StateError, box_of, copies, head_of, is_divided, like, mapped, returned

Box = Tuple[Tuple[int, ...], Tuple[int, ...]]  # start and shape


class Shelf:
    """The memory of one process, in this node's memory (this class) or elsewhere (_transfer.Far)."""

    near = True

    def __init__(self, fd: int, seal: bytes = b"") -> None:
        """The descriptor remains the caller's. seal: see read_head()."""
        self._map = mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_COPY)
        self.head: Head = head_of(self._map, seal)

    def fetch(self, wanted: "List[Tuple[int, torch.Tensor]]") -> None:
        """Fills each tensor (contiguous) with the bytes from an offset on."""
        for offset, tensor in wanted:
            there = torch.frombuffer(self._map, dtype=torch.uint8, count=tensor.numel() * tensor.element_size(), offset=offset)
            _bytes(tensor).copy_(there)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(-1).view(torch.uint8)


def common(one: Box, other: Box) -> Box:
    """A shape with a 0 where they have nothing in common."""
    start = tuple(max(a, b) for a, b in zip(one[0], other[0]))
    shape = tuple(max(0, min(a + n, b + m) - s) for a, n, b, m, s in zip(one[0], one[1], other[0], other[1], start))
    return start, shape


def _within(box: Box, outer: Box) -> "Tuple[slice, ...]":
    return tuple(slice(a - b, a - b + n) for a, n, b in zip(box[0], box[1], outer[0]))


class _Cover:
    """How much of a block lies in the places that were added. What two hold is counted once."""

    def __init__(self, target: Box) -> None:
        self.target, self.left = target, math.prod(target[1])
        self.boxes: Dict[Box, int] = {}  # with something of the block, and the rank that has each
        self.sample: Optional[Tuple[int, Part]] = None  # the largest part that was added, and whose it is

    def add(self, rank: int, place: Any) -> "Optional[Tuple[Box, Box]]":
        """The place's box, and what that has in common with the block. None: nothing more than others had."""
        box = (place.start, place.shape) if isinstance(place, Part) else ((0,) * len(place.shape), place.shape)
        if isinstance(place, Part) and math.prod(place.shape) > (math.prod(self.sample[1].shape) if self.sample else 0):
            self.sample = rank, place
        shared = common(box, self.target)
        count = math.prod(shared[1])
        if count == 0 or box in self.boxes:
            return None
        self.boxes[box] = rank
        self.left -= count
        return box, shared

    def guess(self) -> Optional[int]:
        """The rank that may have the first rows that lack: where ranks one after the other have blocks one after the other, it has them."""
        if self.sample is None:
            return None
        rank, part = self.sample
        cut = next((at for at, size in enumerate(part.shape) if size != part.whole[at]), None)
        if cut is None:
            return None
        row = self.target[0][cut]
        for start, shape in sorted(self.boxes, key=lambda box: box[0][cut]):
            if start[cut] <= row:
                row = max(row, start[cut] + shape[cut])
        return rank + (row - part.start[cut]) // part.shape[cut]


class Reading:
    """Collects what is needed of the shelves, then reads it."""

    def __init__(self, shelves: Sequence[Any]) -> None:
        self._wanted: List[List[Tuple[int, torch.Tensor]]] = [[] for _ in shelves]
        self._after: List[Tuple[torch.Tensor, torch.Tensor]] = []  # where to, and the columns that were read with others
        self._shelves = shelves
        self.near_bytes = self.far_bytes = 0

    def block(self, places: "List[Tuple[int, Any]]", target: Box, dtype: torch.dtype, what: str) -> torch.Tensor:
        """The block `target` of a tensor that lies in `places`: shelves (indices; what comes first is preferred) with the
        Part or Place there. Filled by run()."""
        made, cover = torch.empty(target[1], dtype=dtype, device="cpu"), _Cover(target)
        for shelf, place in places:
            fresh = cover.add(shelf, place)
            if fresh is not None:
                box, shared = fresh
                self._rows(shelf, place, box, shared, made[_within(shared, target)] if target[1] else made)
        if cover.left:
            raise StateError(f"{what}: {made.numel()} elements are needed, and {made.numel() - cover.left} of them are there")
        return made

    def _rows(self, shelf: int, place: Any, box: Box, shared: Box, into: torch.Tensor) -> None:
        """Rows (of the first dimension) lie one after the other. Where only a part of each is needed, all of it is read."""
        size, row = into.element_size(), math.prod(box[1][1:])
        first = (shared[0][0] - box[0][0]) * row if box[1] else 0
        rows = (shared[1][0],) + box[1][1:] if box[1] else ()
        buffer = into if into.is_contiguous() and into.shape == rows else torch.empty(rows, dtype=into.dtype, device="cpu")
        if buffer is not into:
            columns = (slice(None),) + _within(shared, box)[1:]
            self._after.append((into, buffer[columns]))
        self._wanted[shelf].append((self._shelves[shelf].head.first + place.offset + first * size, buffer))
        if self._shelves[shelf].near:
            self.near_bytes += buffer.numel() * size
        else:
            self.far_bytes += buffer.numel() * size

    def run(self) -> None:
        for shelf, wanted in zip(self._shelves, self._wanted):
            if wanted:
                shelf.fetch(wanted)
        for into, there in self._after:
            into.copy_(there)


def _leaves(tree: Any, path: Tuple[Any, ...] = ()) -> Dict[Tuple[Any, ...], Any]:
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, (list, tuple)) and not isinstance(tree, (Place, Part)):
        items = list(enumerate(tree))
    else:
        return {path: tree}
    found: Dict[Tuple[Any, ...], Any] = {}
    for key, one in items:
        found.update(_leaves(one, path + (key,)))
    return found


def _is_extra(path: "Tuple[Any, ...]") -> bool:
    """Of what a module's get_extra_state() gives, which is one process's as it is: nothing says that two have it alike, or of one size."""
    return len(path) > 1 and isinstance(path[1], str) and path[1].rpartition(".")[2] == "_extra_state"


class _Targets:
    """How this process divides each tensor of an object's state: as the tensor that is there now, or as an optimizer's
    parameter to which it belongs."""

    def __init__(self, one: Any) -> None:
        self._now = _leaves(one.state_dict())
        self._is_module = isinstance(one, (torch.nn.Module, Modules))
        self._parameters: Dict[Any, torch.Tensor] = {}  # by the key in an optimizer's state
        if isinstance(one, Optimizers):
            self._parameters = dict(one.parameters)
        elif not isinstance(one, Parts):
            groups = getattr(one, "param_groups", None) or []
            self._parameters = dict(enumerate(p for group in groups for p in group["params"]))

    def like(self, path: Tuple[Any, ...], whole: Tuple[int, ...], what: str) -> Any:
        """The DTensor, or None: this process needs all of it. Raises StateError."""
        there = self._now.get(path)
        if self._is_module and isinstance(there, torch.Tensor) and tuple(there.shape) != whole:
            raise StateError(f"{what}: it was of shape {whole}, and is of {tuple(there.shape)} here; a tensor that the processes of a replica "
                             "divide must be a DTensor, and the model the same")
        if not isinstance(there, torch.Tensor) and len(path) == 3 and path[0] == "state":
            there = self._parameters.get(path[1])
        return there if is_divided(there) and tuple(there.shape) == whole else None


def _kinds(tree: Any, path: Tuple[Any, ...] = ()) -> str:
    """What is in a process's state, whatever its values are, and whatever part of each tensor that process has."""
    if _is_extra(path):
        return "extra"
    if isinstance(tree, (Place, Part)):
        return f"{tree.dtype}{_whole_shape(tree)}"
    if isinstance(tree, dict):
        return "{" + ",".join(sorted(f"{key!r}:{_kinds(one, path + (key,))}" for key, one in tree.items())) + "}"
    if isinstance(tree, (list, tuple)):
        return "[" + ",".join(_kinds(one, path + (at,)) for at, one in enumerate(tree)) + "]"
    return "-"


class Search:
    """Which shelves this process needs, of a state whose tensors have the same names in all processes (no layouts)."""

    def __init__(self, objects: Dict[str, Any]) -> None:
        self.targets = {name: _Targets(one) for name, one in objects.items()}
        self._covers: Dict[Tuple[Any, ...], _Cover] = {}
        self._open: Dict[Tuple[Any, ...], _Cover] = {}  # of which something lacks
        self._begun = False
        self.kinds: Set[Tuple[int, str]] = set()  # the steps of the shelves, and what is in them

    def look(self, rank: int, head: Head) -> None:
        """Raises StateError."""
        self.note(head)
        self._begun = True
        for path, place in _leaves(head.tree).items():
            if not isinstance(place, (Place, Part)) or _is_extra(path):
                continue
            cover = self._covers.get(path)
            if cover is None:
                cover = self._covers[path] = self._open[path] = _Cover(_box_here(self.targets, path, _whole_shape(place)))
            if path in self._open:
                cover.add(rank, place)
                if cover.left <= 0:
                    del self._open[path]

    def note(self, head: Head) -> None:
        """Of a shelf that is not read."""
        self.kinds.add((head.step, hashlib.sha256(_kinds(head.tree).encode()).hexdigest()[:32]))

    @property
    def lacks(self) -> bool:
        return bool(self._open) or not self._begun

    def guess(self) -> Optional[int]:
        """The rank whose shelf to look at next, where it can be guessed."""
        return next(iter(self._open.values())).guess() if self._open else None


def _box_here(targets: "Dict[str, _Targets]", path: Tuple[Any, ...], whole: Tuple[int, ...]) -> Box:
    """Which part of a tensor this process needs. Raises StateError."""
    as_now = targets[path[0]].like(path[1:], whole, ".".join(map(str, path))) if path[0] in targets else None
    return ((0,) * len(whole), whole) if as_now is None else box_of(as_now)


def _union(trees: "Sequence[Any]", needed: Callable[[Tuple[Any, ...]], bool], path: Tuple[Any, ...] = ()) -> Any:
    """What is needed of several processes' states: of what two have, the first one's."""
    first = trees[0]
    if not isinstance(first, dict) or _is_extra(path):
        return first
    made: Dict[Any, Any] = {}
    for tree in trees:
        for key in tree if isinstance(tree, dict) else ():
            if key not in made and needed(path + (key,)):
                made[key] = _union([one[key] for one in trees if isinstance(one, dict) and key in one], needed, path + (key,))
    return like(first, made)


def assemble(objects: Dict[str, Any], shelves: Sequence[Any], maximum: "Callable[[torch.Tensor], None]",
             targets: "Optional[Dict[str, _Targets]]" = None) -> "Tuple[Dict[str, Any], int, int]":
    """The state_dict of each object, as this process needs it, and the bytes that were read from this node's memory and from
    elsewhere. `shelves`: all of them, or those of a Search; what comes first is preferred. `maximum`: replaces each element by the largest of all
    processes of this program, which all call this. targets: of a Search. Raises StateError."""
    from torch.distributed.tensor import DTensor

    reading, trees = Reading(shelves), [shelf.head.tree for shelf in shelves]
    all_leaves = [_leaves(tree) for tree in trees]

    def wrapped(local: torch.Tensor, now: Any) -> Any:
        local = local.to(now.to_local().device)
        made = DTensor.from_local(local, now.device_mesh, now.placements, run_check=False, shape=now.shape, stride=now.stride())
        made._local_tensor = local  # and no view of it, whose memory could not move (_home.py)
        return made

    if any(isinstance(one, Parts) for one in objects.values()):
        needs = Needs(objects, trees)
        _nothing_is_lost(needs, maximum)
        tree = _union(trees, needs)
    else:
        tree = _union(trees, lambda _: True)
    targets = targets or {name: _Targets(one) for name, one in objects.items()}
    wraps: List[Tuple[int, torch.Tensor, Any]] = []
    kept = {name for name, one in objects.items() if not copies(one)}
    places_of: Dict[int, Any] = {}  # of leaves of objects that keep what they are given
    for path, leaf in _leaves(tree).items():
        if not isinstance(leaf, (Place, Part)):
            continue
        what = ".".join(map(str, path))
        places = [(index, leaves[path]) for index, leaves in enumerate(all_leaves) if path in leaves]
        extra = _is_extra(path)
        if extra and isinstance(leaf, Place):
            places = places[:1]
        whole = _whole_shape(leaf)
        others = {_whole_shape(place) for _, place in places}
        if len(others) > 1:
            raise StateError(f"{what}: the processes of one replica had it in the shapes {sorted(others)}; a tensor that they divide must "
                             "be a DTensor, or the layout cannot change")
        as_now = targets[path[0]].like(path[1:], whole, what) if path[0] in targets and not extra else None
        box = ((0,) * len(whole), whole) if as_now is None else box_of(as_now)
        wraps.append((id(leaf), reading.block(places, box, leaf.dtype, what), as_now))
        if path[0] in kept:
            places_of[id(leaf)] = leaf
    check_alike([shelf.head.sample for shelf in shelves])
    reading.run()
    # By the identity of the leaf in the union.
    made: Dict[int, Any] = {key: tensor if now is None else wrapped(tensor, now) for key, tensor, now in wraps}
    made.update({key: returned(made[key], place) for key, place in places_of.items()})
    tree = mapped(tree, lambda leaf: made[id(leaf)] if isinstance(leaf, (Place, Part)) else leaf)
    return tree, reading.near_bytes, reading.far_bytes


def _whole_shape(place: Any) -> Tuple[int, ...]:
    return place.whole if isinstance(place, Part) else place.shape  # type: ignore[no-any-return]


def _nothing_is_lost(needs: Needs, maximum: "Callable[[torch.Tensor], None]") -> None:
    """Raises StateError where a module's tensor is needed by no process of this program."""
    used = torch.tensor([name in needs.mine for name in needs.known], dtype=torch.uint8, device="cpu")
    maximum(used)
    lost = [name for name, one in zip(needs.known, used.tolist()) if not one]
    if lost:
        raise StateError(f"{lost[0]} ({len(lost)} such names) is in the state, and no process has such a tensor; a tensor's name must be the "
                         "same in all layouts, that which it has in the whole model")
