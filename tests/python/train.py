"""A small training in double precision, for the tests: its losses are those of one process but for rounding.
--kind accelerate: wrapped by Accelerate, with batches from a DataLoader; fsdp: divided by fully_shard(); tp and tp-pp: each replica is
two processes with tensor parallelism of the script's own, or four with two stages besides (replicas.py); blocks: another model, in
layouts with --layouts (stages.py), --wrap fsdp or ddp, and --several stages of each process. --break-at: leaves the loop in this step, before the
optimizer or (--break-late 1) after it. --idle: the rank that steps no optimizer, as a stage whose parameters are all frozen. --die: where a
generation after the first dies, "in" run.register() or "after" it. --noise 1: samples are augmented at random. --stream 1: they are read one
after the other, in the same order. --tokens 1: layouts divide the sum of losses by the global batch themselves, and FSDP2 sums. --pause: seconds that a step's samples take on one device; --sync: seconds of a step that grow
with the number of processes, as the exchange of gradients does.

Writes one line of JSON a step, also with the CPU time of the main thread inside this package, to METRICS (rank 0), and appends to METRICS.samples which samples each process used.
"""
import argparse
import json
import os
import signal
import sys
import time

import espalier



def layouts_of(text):
    """pp=2+tp=2,tp=1: two of them."""
    return [{name: int(degree) for name, degree in (part.split("=") for part in one.split("+"))} for one in text.split(",")]


arguments = argparse.ArgumentParser()
for name, kind, default in (("metrics", str, ""), ("steps", int, 400), ("batch", int, 24), ("pause", float, 0.05), ("width", int, 64),
                            ("most", int, 0), ("checkpoint", str, None), ("every", int, 0), ("snapshot", float, 1.0),
                            ("fail-at", int, 0), ("other-model", int, 0), ("kind", str, "ddp"), ("break-at", int, 0),
                            ("break-late", int, 0), ("sync", float, 0.0), ("layouts", layouts_of, None), ("wrap", str, "fsdp"),
                            ("several", int, 1), ("idle", int, -1), ("die", str, ""), ("noise", int, 0),
                            ("stream", int, 0), ("tokens", int, 0)):
    arguments.add_argument("--" + name, type=kind, default=default)
options = arguments.parse_args()
UNITS = {"tp": 2, "tp-pp": 4}  # processes of a replica
run = espalier.join(global_batch=options.batch, steps=options.steps, checkpoint=options.checkpoint,
                    checkpoint_every=options.every, snapshot_seconds=options.snapshot, start_seconds=300, unit=UNITS.get(options.kind, 1),
                    parallel=options.layouts or "data")

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

if options.kind in UNITS:
    import replicas
if options.kind == "blocks":
    import stages

torch.set_num_threads(1)
if options.kind == "accelerate":
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
else:
    dist.init_process_group("gloo")
torch.manual_seed(1)
x = torch.randn(1000, 32, dtype=torch.float64)
y = x.sin().sum(1, keepdim=True)
width = options.width + (options.other_model if run.generation > 0 else 0)
model = torch.nn.Sequential(torch.nn.Linear(32, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)).double()
if options.kind == "blocks":
    def make():
        torch.manual_seed(2)
        return stages.Model(options.width).double()
    divided = stages.Divided(make, run, options.wrap, options.several, bool(options.tokens)) if options.layouts else None
    ddp = divided.parts if divided else DistributedDataParallel(make())
elif options.kind in UNITS:
    ddp = replicas.divided(model, run)
else:
    ddp = DistributedDataParallel(model) if options.kind == "ddp" else model
if options.kind == "fsdp":
    from torch.distributed.fsdp import fully_shard
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
if isinstance(ddp, list):
    # Tensors of several meshes: torch's foreach would mix them.
    optimizers = [torch.optim.AdamW(part.parameters(), lr=1e-3, foreach=False) for part in ddp]
else:
    optimizers = [torch.optim.AdamW(ddp.parameters(), lr=1e-3)]
schedulers = [torch.optim.lr_scheduler.CosineAnnealingLR(one, 1000) for one in optimizers]
optimizer, scheduler = (optimizers, schedulers) if isinstance(ddp, list) else (optimizers[0], schedulers[0])
dataset = torch.utils.data.TensorDataset(x, y)


