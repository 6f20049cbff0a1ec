"""torchrun --rdzv-backend=espalier: the agents of one generation meet where the launcher says.

The launcher starts one torchrun for each GPU, and tells each by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT which of how many
it is and where they meet. So --nnodes, --node-rank and --rdzv-endpoint need not be given. Each agent starts one process
(--nproc-per-node=1, which is torchrun's default), whose script calls espalier.join(). Agents never meet again: where the number
of processes changes, the launcher starts other ones.

pyproject.toml registers get_handler() as an entry point of "torchrun.handlers".
"""
from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta
from typing import Any, Callable, Optional

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import (RendezvousClosedError, RendezvousConnectionError, RendezvousHandler, RendezvousInfo,
                                                  RendezvousParameters, RendezvousStoreInfo)

from ._meeting import open_store

_SECONDS = 600


def _number(name: str, least: int) -> int:
    text = os.environ.get(name, "")
    if not text.isdigit() or int(text) < least:
        raise ValueError(f'torchrun --rdzv-backend=espalier: {name} is "{text}"; start torchrun by srun --elastic, whose launcher '
                         "sets it, or use another --rdzv-backend")
    return int(text)


class EspalierRendezvous(RendezvousHandler):
    """Of one agent, in one generation."""

    def __init__(self, run_id: str, seconds: int = _SECONDS) -> None:
        if "ESPALIER_LAUNCHER" not in os.environ:
            raise ValueError("torchrun --rdzv-backend=espalier: there is no launcher of Espalier here; start torchrun by srun "
                             "--elastic, or use another --rdzv-backend")
        self._rank, self._world = _number("RANK", 0), _number("WORLD_SIZE", 1)
        self._port = _number("MASTER_PORT", 1)
        self._address = os.environ.get("MASTER_ADDR", "")
        if self._rank >= self._world or not self._address:
            raise ValueError(f"torchrun --rdzv-backend=espalier: RANK is {self._rank}, WORLD_SIZE {self._world}, and MASTER_ADDR "
                             f'"{self._address}"; let the launcher set them')
        self._run_id, self._seconds = run_id, seconds
        self._store: Optional[TCPStore] = None
        self._closed = False

    def get_backend(self) -> str:
        return "espalier"

    @property
    def use_agent_store(self) -> bool:
        return True  # the script's process group meets in the agents' store

    def next_rendezvous(self) -> RendezvousInfo:
        if self._store is not None or self._closed:
            raise RendezvousClosedError("a generation's processes meet once; after a failure the launcher starts the next generation")
        # Slurm takes GPUs back by SIGTERM to every process of a step. torchrun would end the script for it, 30 s later by SIGKILL, in
        # the middle of a hand-off. When to leave is the launcher's to say. torchrun reads the variable after the rendezvous.
        os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGINT,SIGHUP,SIGQUIT"
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: None)  # not SIG_IGN, which the script would inherit
        try:
            if self._rank == 0:
                self._store = open_store(self._address, self._port, self._world, self._seconds)
            else:
                self._store = TCPStore(self._address, self._port, self._world, False, timedelta(seconds=self._seconds))
        except OSError as error:
            raise RendezvousConnectionError(str(error)) from error
        except RuntimeError as error:  # of which torch's own errors are
            raise RendezvousConnectionError(f"rank {self._rank} cannot reach rank 0 at {self._address}:{self._port}: {error}") from error
        prefix = f"{self._run_id}-{os.environ.get('ESPALIER_GENERATION', '0')}"
        return RendezvousInfo(PrefixStore(prefix, self._store), self._rank, self._world,
                              RendezvousStoreInfo(self._address, self._port))

    def is_closed(self) -> bool:
        return self._closed

    def set_closed(self) -> None:
        self._closed = True

    def num_nodes_waiting(self) -> int:
        return 0  # who comes later is of another generation

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        self._closed = True
        return True


def create_handler(parameters: RendezvousParameters) -> RendezvousHandler:
    seconds: Any = parameters.get_as_int("timeout", _SECONDS)
    return EspalierRendezvous(parameters.run_id, seconds)


def get_handler() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """What torch asks an entry point of "torchrun.handlers" for."""
    return create_handler
