"""handover.py [MEGABYTES [NEW [ROUNDS]]]: one process hands its state to NEW processes of the same node, without a launcher: by the pages in which the
state lives (_home.py), and by a copy of it, in turn. Prints a line of JSON for each: the bytes that the old process copied, milliseconds from the
boundary to when all new ones have the state (the old one's part, and all), the new ones' first step, and their second one."""
import json
import os
import pathlib
import pickle
import sys
import time
import traceback
import unittest.mock

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import stand_in
from espalier import _home, _state, _whole

torch.set_num_threads(1)
SOURCE = {"generation": 0, "plan": {"stages": [{"replicas": [{"gpus": ["n/0"]}]}]}}


def worker(token, generation):
    made = stand_in.Worker(0, 1, 4, stand_in.Control())
    made.token, made.generation = token, generation
    return made


def training(width):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)).double()
    return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3)}


def step(objects):
    begin = time.monotonic()
    objects["optimizer"].zero_grad()
    objects["model"](torch.ones(4, 32, dtype=torch.float64)).square().mean().backward()
    objects["optimizer"].step()
    return 1000 * (time.monotonic() - begin)


def process(work):
    """Runs work(tell, wait) in a child. Returns how to read what it tells, and how to let it go on."""
    told, go = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(told[0])
        os.close(go[1])
        try:
            work(lambda what: os.write(told[1], pickle.dumps(what)), lambda: os.read(go[0], 1))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(told[1])
    os.close(go[0])
    return lambda: pickle.loads(os.read(told[0], 4096)), lambda: os.write(go[1], b"x")


def old(token, width, adopts, tell, wait):
    objects = training(width)
    hand = _whole.Whole(worker(token, 0), objects, None)
    for _ in range(3):
        step(objects)
        if adopts:
            hand.between_steps()
    tell("ready")
    wait()
    copied = []
    write = _state.Packed.write
    with unittest.mock.patch.object(_state.Packed, "write", lambda self, memory: (copied.append(self.copied), write(self, memory))[1]):
        begin = time.monotonic()
        hand.provide(3)
        tell((begin, time.monotonic(), sum(copied)))
    wait()


def new(token, width, rank, tell, wait):
    objects = training(width)
    one = worker(token, 1)
    with unittest.mock.patch.object(_whole.Whole, "listen"):  # several on a node: only one would
        hand = _whole.Whole(one, objects, None)
    tell("ready")
    wait()
    hand.take_over(SOURCE)
    ended = time.monotonic()
    tell((ended, step(objects), step(objects)))
    wait()


def one(number, width, count, adopts):
    token = f"bench-{os.getpid()}-{number}"
    giver = process(lambda tell, wait: old(token, width, adopts, tell, wait))
    takers = [process(lambda tell, wait, rank=rank: new(token, width, rank, tell, wait)) for rank in range(count)]
    for read, _ in [giver, *takers]:
        assert read() == "ready"
    for _, go in [giver, *takers]:
        go()
    begin, provided, copied = giver[0]()
    taken = [read() for read, _ in takers]
    for _, go in [giver, *takers]:
        go()
    for _ in range(count + 1):
        os.wait()
    print(json.dumps({"way": "pages" if adopts else "copy", "new": count, "copied_by_old": copied, "old_ms": round(1000 * (provided - begin), 1),
                      "handover_ms": round(1000 * (max(at for at, _, _ in taken) - begin), 1),
                      "first_step_ms": round(max(first for _, first, _ in taken), 1), "second_step_ms": round(max(second for _, _, second in taken), 1)}),
          flush=True)


megabytes, count, rounds = (int(given) if given else default for given, default in zip(sys.argv[1:] + [""] * 3, (200, 4, 3)))
for number in range(rounds):
    for adopts in (True, False):
        one(2 * number + adopts, megabytes * 1000000 // 816, count, adopts)
