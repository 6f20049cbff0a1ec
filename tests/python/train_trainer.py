"""The tests' training with Hugging Face's Trainer, in double precision: writes what train.py writes.

--mean-loss: a model that takes any arguments, and a subclass whose loss is the mean over a batch: 1 says so to the Trainer, 2 does not.
--noise 1: samples are drawn at random by two worker processes of the loader, from a dataset that reads whole batches; METRICS.drawn has them.
--own: the name of a method that a subclass of the Trainer has instead of the Trainer's own. --items: a model that gets `num_items_in_batch` and divides by it, with labels of which some do not count.
"""
import argparse
import json
import os
import sys
import time

import espalier

arguments = argparse.ArgumentParser()
for name, kind, default in (("metrics", str, ""), ("steps", int, 400), ("batch", int, 24), ("pause", float, 0.05), ("most", int, 0),
                            ("snapshot", float, 1.0), ("items", int, 0), ("save", int, 0), ("out", str, ""), ("stop-at", int, 0),
                            ("other-steps", int, 0), ("own", str, ""), ("mean-loss", int, 0), ("noise", int, 0)):
    arguments.add_argument("--" + name, type=kind, default=default)
options = arguments.parse_args()
run = espalier.join(global_batch=options.batch, steps=options.steps, snapshot_seconds=options.snapshot, start_seconds=300)

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from espalier.transformers import attach

torch.set_num_threads(1)
torch.manual_seed(1)
x = torch.randn(1000, 32, dtype=torch.float64)
y = x.sin().sum(1)
if options.items:
    y[::7] = -100


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double()
        self.seen, self.drawn = [], []

    def forward(self, x, labels, number):
        return self.judge(x, labels, number, None)

    def judge(self, x, labels, number, items):
        if self.training:
            self.seen += number.tolist()
            self.drawn += x[:, 0].tolist()
            time.sleep(options.pause * len(x) / options.batch)  # a device whose time is that of its samples
        apart = (self.layers(x).squeeze(1) - labels).square()
        return {"loss": apart.mean() if items is None else apart[labels != -100].sum() / items}


class Counting(Model):
    def forward(self, x, labels, number, num_items_in_batch=None, **_):
        return self.judge(x, labels, number, num_items_in_batch if self.training else (labels != -100).sum())


class Open(Model):
    """A Trainer gives it num_items_in_batch, of which it knows nothing."""

    def forward(self, x, labels, number, **_):
        return self.judge(x, labels, number, None)


class MeanLoss(Trainer):
    loss_is_scaled_for_ga = False if options.mean_loss == 1 else None

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        made = model(**inputs)
        return (made["loss"], made) if return_outputs else made["loss"]


class Noise(torch.utils.data.Dataset):
    def __len__(self):
        return len(x)

    def __getitem__(self, index):
        return {"x": torch.randn(32, dtype=torch.float64), "labels": y[index], "number": index}


class Writer(TrainerCallback):
    """Metrics and samples, as train.py writes them."""

    def on_step_begin(self, args, state, control, **_):
        self.began = time.time()

    def on_step_end(self, args, state, control, **_):
        step, numbers, seen = state.global_step, run.slice(state.global_step), model.seen
        model.seen = []
        with open(f"{options.metrics}.samples", "a") as samples:
            if seen == [batches.index(number) for number in numbers]:
                samples.write(f"{run.generation} {step} {numbers.start} {numbers.stop}\n")
            else:
                print(f"step {step}: computed {seen}", flush=True)
        if options.noise:
            with open(f"{options.metrics}.drawn", "a") as lines:
                lines.writelines(f"{one}\n" for one in model.drawn)
            model.drawn = []
        if run.is_writer:
            line = {"step": step, "loss": elastic.loss, "seconds": time.time() - self.began, "generation": run.generation,
                    "gpus": run.world, "plan": "trainer"}
            with open(options.metrics, "a") as metrics:
                metrics.write(json.dumps(line, separators=(",", ":")) + "\n")
        control.should_training_stop = control.should_training_stop or step == options.stop_at

    def on_log(self, args, state, control, logs, **_):
        if run.is_writer:
            with open(f"{options.metrics}.logs", "a") as lines:
                lines.write(json.dumps({"step": state.global_step, **logs}) + "\n")


model = (Open if options.mean_loss else Counting if options.items else Model)()
dataset = [{"x": x[i], "labels": y[i], "number": i} for i in range(len(x))]
if options.noise:
    dataset = torch.utils.data.Subset(Noise(), range(len(x)))
out = options.out or f"{options.metrics}.files"
kind = type("Own", (Trainer,), {options.own: lambda self, *_: getattr(Trainer, options.own)(self)}) if options.own else MeanLoss if options.mean_loss else Trainer
trainer = kind(model, TrainingArguments(
    out, max_steps=options.other_steps or options.steps, per_device_train_batch_size=options.most or options.batch, learning_rate=1e-3, logging_steps=10,
    lr_scheduler_type="constant_with_warmup", warmup_steps=200,     use_cpu=True, ddp_backend="gloo", save_strategy="steps" if options.save else "no", save_steps=options.save or 500,
    dataloader_num_workers=2 if options.noise else 0, report_to="none", disable_tqdm=True, remove_unused_columns=False), train_dataset=dataset)
elastic = attach(run, trainer)
trainer.add_callback(Writer())
batches = elastic._batches
trainer.train(resume_from_checkpoint=get_last_checkpoint(out) if options.save and os.path.isdir(out) else None)
print(f"rank {run.rank} of {run.world} is done", file=sys.stderr, flush=True)
