"""How a loop was left, read from the frames of who drops its iterator.

CPython drops the iterator of a `for` after `break` and `return` as after an exception, before any handler of the exception runs, and shows
the exception to no finalizer. But the frame of the loop tells them apart: after `break` and `return` it is at the instruction that takes the
iterator from its stack, and an exception leaves it at the instruction that raised. A generator that the script has put around the iterator is
closed by its own consumer, so there the consumer's frame counts.

What ends by itself around the iterator, as islice() or a zip() with a shorter loader, is dropped by the instruction that asked it for the
next element. So is what an exception comes out of. But the exception has left a traceback: of that frame, or, where islice() drops what it holds
before that frame knows, of the function that it came out of. An error of C code inside islice() has left none then, and counts as islice's end.
"""
from __future__ import annotations

import gc
import sys
from opcode import opname
from types import CodeType, FrameType, TracebackType
from typing import List, Optional, Sequence

_GENERATOR = 0x20  # of a code's flags
_POPS = ("POP_TOP", "POP_ITER")  # the second from Python 3.14 on
_ASKS = ("FOR_ITER", "SEND", "YIELD_FROM")  # the third until Python 3.10
_RESUMES = ("RESUME",) if sys.version_info >= (3, 13) else ()  # where a generator is that has given an element; before, at YIELD_VALUE
_SUSPENDED = ("YIELD_VALUE", "CLEANUP_THROW") + _RESUMES  # where a generator is that its consumer closes
_GIVES = ("RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE")  # where no exception comes out of a function


def closed_well(frame: FrameType) -> bool:
    """frame: of a generator that GeneratorExit leaves. Whether its consumer has let it go well. Where it cannot be told, the answer is no."""
    return bool(frame.f_code.co_flags & _GENERATOR) and dropped_well(frame.f_back, [frame])


def dropped_well(frame: Optional[FrameType], closed: "Sequence[FrameType]" = ()) -> bool:
    """frame: of who dropped the iterator of a loop, or a generator. closed: that generator. Where it cannot be told, the answer is no."""
    closed = list(closed)
    raises = False  # a generator on the way, perhaps to who asks it
    while frame is not None:
        at = _instruction(frame)
        if at in _POPS or (at in _ASKS and not raises and not _raised(frame, closed)):
            return True
        if not frame.f_code.co_flags & _GENERATOR:
            return False
        closed.append(frame)
        raises, frame = raises or at not in _SUSPENDED, frame.f_back
    return True


def _instruction(frame: FrameType) -> str:
    code: CodeType = frame.f_code
    at = frame.f_lasti
    while at > 0 and opname[code.co_code[at]] == "CACHE":  # Python 3.12 may be at what follows an instruction and belongs to it
        at -= 2
    while at >= 0 and opname[code.co_code[at]] == "EXTENDED_ARG":  # Python 3.10 is at what comes before it then
        at += 2
    return opname[code.co_code[at]] if at >= 0 else ""


def _raised(frame: FrameType, closed: "List[FrameType]") -> bool:
    """Whether an exception may be on its way out of the frame's instruction. closed: generators to which their own end is an exception.
    Exceptions that the script has caught and keeps are none: what caught them is the frame itself, or has returned since."""
    traces = [one for one in gc.get_objects() if type(one) is TracebackType]
    inner = {id(one.tb_next) for one in traces}
    for one in traces:
        at = one.tb_frame
        if at is frame:
            if one.tb_lasti == frame.f_lasti:
                return True
        elif id(one) not in inner and at not in closed and _instruction(at) not in _GIVES:
            generates = bool(at.f_code.co_flags & _GENERATOR)
            if generates and _instruction(at) in _RESUMES:
                continue
            # Until Python 3.11 a generator that has ended does not say who asked it.
            if at.f_back is frame or (at.f_back is None and generates):
                return True
    return False
