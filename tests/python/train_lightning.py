"""The tests' training with Lightning, in double precision: writes what train.py writes, and what Lightning's loggers and callbacks do into
METRICS.files.

--most: the DataLoader's batch_size. --sampler: settings of its RandomSampler. --refused: a setting of the Trainer that cannot be elastic. --sync 1: logs with sync_dist in each batch.
"""
import argparse
import json
import os
import sys
import time

import espalier

arguments = argparse.ArgumentParser()
for name, kind, default in (("metrics", str, ""), ("steps", int, 400), ("batch", int, 24), ("pause", float, 0.05), ("most", int, 0),
                            ("snapshot", float, 1.0), ("save", int, 0), ("stop-at", int, 0), ("refused", str, ""), ("out", str, ""), ("sync", int, 0),
                            ("sampler", str, "")):
    arguments.add_argument("--" + name, type=kind, default=default)
options = arguments.parse_args()
run = espalier.join(global_batch=options.batch, steps=options.steps, snapshot_seconds=options.snapshot, start_seconds=300)

import lightning
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from espalier.lightning import Elastic

torch.set_num_threads(1)
torch.manual_seed(1)
x = torch.randn(1000, 32, dtype=torch.float64)
y = x.sin().sum(1)
out = options.out or f"{options.metrics}.files"


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).double()
        self.seen = []
        self.epochs = 0  # kept by the hooks of checkpoints

    def training_step(self, batch, batch_idx):
        inputs, targets, numbers = batch
        self.seen += numbers.tolist()
        time.sleep(options.pause * len(inputs) / options.batch)  # a device whose time is that of its samples
        loss = (self.layers(inputs).squeeze(1) - targets).square().mean()
        self.log("train_loss", loss, sync_dist=bool(options.sync))
        return loss

    def validation_step(self, batch, batch_idx):
        inputs, targets, _ = batch
        self.log("val_loss", (self.layers(inputs).squeeze(1) - targets).square().mean(), sync_dist=True)

    def on_train_epoch_end(self):
        self.epochs += 1
        self.log("epochs", float(self.epochs))

    def on_save_checkpoint(self, checkpoint):
        checkpoint["epochs"] = self.epochs

    def on_load_checkpoint(self, checkpoint):
        self.epochs = checkpoint["epochs"]

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=200)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def train_dataloader(self):
        numbers = torch.arange(len(x))
        dataset = torch.utils.data.TensorDataset(x, y, numbers)
        sampler = torch.utils.data.RandomSampler(dataset, **json.loads(options.sampler)) if options.sampler else None
        return torch.utils.data.DataLoader(dataset, batch_size=options.most or options.batch, shuffle=sampler is None, sampler=sampler)

    def val_dataloader(self):
        numbers = torch.arange(32)
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x[:32], y[:32], numbers), batch_size=8)


class Writer(Callback):
    """Metrics and samples, as train.py writes them, and who writes when."""

    def setup(self, trainer, module, stage):
        assert not trainer.is_global_zero, "before the commit nobody may write"

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if not module.seen:
            self.began = time.time()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        step = trainer.global_step
        if module.trainer.fit_loop._should_accumulate():
            return
        numbers, seen = run.slice(step), module.seen
        module.seen = []
        order = trainer.strategy._loop._batches
        with open(f"{options.metrics}.samples", "a") as samples:
            if seen == [order.index(number) for number in numbers]:
                samples.write(f"{run.generation} {step} {numbers.start} {numbers.stop}\n")
            else:
                print(f"step {step}: computed {seen}", flush=True)
        if trainer.is_global_zero:
            line = {"step": step, "loss": trainer.strategy.loss, "seconds": time.time() - self.began, "generation": run.generation,
                    "gpus": run.world, "plan": "lightning"}
            with open(options.metrics, "a") as metrics:
                metrics.write(json.dumps(line, separators=(",", ":")) + "\n")
        if step == options.stop_at:
            trainer.should_stop = True

    def on_validation_end(self, trainer, module):
        if trainer.is_global_zero and not trainer.sanity_checking:
            with open(f"{options.metrics}.validated", "a") as lines:
                lines.write(json.dumps({"step": trainer.global_step, "epoch": trainer.current_epoch,
                                        "val_loss": float(trainer.callback_metrics["val_loss"])}) + "\n")


callbacks = [EarlyStopping("val_loss", patience=100000), Writer()]
if options.save:
    callbacks.append(ModelCheckpoint(every_n_train_steps=options.save, save_top_k=-1, filename="{step}", auto_insert_metric_name=False))
settings = {"max_steps": options.steps, "val_check_interval": 10, "check_val_every_n_epoch": None, "log_every_n_steps": 10}
settings.update(json.loads(options.refused) if options.refused else {})
trainer = lightning.Trainer(accelerator="cpu", strategy=Elastic(run), callbacks=callbacks, logger=CSVLogger(out), default_root_dir=out,
                            enable_checkpointing=bool(options.save), enable_progress_bar=False, enable_model_summary=False, **settings)
kept = sorted((os.path.join(folder, name) for folder, _, names in os.walk(out) for name in names if name.endswith(".ckpt")), key=os.path.getmtime)
trainer.fit(Model(), ckpt_path=kept[-1] if options.stop_at == 0 and kept else None)
print(f"rank {run.rank} of {run.world} is done", file=sys.stderr, flush=True)
