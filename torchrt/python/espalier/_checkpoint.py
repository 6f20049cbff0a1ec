"""The state on disk: one file, or, where it is divided among the processes, a file of each and one that names them.

That one begins with "ESPPARTS"; JSON {step, world} follows. The file of a process is PATH.STEP.RANK. All processes must see the
same folder then. Of a run with layouts it also has {named: 1}: optimizers are by the names of parameters. Where a replica has
several processes (unit=), each with its own part of the state, the file of one is PATH.STEP.PLACE, PLACE its place in the replica,
and the one that names them has {step, unit}.

Parts are never written over those of the checkpoint that is there. Where that is of the same step, the new ones' names end in ".again", and the
file that names them also has {again: 1}; the next ones' names do not.
"""
from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Callable, Dict, Optional, Sequence

import torch

from ._alike import sample_of
from ._memory import SharedMemory, private_map
from ._state import Packed, StateError, apply, head_of, read

_PARTS, _STATE = b"ESPPARTS", b"ESPSTATE"
_PIECE = 1 << 30  # bytes; some seconds of a slow disk
_LEFT_AFTER = 600.0  # seconds after which a file that was begun and not written on is of a process that was killed


class Elsewhere(OSError):
    """Another process could not write its part, and says why."""


def _write_file(path: str, data: Any, gets_on: "Callable[[], None]" = lambda: None) -> None:
    """Whole or not at all. gets_on: called after each piece that is on the disk, as a slow disk may take longer for all of them than a step may."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with memoryview(data) as whole, open(part, "wb") as file:
            for begin in range(0, len(whole), _PIECE):
                with whole[begin:begin + _PIECE] as piece:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
                gets_on()
        os.replace(part, path)
    except OSError:
        _remove(part)
        raise


def _remove_old(path: str, step: int, kept: "Sequence[str]", before: "Optional[Dict[str, int]]") -> None:
    """After the commit of `step`, whose parts are `kept`. before: what the replaced file said of its parts, which go now. What processes
    that were killed have begun goes too. A file of such a name may be another job's, whose checkpoint= is longer by two numbers, so no other
    step's parts are removed."""
    folder, base = os.path.split(path)
    name = re.compile(re.escape(base) + r"(?:\.(\d+)\.\d+(?:\.again)?)?(?:\.(\d+)\.part)?")
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return  # the checkpoint is there
    old, here = before["step"] if before else None, {os.path.join(folder, os.path.basename(one)) for one in kept}
    for found in names:
        match, there = name.fullmatch(found), os.path.join(folder, found)
        if match is None or found == base:
            continue
        if match[2]:
            if _is_left(there, int(match[2])):
                _remove(there)
        elif int(match[1]) == old and there not in here and _begins_with(there, _STATE):
            _remove(there)


def _begins_with(path: str, *magic: bytes) -> bool:
    """Whether it is of ours, and no file of the user's with such a name."""
    try:
        with open(path, "rb") as file:
            return file.read(8) in magic
    except OSError:
        return False


def _is_left(part: str, writer: int) -> bool:
    """Whether nobody writes it any more. The writer may be a process of another node, so only the age tells; and one of this node that
    lives may be slow."""
    try:
        if time.time() - os.stat(part).st_mtime < _LEFT_AFTER or os.path.exists(f"/proc/{writer}"):
            return False
    except OSError:
        return False
    return _begins_with(part, b"", _STATE, _PARTS)


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        pass


class Due:
    """Whether another checkpoint is due, by time: counted from the file that is there, else from the process's start. Counted
    by a clock that is never set back, so that a wrong date of the file costs one checkpoint more or one later, not all."""

    def __init__(self, path: Optional[str], minutes: float, goes_on: bool = False) -> None:
        """minutes: 0 is never. goes_on: the training has begun in an earlier generation. Where that has left no file, nobody knows how long it
        has trained, so one is due at once: generations that each end before the time is over would never write one."""
        self._seconds = 60 * minutes if path else 0.0
        age = self._seconds if goes_on else 0.0
        if path:
            try:
                age = max(0.0, time.time() - os.stat(path).st_mtime)
            except OSError:
                pass
        self._begun = time.monotonic() - age

    def now(self) -> bool:
        return self._seconds > 0 and time.monotonic() - self._begun >= self._seconds

    def written(self) -> None:
        self._begun = time.monotonic()


def _write_packed(path: str, packed: Packed, gets_on: "Callable[[], None]") -> None:
    memory = SharedMemory(packed.size)
    try:
        packed.write(memory.map)
        _write_file(path, memory.map, gets_on)
    finally:
        memory.close()


