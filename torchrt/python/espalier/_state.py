"""The training's state as one piece of memory: what every registered object's state_dict() holds, and how it is put back.

The memory begins with a head: 8 bytes "ESPSTATE", the length of what follows of it (8 bytes, little-endian), and a pickle of (step,
tree, note, sample). Tensors follow, each at a multiple of 64 bytes. In the tree a Place stands for each tensor, and a Part for each tensor
that is divided among the processes (a DTensor): the memory then holds this process's part of it.

A pickle runs what it likes as the user who reads it, and memory comes over networks too. So a head that processes of a job give each other
is sealed: it begins with "ESPSEAL1", and before the pickle there are 32 bytes, its tag with a key of the job (_keys.py). A process unpickles
no head of another process without that tag. A checkpoint is not sealed: another job reads it, and it is as safe as its file.
"""
from __future__ import annotations

import hmac
import io
import math
import mmap
import pickle
import sys
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from ._keys import tag_of

_MAGIC, _SEALED = b"ESPSTATE", b"ESPSEAL1"
_TAG = 32
_LONGEST_HEAD = 1 << 30
_ALIGN = 64
_LONGEST = 400  # characters of somebody else's message


class StateError(RuntimeError):
    """The state does not fit the program, or is none."""


class TooLarge(StateError):
    """What is to be written has outgrown its room."""


class Place(NamedTuple):
    offset: int
    dtype: torch.dtype
    shape: Tuple[int, ...]
    device: str = ""  # the kind of device that it was on, e.g. "cuda"; "": the host


class Part(NamedTuple):
    offset: int
    dtype: torch.dtype
    shape: Tuple[int, ...]  # of what the memory holds
    start: Tuple[int, ...]  # where that lies in the whole tensor
    whole: Tuple[int, ...]  # the whole tensor's shape
    device: str = ""


def is_divided(tensor: Any) -> bool:
    """Whether it is a DTensor. Who has one has imported their module, which takes long."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def box_of(tensor: Any) -> "Tuple[Tuple[int, ...], Tuple[int, ...]]":
    """Start and shape of the part of a DTensor that is here. Raises StateError where it is not one block."""
    coordinate = tensor.device_mesh.get_coordinate()
    start, shape = [0] * tensor.dim(), list(tensor.shape)
    for at, dimension in _cuts(tensor):
        # As torch.chunk() divides: the last blocks may be smaller, or empty.
        size = -(-shape[dimension] // tensor.device_mesh.size(at))
        first = min(size * coordinate[at], shape[dimension])
        start[dimension] += first
        shape[dimension] = min(size, shape[dimension] - first)
    if tuple(shape) != tuple(tensor.to_local().shape):
        raise StateError(f"a tensor of shape {tuple(tensor.shape)} has {tuple(tensor.to_local().shape)} here instead of {tuple(shape)}")
    return tuple(start), tuple(shape)


def _cuts(tensor: Any) -> "List[Tuple[int, int]]":
    """(dimension of the mesh, dimension of the tensor) in the order in which a DTensor is cut. Raises StateError."""
    from torch.distributed.tensor import Replicate, Shard

    cuts: List[Tuple[int, int]] = []
    late: List[Tuple[int, int]] = []
    for at, placement in enumerate(tensor.placements):
        if type(placement) is Shard:
            cuts.append((at, placement.dim))
        elif type(placement).__name__ == "_StridedShard":
            # fully_shard() of what tensor parallelism has cut along the same dimension: cut after the later dimensions of the mesh.
            later = [tensor.device_mesh.size(index) for index, one in enumerate(tensor.placements) if index > at and one.is_shard(placement.dim)]
            if math.prod(later) != placement.split_factor or late:
                raise StateError(f"a tensor of the state is divided as {tensor.placements}: what a process has is not one block of it")
            late.append((at, placement.dim))
        elif type(placement) is not Replicate:
            raise StateError(f"a tensor of the state is divided as {placement}: only Shard and Replicate can be handed over")
    return [(at, dimension % tensor.dim()) for at, dimension in cuts + late]


def _kind_of(tensor: torch.Tensor) -> str:
    return "" if tensor.device.type == "cpu" else tensor.device.type


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same tree with leaf() applied to what is no container."""
    if isinstance(value, (Place, Part, torch.Tensor)):
        return leaf(value)
    if isinstance(value, dict):
        return like(value, {key: mapped(one, leaf) for key, one in value.items()})
    if isinstance(value, tuple):
        made_list = [mapped(one, leaf) for one in value]
        return type(value)(*made_list) if hasattr(value, "_fields") else tuple(made_list)
    if isinstance(value, list):
        return [mapped(one, leaf) for one in value]
    return leaf(value)


