"""How many files and sockets this process may have open."""
from __future__ import annotations

import resource

_MOST = 1 << 20  # some programs close every number up to the limit, one by one


def allow_many_files() -> None:
    """Raises the soft limit to the hard one, but to a million at most. A process has a connection to each other one of a group, and to
    those that it reads a divided state from: the usual soft limit of 1,024 is too few for some hundred of them. The process's children inherit the
    limit. Does nothing where the system refuses it."""
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        pass  # a training with fewer connections needs no more
