"""calls.py [WORLD [STEPS]]: CPU time of the package's calls in a step of a small DDP training, without Slurm: a launcher is played by a process
that reads what rank 0 sends. Prints medians over steps as JSON: ms of the thread that trains, by call, and of all other threads of rank 0's
process but torch's. Run by tests/python/python.sh; ESPALIER_PACKAGE= measures another version."""
import json
import os
import pathlib
import socket
import statistics
import sys
import threading
import time
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import stand_in
from espalier import _channel, _control


class Channel(_channel.Channel):
    """After a login that has not taken place."""

    def __init__(self, *_):
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            ours.close()
            while theirs.recv(1 << 16):
                pass
            os._exit(0)
        theirs.close()
        self._socket, self._input, self._most, self._sending = ours, b"", 1 << 20, threading.Lock()
        self._sent, self._received = _channel.Tags(b"session", b"client to server"), _channel.Tags(b"session", b"server to client")


def training(rank, world, steps):
    import torch
    from torch.nn.parallel import DistributedDataParallel
    torch.set_num_threads(1)
    with unittest.mock.patch.object(_control, "Channel", Channel):
        control = _control.Control("none:1", "", 1.0)
    control.hello()
    control.expect = lambda *_, **__: {"type": "commit"}
    run = stand_in.join(control, rank, world, global_batch=24, steps=steps)
    x = torch.randn(1000, 32, dtype=torch.float64)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double()
    ddp = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    spent = {name: [] for name in ("begin", "report", "end")}
    for name in spent:
        def call(*arguments, real=getattr(run, name), into=spent[name], **named):
            first = time.thread_time()
            try:
                return real(*arguments, **named)
            finally:
                into.append(1000 * (time.thread_time() - first))
        setattr(run, name, call)
    run.register(model=ddp, optimizer=optimizer)
    for step in run.steps():
        optimizer.zero_grad()
        time.sleep(0.005)
        loss = ddp(x[:len(run.slice(step))]).square().mean()
        loss.backward()
        optimizer.step()
        run.report(loss)
    medians = {name: round(statistics.median(values[20:]), 4) for name, values in spent.items()}
    ours = sum(time.clock_gettime(time.pthread_getcpuclockid(one.ident)) for one in threading.enumerate() if one.name.startswith("espalier-"))
    return {**medians, "step": round(statistics.median(sum(one) for one in zip(*(values[20:] for values in spent.values()))), 4),
            "other_threads": round(1000 * ours / steps, 4)}


if __name__ == "__main__":
    world, steps = (int(one) for one in (sys.argv[1:] + ["2", "400"][len(sys.argv) - 1:]))
    import torch.distributed  # noqa: F401 for all that are forked
    found = stand_in.processes(world, training, steps)
    print(json.dumps({"load": round(os.getloadavg()[0], 1), "ms": found}))