def like(value: Any, made: Dict[Any, Any]) -> Any:
    """`made` as a dictionary of the kind of `value`. A module's state has the versions of its parts as an attribute; without them
    load_state_dict() would take it for one of an old version."""
    try:
        same: Any = made if type(value) is dict else type(value)(made)
    except TypeError:
        return made
    if hasattr(value, "_metadata"):
        same._metadata = value._metadata
    return same


class Packed:
    """State that can be written: its size is known, its tensors are still where they train."""

    def __init__(self, step: int, objects: Dict[str, Any], note: Any = None, sample: Any = None, seal: bytes = b"", home: Any = None) -> None:
        """note: goes with the state; anything that can be pickled. Tensors in it lie in the memory, and not in the head. sample: of a process of the first replica, where the layout may
        change (_alike.py). seal: the job's key, where another process of the job reads it. home: the memory that it will be written to, in
        which some tensors lie already (_home.py). Raises StateError, TooLarge where it has no room."""
        self._tensors: List[Tuple[int, torch.Tensor]] = []
        self.in_place = 0  # bytes of tensors that lie in the memory already
        first, end, size = home.layout if home else (0, 0, 0)
        end -= first

        def place(value: Any) -> Any:
            nonlocal end
            if not isinstance(value, torch.Tensor):
                return value
            if value.layout != torch.strided:
                raise StateError(f"a tensor of layout {value.layout} in the state: only dense tensors can be handed over")
            device, box = _kind_of(value), box_of(value) if is_divided(value) else None
            local = value if box is None else value.to_local()
            there = home.offset(local) if home else None
            at = end if there is None else there
            if there is None:
                self._tensors.append((end, local.detach()))
                end = _aligned(end + _bytes_of(local))
            else:
                self.in_place += _bytes_of(local)
            if box is None:
                return Place(at, value.dtype, tuple(value.shape), device)
            return Part(at, value.dtype, box[1], box[0], tuple(value.shape), device)

        tree = mapped({name: one.state_dict() for name, one in objects.items()}, place)
        try:
            head = pickle.dumps((step, tree, mapped(note, place), sample), protocol=4)
        except Exception as error:
            raise StateError(f"the state cannot be packed: {error}") from error
        self.head_bytes = 16 + (_TAG if seal else 0) + len(head)
        if home:
            if self.head_bytes > first or first + end > size:
                raise TooLarge("what is not kept in place has outgrown its room")
            head += bytes(first - self.head_bytes)  # who reads a pickle stops at its end
        if seal:
            head = tag_of(seal, head) + head
        self._head = (_SEALED if seal else _MAGIC) + len(head).to_bytes(8, "little") + head
        self._first = _aligned(len(self._head))
        self.size = max(1, self._first + end)
        self.copied = len(self._head) + sum(_bytes_of(tensor) for _, tensor in self._tensors)  # bytes that write() writes

    def write(self, memory: mmap.mmap) -> None:
        memory[: len(self._head)] = self._head
        for offset, tensor in self._tensors:
            if tensor.numel():
                flat = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=self._first + offset)
                flat.view(tensor.shape).copy_(tensor)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name in ("Place", "Part"):
            return {"Place": Place, "Part": Part}[name]
        return super().find_class(module, name)


def head_bytes(begin: bytes) -> int:
    """Of a head, by its first 16 bytes: all before the tensors. Raises StateError."""
    if bytes(begin[:8]) not in (_MAGIC, _SEALED):
        raise StateError("what was handed over is no state of this package")
    size = int.from_bytes(begin[8:16], "little")
    if size > _LONGEST_HEAD:
        raise StateError(f"what was handed over has a head of {size} bytes, which is more than {_LONGEST_HEAD}")
    return 16 + size


class Head(NamedTuple):
    step: int
    tree: Dict[str, Any]
    note: Any
    first: int  # offset of the tensors
    sample: Any = None


def read_head(head: bytes, seal: bytes = b"") -> Head:
    """`head`: head_bytes() bytes. seal: the key that it must be sealed with; none: a file of the user's, whose seal is not looked at.
    Raises StateError."""
    sealed = head[:8] == _SEALED
    packed = head[16 + _TAG:] if sealed else head[16:]
    if seal and not (sealed and hmac.compare_digest(head[16:16 + _TAG], tag_of(seal, packed))):
        raise StateError("what was handed over is not sealed by this job: another sent it, or a process with another version of this package")
    try:
        step, tree, note, *more = _Unpickler(io.BytesIO(packed)).load()  # a checkpoint may be older than samples
    except Exception as error:
        raise StateError(f"the state cannot be read: {error}") from error
    return Head(step, tree, note, _aligned(len(head)), *more[:1])


