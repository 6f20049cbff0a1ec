"""A process that was started ahead: it has loaded torch, and waits to be told which rank of which generation it is.

espalier-launch(1), "Spares", tells what the launcher's side does. The package waits here while it is imported, since a
script may look at RANK before it calls join().
"""
from __future__ import annotations

import ast
import ctypes
import os
import socket
import sys
from typing import Dict, List

# What a training's start mostly is. Other modules of the script are imported when it goes on: at their import they may
# look at the rank.
_HEAVY = ("torch", "numpy", "transformers", "accelerate", "datasets", "tokenizers", "safetensors", "torchvision", "torchaudio",
          "pandas", "scipy", "pyarrow", "lightning", "pytorch_lightning", "torchtitan")


def _imports_of(path: str) -> List[ast.stmt]:
    """The import statements at the top level of a script that name only modules of _HEAVY."""
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []
    found: List[ast.stmt] = []
    for one in body:
        names: List[str] = []
        if isinstance(one, ast.Import):
            names = [alias.name for alias in one.names]
        elif isinstance(one, ast.ImportFrom) and one.level == 0 and one.module:
            names = [one.module]
        if names and all(name.split(".")[0] in _HEAVY for name in names):
            found.append(one)
    return found


def _load(script: str) -> None:
    import torch.distributed
    import torch.nn.parallel  # noqa: F401
    for one in _imports_of(script):
        try:
            exec(compile(ast.Module([one], []), script, "exec"), {})
        except Exception:
            pass  # the script says it when it comes there


def _show(variables: Dict[bytes, bytes]) -> None:
    """Writes variables where /proc/PID/environ shows them, if they are no longer than there."""
    entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    at = 0
    while entries[at]:
        place: int = entries[at]  # type: ignore[assignment]
        text = ctypes.string_at(place)
        name = text.split(b"=", 1)[0]
        shown = name + b"=" + variables.get(name, b"")
        if name in variables and len(shown) <= len(text):
            ctypes.memmove(place, shown.ljust(len(text), b"\0"), len(text))
        at += 1


def wait_as_spare() -> None:
    """Returns at once unless ESPALIER_SPARE is set. Then loads, waits, and takes the environment that comes."""
    number = os.environ.get("ESPALIER_SPARE", "")
    if not number.isdigit():
        return
    with socket.socket(fileno=int(number)) as launcher:
        _load(sys.argv[0])
        try:
            launcher.send(b"r", socket.MSG_NOSIGNAL)
        except OSError:
            pass  # needed before it had loaded: all that it needs has been written
        text = b""
        while True:
            block = launcher.recv(65536)
            if not block:
                break
            text += block
    if not text:
        os._exit(0)
    variables = dict(one.split(b"=", 1) for one in text.split(b"\0") if b"=" in one)
    _show(variables)
    os.environ.clear()
    for name, value in variables.items():
        os.environb[name] = value
