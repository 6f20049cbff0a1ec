"""A small training in double precision, for the tests: its losses are those of one process but for rounding.

Writes one line of JSON a step to METRICS (rank 0), and appends to METRICS.samples which samples each process used.
"""
import argparse
import json
import os
import sys
import time

import espalier

arguments = argparse.ArgumentParser()
for name, kind, default in (("metrics", str, ""), ("steps", int, 400), ("batch", int, 24), ("pause", float, 0.05), ("width", int, 64),
                            ("most", int, 0), ("checkpoint", str, None), ("every", int, 0), ("snapshot", float, 1.0),
                            ("fail-at", int, 0), ("other-model", int, 0)):
    arguments.add_argument("--" + name, type=kind, default=default)
options = arguments.parse_args()
run = espalier.join(global_batch=options.batch, steps=options.steps, checkpoint=options.checkpoint,
                    checkpoint_every=options.every, snapshot_seconds=options.snapshot)

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
x = torch.randn(1000, 32, dtype=torch.float64)
y = x.sin().sum(1, keepdim=True)
width = options.width + (options.other_model if run.generation > 0 else 0)
model = torch.nn.Sequential(torch.nn.Linear(32, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)).double()
ddp = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
data = espalier.Data(torch.utils.data.TensorDataset(x, y))
run.register(model=ddp, optimizer=optimizer, scheduler=scheduler, data=data)
print(f"writer before the loop: {run.is_writer}", flush=True)
samples = open(f"{options.metrics}.samples", "a") if options.metrics else None
metrics = None
for step in run.steps():
    begin = time.time()
    optimizer.zero_grad()
    if options.most:
        loss = None
        for part in run.parts(step, options.most):
            inputs, targets = data.batch(part)
            run.backward(mse_loss(ddp(inputs), targets), part)
    else:
        inputs, targets = data.batch(run.slice(step))
        loss = mse_loss(ddp(inputs), targets)
        loss.backward()
    time.sleep(options.pause * len(run.slice(step)) / options.batch)  # a device whose time is that of its samples
    optimizer.step()
    scheduler.step()
    if step == options.fail_at and run.generation == 0:
        raise ValueError("the test says so")
    mean = run.report(loss, tokens=options.batch)
    if samples:
        samples.write(f"{run.generation} {step} {run.slice(step).start} {run.slice(step).stop}\n")
        samples.flush()
    if run.is_writer and options.metrics:
        metrics = metrics or open(options.metrics, "a")
        metrics.write(json.dumps({"step": step, "loss": mean, "seconds": time.time() - begin, "generation": run.generation,
                                  "gpus": run.world, "plan": "dp"}, separators=(",", ":")) + "\n")
        metrics.flush()
print(f"rank {run.rank} of {run.world} is done", file=sys.stderr, flush=True)
