"""The training's state as one piece of memory: what every registered object's state_dict() holds, and how it is put back.

The memory begins with a head: 8 bytes "ESPSTATE", the head's length (8 bytes, host order), and a pickle of (step, tree,
places). Tensors follow, each at a multiple of 64 bytes. In the tree a _Place stands for each tensor. Only processes of the
same user and job exchange such memory.
"""
from __future__ import annotations

import io
import mmap
import pickle
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import torch

_MAGIC = b"ESPSTATE"
_ALIGN = 64
_LONGEST = 400  # characters of somebody else's message


class StateError(RuntimeError):
    """The state does not fit the program, or is none."""


class _Place(NamedTuple):
    offset: int
    dtype: torch.dtype
    shape: Tuple[int, ...]


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def _mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """The same tree with leaf() applied to what is no container."""
    if isinstance(value, _Place) or isinstance(value, torch.Tensor):
        return leaf(value)
    if isinstance(value, dict):
        made = {key: _mapped(one, leaf) for key, one in value.items()}
        try:
            return made if type(value) is dict else type(value)(made)
        except TypeError:
            return made
    if isinstance(value, tuple):
        made_list = [_mapped(one, leaf) for one in value]
        return type(value)(*made_list) if hasattr(value, "_fields") else tuple(made_list)
    if isinstance(value, list):
        return [_mapped(one, leaf) for one in value]
    return leaf(value)


class Packed:
    """State that can be written: its size is known, its tensors are still where they train."""

    def __init__(self, step: int, objects: Dict[str, Any]) -> None:
        self._tensors: List[Tuple[int, torch.Tensor]] = []
        end = 0

        def place(value: Any) -> Any:
            nonlocal end
            if not isinstance(value, torch.Tensor):
                return value
            if value.layout != torch.strided:
                raise StateError(f"a tensor of layout {value.layout} in the state: only dense tensors can be handed over")
            made = _Place(end, value.dtype, tuple(value.shape))
            self._tensors.append((end, value.detach()))
            end = _aligned(end + _bytes_of(value))
            return made

        tree = _mapped({name: one.state_dict() for name, one in objects.items()}, place)
        try:
            head = pickle.dumps((step, tree), protocol=4)
        except Exception as error:
            raise StateError(f"the state cannot be packed: {error}") from error
        self._head = _MAGIC + len(head).to_bytes(8, "little") + head
        self._first = _aligned(len(self._head))
        self.size = max(1, self._first + end)

    def write(self, memory: mmap.mmap) -> None:
        memory[: len(self._head)] = self._head
        for offset, tensor in self._tensors:
            if tensor.numel():
                flat = torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=self._first + offset)
                flat.view(tensor.shape).copy_(tensor)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name == "_Place":
            return _Place
        return super().find_class(module, name)


def read(memory: Any) -> Tuple[int, Dict[str, Any]]:
    """The step, and the state_dict of each object by name. The tensors look into `memory`, which the caller does not
    change afterwards; they are writable where it is."""
    if bytes(memory[:8]) != _MAGIC:
        raise StateError("what was handed over is no state of this package")
    length = int.from_bytes(memory[8:16], "little")
    try:
        step, tree = _Unpickler(io.BytesIO(memory[16:16 + length])).load()
    except Exception as error:
        raise StateError(f"the state cannot be read: {error}") from error
    first = _aligned(16 + length)

    def tensor(value: Any) -> Any:
        if not isinstance(value, _Place):
            return value
        count = 1
        for extent in value.shape:
            count *= extent
        if count == 0:
            return torch.empty(value.shape, dtype=value.dtype)
        return torch.frombuffer(memory, dtype=value.dtype, count=count, offset=first + value.offset).view(value.shape)

    return step, _mapped(tree, tensor)


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
    gradients = weights = whole = 0
    for one in objects.values():
        if isinstance(one, torch.nn.Module):
            for parameter in one.parameters():
                weights += _bytes_of(parameter)
                gradients += _bytes_of(parameter) if parameter.requires_grad else 0

    def count(value: Any) -> Any:
        nonlocal whole
        whole += _bytes_of(value) if isinstance(value, torch.Tensor) else 0
        return value

    for one in objects.values():
        _mapped(one.state_dict(), count)
    return gradients, weights, whole
