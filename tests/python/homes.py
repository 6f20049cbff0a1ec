"""States that live in shared memory (_home.py), for the tests of that."""
import faulthandler
import gc
import os
import sys

import torch

from espalier import _forks, _home, _memory, _state

torch.set_num_threads(1)
SEAL, TOKEN = b"k" * 32, f"test-home-{os.getpid()}"


def training(width=700, seed=1, **more):
    """Some 17 MB with the optimizer's moments."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width))
    return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=0.01), **more}


def train(objects, steps, seed=7):
    torch.manual_seed(seed)
    model, optimizer = objects["model"], objects["optimizer"]
    width = next(model.parameters()).shape[1]
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, width)).square().mean().backward()
        optimizer.step()


def packing(objects):
    return lambda step, home: _state.Packed(step, objects, seal=SEAL, home=home)


def moved(objects, pack=None, **more):
    """As in a process that has joined just now."""
    _forks.begin()
    home = _home.Home(objects, pack or packing(objects), **more)
    home.between_steps()
    home.between_steps()
    return home


def flat(objects):
    """All tensors of the state, one after the other."""
    found = []
    _state.mapped({name: one.state_dict() for name, one in objects.items()}, lambda one: found.append(one) if isinstance(one, torch.Tensor) else None)
    return torch.cat([one.detach().double().reshape(-1) for one in found])


def read_into(objects, fd):
    step, state = _state.read(_memory.private_map(fd), SEAL, objects)
    _state.apply(objects, state, "the state")
    return step


def live_maps():
    gc.collect()
    with open("/proc/self/maps", encoding="ascii") as lines:
        return sum("memfd:espalier-live" in line for line in lines)


def peak_mb():
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def in_child(what):
    """The status of a forked process that does it and returns one."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True, file=sys.__stderr__)
        status = 9
        try:
            status = what()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