def write(path: str, step: int, objects: Dict[str, Any], rank: int, world: int, divided: bool, maximum: "Callable[[Any], None]",
          unit: int = 1, named: bool = False, gets_on: "Callable[[], None]" = lambda: None, global_batch: int = 0) -> None:
    """All processes call it; maximum: see assemble(); gets_on: see _write_file(); global_batch: see load(). Raises OSError: the checkpoint of before is still there. Each
    process whose own part could not be written says why, and the others raise Elsewhere."""
    note = {"global_batch": global_batch}
    if not divided and unit == 1:
        if rank == 0:
            try:
                before = _replaced(path)
            except OSError:
                before = None  # its parts remain
            _write_packed(path, Packed(step, objects, note), gets_on)
            _remove_old(path, step, (), before)
        return
    before, mine, problem, again = None, None, None, -1
    # An error of one process must not keep it from the exchange below, in which the others would wait for it.
    try:
        before = _replaced(path)
        again = int(before is not None and before["step"] == step and not before.get("again"))
        if divided or rank < unit:
            mine = _part(path, step, rank, again)
            _write_packed(mine, Packed(step, objects, note, sample_of(objects) if rank < unit else None), gets_on)
    except OSError as error:
        problem = error
    told = torch.tensor([problem is not None, again == 0, again == 1], dtype=torch.uint8, device="cpu")
    maximum(told)
    failed, one, other = told.tolist()
    if failed or (one and other):
        if mine is not None:
            _remove(mine)
        raise problem or (Elsewhere("another process could not write its part") if failed else
                          OSError("the processes do not all see the same checkpoint of before there"))
    problem = None
    if rank == 0:
        parts = {"step": step, "world": world} if divided else {"step": step, "unit": unit}
        parts.update({name: 1 for name, there in (("again", again), ("named", named)) if there})
        names = [_part(path, step, place, again) for place in range(world if divided else unit)]
        try:
            _write_file(path, _PARTS + json.dumps(parts).encode())
        except OSError as error:
            problem = error
            for name in names:
                _remove(name)
    # All know whether there is one now.
    told = torch.tensor([problem is not None], dtype=torch.uint8, device="cpu")
    maximum(told)
    if told.item():
        raise problem or Elsewhere("process 0 could not write the file that names the parts")
    if rank == 0:
        _remove_old(path, step, names, before)


def _part(path: str, step: int, place: int, again: int) -> str:
    return f"{path}.{step}.{place}" + (".again" if again else "")


def _replaced(path: str) -> "Optional[Dict[str, int]]":
    """_parts() of a file that is about to be replaced, whatever is in it. Raises OSError: nobody knows whether parts of a step are its."""
    try:
        found = _parts(path)
    except StateError:
        return None
    return found if found and "step" in found else None


def _parts(path: str) -> "Optional[Dict[str, int]]":
    """What the file says of its parts; None: there is none, or it holds the whole state."""
    try:
        with open(path, "rb") as file:
            if file.read(len(_PARTS)) != _PARTS:
                return None
            return {name: int(value) for name, value in json.load(file).items()}
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError) as error:
        raise StateError(f"the checkpoint {path}: names no parts: {error}") from error


def step_of(path: str) -> int:
    """The step of the checkpoint, without its state. Raises OSError and StateError."""
    parts = _parts(path)
    if parts is not None:
        return parts["step"]
    return int(_head_in(path).step)


def check_batch(path: str, global_batch: int) -> None:
    """Looks at the global batch of a checkpoint that is not loaded. Raises StateError as load() does, and OSError. A part that is gone says nothing."""
    parts, name = _parts(path), path
    if parts is not None:
        name = _part(path, parts["step"], 0, parts.get("again", 0))
        if not os.path.exists(name):
            return
    _check_batch(_head_in(name).note, global_batch, f"the checkpoint {path}")


def _head_in(path: str) -> Any:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return head_of(private_map(fd))
    finally:
        os.close(fd)


def load(path: str, objects: Dict[str, Any], divided: bool, place: int = 0, unit: int = 1, named: bool = False,
         maximum: "Callable[[Any], None]" = lambda _: None, global_batch: int = 0) -> int:
    """The step of the checkpoint, which is in the objects then. All processes call it; maximum: see assemble(). global_batch: samples of a step,
    which say with the step's number which samples have been used; 0: nothing is known of them. Raises OSError and StateError."""
    origin, parts = f"the checkpoint {path}", _parts(path)
    if named != bool(parts and parts.get("named")):
        raise StateError(f"{origin}: is of a run {'without' if named else 'with'} layouts (espalier.join(parallel=[...])), and this run has "
                         f"{'some' if named else 'none'}; give this run a path of its own")
    kept = 1 if parts is None else parts.get("unit", unit if divided else 1)
    if kept != unit and not divided:
        raise StateError(f"{origin}: is of replicas of {kept} processes, and this program's have {unit}")
    if parts is not None and "unit" in parts:
        names, parts = [_part(path, parts["step"], place, parts.get("again", 0))], None
    else:
        names = [path] if parts is None else [_part(path, parts["step"], rank, parts.get("again", 0)) for rank in range(parts["world"])]
    files = []
    try:
        files = [os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in names]
        if divided or parts is not None:
            from ._shards import Shelf, assemble

            shelves = [Shelf(fd) for fd in files]
            _check_batch(shelves[0].head.note, global_batch, origin)
            step = shelves[0].head.step
            state = assemble(objects, shelves, maximum)[0]
        else:
            memory = private_map(files[0])
            _check_batch(head_of(memory).note, global_batch, origin)
            step, state = read(memory, objects=objects)
    finally:
        for fd in files:
            os.close(fd)
    apply(objects, state, origin)
    return step


def _check_batch(note: Any, global_batch: int, origin: str) -> None:
    """note: of the checkpoint; an older one has none. Raises StateError."""
    kept = note.get("global_batch") if isinstance(note, dict) else None
    if kept and global_batch and kept != global_batch:
        raise StateError(f"{origin}: is of a training with global_batch={kept}, and espalier.join() was told {global_batch}; the steps that are done would be "
                         f"other samples, so some would come twice and some never; join with global_batch={kept}, or give this run a path of its own")
