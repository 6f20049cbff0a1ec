"""Where the processes of a generation meet: torch's TCPStore in a process of rank 0, at MASTER_ADDR and MASTER_PORT.

It asks nobody who they are. torch by itself listens on all addresses of the node; here it listens on the one that the launcher named,
which is of the site's network between nodes (launch.network).
"""
from __future__ import annotations

import socket
from datetime import timedelta

from torch.distributed import TCPStore


_WAIT_TO_CONNECT = 2048  # processes that connect at the same moment, as torch has it


def open_store(address: str, port: int, world: int, seconds: int) -> TCPStore:
    """The store of this process, which torch's rendezvous (env://) in it then uses too. Raises OSError where it cannot listen there."""
    family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    try:
        listener = socket.create_server(where[:2], family=family, backlog=_WAIT_TO_CONNECT)
    except OSError as error:
        raise OSError(error.errno, f"rank 0 cannot listen at {address}:{port}, where its generation meets: {error.strerror}") from error
    return TCPStore(address, port, world, True, timedelta(seconds=seconds), wait_for_workers=False, multi_tenant=True,
                    master_listen_fd=listener.detach())