class Noisy(torch.utils.data.Dataset):
    """Augmented by all generators that a dataset may draw from."""

    def __len__(self):
        return len(clean)

    def __getitem__(self, index):
        inputs, targets = clean[index]
        return inputs + 0.1 * torch.randn_like(inputs) + random.random() + numpy.random.rand(), targets


if options.noise:
    import random
    import numpy
    clean, dataset = dataset, espalier.Seeded(Noisy())
data = espalier.Data(dataset)


class InOrder:
    """The samples of an epoch one after the other, with a place that can be kept."""

    def __init__(self):
        self.epoch = self.place = self.begin = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        begin, self.begin = self.begin, 0
        for at in range(begin, data.length):
            self.place = at + 1
            yield dataset[data.index(self.epoch * data.length + at)]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.begin = state["place"]


stream = espalier.Stream(run, InOrder()) if options.stream else None
source = stream or data
backward = torch.Tensor.backward
if options.kind == "accelerate":
    ddp, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    optimizers, schedulers = [optimizer], [scheduler]
    backward = accelerator.backward


def batches():
    if options.kind == "accelerate":
        yield from run.batches(torch.utils.data.DataLoader(dataset, batch_sampler=espalier.Batches(run, dataset)))
    else:
        for step in run.steps():
            yield step, None if options.most else source.batch(run.slice(step))


def timed(name, function):
    """CPU seconds that the main thread spends in the package, of the newest step so far. A step's end() counts to the next one."""
    def call(*arguments, **named):
        first = time.thread_time()
        try:
            return function(*arguments, **named)
        finally:
            inside[name] += time.thread_time() - first
    return call


inside = dict.fromkeys(("begin", "report", "end"), 0.0)
for name in inside:
    setattr(run, name, timed(name, getattr(run, name)))


class Dies:
    """What a generation after the first registers: it kills the process when it is looked at."""

    @property
    def state_dict(self):
        os.kill(os.getpid(), signal.SIGKILL)


dies = Dies() if options.die == "in" and run.generation > 0 else None
run.register(model=ddp, optimizer=optimizer, scheduler=scheduler, data=data, stream=stream, dies=dies)
if options.die == "after" and run.generation > 0:
    sys.exit("the test says so")
print(f"writer before the loop: {run.is_writer}", flush=True)
samples = open(f"{options.metrics}.samples", "a") if options.metrics else None
metrics = None
for step, batch in batches():
    inputs, targets = batch or (None, None)
    begin = time.time()
    for one in optimizers:
        one.zero_grad()
    # Devices whose time is that of their samples; those of a replica share it, at a price.
    time.sleep(options.pause * len(run.slice(step)) / options.batch / (run.unit ** 0.8 if options.layouts else 1))
    if options.most:
        loss = None
        for part in run.parts(step, options.most):
            inputs, targets = source.batch(part)
            run.backward(mse_loss(ddp(inputs), targets), part, by=backward)
    elif options.layouts:
        loss = divided.step(inputs, targets)
    else:
        loss = mse_loss(ddp(inputs), targets)
        backward(loss)
    if options.sync:
        time.sleep(options.sync * (run.world - 1) / run.world)
    if step == options.break_at and not options.break_late:
        break
    for one in () if run.rank == options.idle else (*optimizers, *schedulers):
        one.step()
    if step == options.break_at:
        break
    if step == options.fail_at and run.generation == 0:
        raise ValueError("the test says so")
    mean = run.report(loss, tokens=options.batch)
    if samples and run.rank % run.unit == 0:
        samples.write(f"{run.generation} {step} {run.slice(step).start} {run.slice(step).stop}\n")
        samples.flush()
    if run.is_writer and options.metrics:
        metrics = metrics or open(options.metrics, "a")
        metrics.write(json.dumps({"step": step, "loss": mean, "seconds": time.time() - begin, "generation": run.generation,
                                  "gpus": run.world, "plan": str(run.plan), "at": time.time(), "cpu_ms": 1000 * sum(inside.values())}, separators=(",", ":")) + "\n")
        metrics.flush()
    inside.update(dict.fromkeys(inside, 0.0))
print(f"rank {run.rank} of {run.world} is done", file=sys.stderr, flush=True)
if options.kind in UNITS or options.layouts:
    dist.destroy_process_group()  # of several groups' threads the interpreter's end may wait for