def head_of(memory: Any, seal: bytes = b"") -> Head:
    """See read_head()."""
    return read_head(bytes(memory[:head_bytes(memory[:16])]), seal)


def copies(one: Any) -> bool:
    """Whether load_state_dict() of a registered object copies into tensors that are on their device. Modules' and optimizers' do; other
    objects keep what they are given."""
    from ._named import Modules, Optimizers

    return isinstance(one, (torch.nn.Module, torch.optim.Optimizer, Modules, Optimizers))


def returned(tensor: torch.Tensor, place: Any) -> torch.Tensor:
    """On the current device of the kind that it was on. On the host where this process has none, as one that goes on without a GPU."""
    if not place.device:
        return tensor
    try:
        return tensor.to(place.device)
    except (RuntimeError, AssertionError, ImportError):  # each kind of device has its own
        return tensor


_read: "List[Tuple[int, weakref.ref[mmap.mmap]]]" = []  # memory that tensors of read() look into, and its address


def _start_of(memory: mmap.mmap) -> int:
    return torch.frombuffer(memory, dtype=torch.uint8, count=1).data_ptr()


def was_read(tensor: torch.Tensor) -> bool:
    """Whether it looks into memory that was given to read()."""
    made = [(tensor.data_ptr() - start, one()) for start, one in _read]
    return any(memory is not None and 0 <= at < len(memory) for at, memory in made)


def read(memory: Any, seal: bytes = b"", objects: "Optional[Dict[str, Any]]" = None) -> Tuple[int, Dict[str, Any]]:
    """The step, and the state_dict of each object by name. The tensors look into `memory`, which the caller does not
    change afterwards; they are writable where it is. Each has its storage for itself, and is no view, which would keep another tensor of it.
    Those of `objects` that keep what they are given are on their devices. seal: see read_head()."""
    head, places = head_of(memory, seal), set()
    kept = {name for name, one in (objects or {}).items() if not copies(one)}

    def there(value: Any) -> Any:
        made = tensor(value)
        return returned(made, value) if isinstance(value, Place) else made

    def tensor(value: Any) -> Any:
        if isinstance(value, Part):
            raise StateError("the state is divided among processes, and this program's is not")
        if not isinstance(value, Place):
            return value
        count = 1
        for extent in value.shape:
            count *= extent
        if count == 0:
            return torch.empty(value.shape, dtype=value.dtype, device="cpu")
        found = torch.frombuffer(memory, dtype=value.dtype, count=count, offset=head.first + value.offset).view(value.shape).detach()
        if value.offset in places:  # tied tensors of the script's, which lie in the memory once
            return found.clone()
        places.add(value.offset)
        return found

    if isinstance(memory, mmap.mmap):
        _read[:] = [(start, one) for start, one in _read if one() is not None] + [(_start_of(memory), weakref.ref(memory))]
    return head.step, {name: mapped(tree, there if name in kept else tensor) for name, tree in head.tree.items()}


def apply(objects: Dict[str, Any], state: Dict[str, Any], origin: str) -> None:
    """Puts the state into the objects. Raises StateError, in words, where it does not fit."""
    missing, more = sorted(set(objects) - set(state)), sorted(set(state) - set(objects))
    if missing or more:
        raise StateError(f"{origin} does not fit this program: run.register() named {sorted(objects)}, the state has "
                         f"{sorted(state)}; each generation runs the script from its top and must register the same objects")
    for name, one in objects.items():
        try:
            one.load_state_dict(state[name])
        except Exception as error:
            why = " ".join(str(error).split())
            why = why if len(why) <= _LONGEST else why[:_LONGEST] + " ..."
            raise StateError(f"{origin} does not fit this program: {name}: {why}; each generation runs the script from "
                             "its top and must build the same model and optimizer") from error


def sizes(objects: Dict[str, Any]) -> "tuple[int, int, int]":
    """Bytes of the gradients, of the parameters, and of all state."""
    from ._named import Modules

    gradients = weights = whole = 0
    for one in objects.values():
        for module in [one] if isinstance(one, torch.nn.Module) else one.parts if isinstance(one, Modules) else []:
            for parameter in module.parameters():
                weights += _bytes_of(parameter)
                gradients += _bytes_of(parameter) if parameter.requires_grad else 0

    def count(value: Any) -> Any:
        nonlocal whole
        whole += _bytes_of(value) if isinstance(value, torch.Tensor) else 0
        return value

    for one in objects.values():
        mapped(one.state_dict(), count)
    return gradients, weights, whole
