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

from ._fork_server import serve_forks

# What a training's start mostly is. Other modules of the script are imported when it goes on: at their import they may
# look at the rank.
_HEAVY = ("torch", "numpy", "transformers", "accelerate", "datasets", "tokenizers", "safetensors", "torchvision", "torchaudio",
          "pandas", "scipy", "pyarrow", "lightning", "pytorch_lightning", "torchtitan")


# What a statement names that changes the environment, which a module that is imported later may read.
_ENVIRONMENT = ("environ", "environb", "putenv", "load_dotenv")


def _modules_of(statement: ast.stmt) -> List[str]:
    """Names of modules that an import statement at the top level names; of other statements none."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and statement.level == 0 and statement.module:
        return [statement.module]
    return []


def _names_environment(statement: ast.stmt) -> bool:
    return any(getattr(one, "attr", None) in _ENVIRONMENT or getattr(one, "id", None) in _ENVIRONMENT for one in ast.walk(statement))


def _imports_of(path: str) -> List[ast.stmt]:
    """The import statements at the top level of a script that name only modules of _HEAVY, as far as the environment is the one that they will
    see: what the script changes above its first import of this package it has changed when this runs, and what it changes below it has not."""
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []
    found: List[ast.stmt] = []
    begin = next((at for at, one in enumerate(body) if any(name.split(".")[0] == "espalier" for name in _modules_of(one))), 0)
    for at, one in enumerate(body):
        if at >= begin and _names_environment(one):
            break
        names = _modules_of(one)
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
    """Returns at once unless ESPALIER_SPARE is set. Then loads, waits, and takes the environment that comes. Where
    ESPALIER_SPARE_FORKS is set too this process becomes a fork server if it can, and the call returns in the processes it makes."""
    number = os.environ.get("ESPALIER_SPARE", "")
    if not number.isdigit():
        return
    launcher = socket.socket(fileno=int(number))
    _load(sys.argv[0])
    if "ESPALIER_SPARE_FORKS" in os.environ:
        launcher = serve_forks(launcher)
    with launcher:
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
    # This process may be bound to fewer CPUs now than there were when torch was loaded.
    if "OMP_NUM_THREADS" not in os.environ:
        import torch
        torch.set_num_threads(min(torch.get_num_threads(), len(os.sched_getaffinity(0))))
