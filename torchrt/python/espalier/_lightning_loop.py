"""Lightning's loop as the run's: its data, the weight of its losses, and what happens between two steps. Made by lightning.Elastic.

Lightning's batches are the parts of a step. Their number depends on the number of processes, so what Lightning counts in batches is
counted in steps here, and multiplied.
"""
from __future__ import annotations

from typing import Any, Iterator

import torch

from ._control import Leave
from ._lightning_state import Carried, go_on, keep_open
from ._random import seed_step
from ._run import Run, RunError
from ._slices import count_of
from .data import Batches, Seeded, draws_nothing


class _Loader:
    """What Lightning iterates over instead of the script's DataLoader. An epoch begins with the step after those that are done,
    which is known when the first batch is asked for, and no sooner."""

    def __init__(self, loop: "Loop", batches: Batches, loader: Any) -> None:
        self._loop, self._batches, self._loader = loop, batches, loader

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        self._loop.end_step()
        yield from self._loader

    # Lightning warns that an epoch cannot be gone on with where a loader has none of these.
    def state_dict(self) -> Any:
        return self._batches.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self._batches.load_state_dict(state)


class Loop:
    """Raises RunError for what cannot be elastic."""

    def __init__(self, run: Run, trainer: Any, strategy: Any) -> None:
        self._finished = False
        self.loss, self.left = 0.0, False
        self._run, self._trainer, self._strategy = run, trainer, strategy
        self._batches: Any = None  # Batches of the training's data
        self._most = 1             # samples of a part
        self._parts: Any = ()      # of the first step; those of each step of this generation have the same sizes
        self._count = 1            # their number
        self._part = 0             # which of them is being computed
        self._in_step = False      # begun, and its hand-over has not come yet
        self._computes = False     # a part is being computed
        self._reported = False
        problems = {
            f"max_steps={trainer.max_steps}, and espalier.join() was told of {run.total_steps} steps": trainer.max_steps != run.total_steps,
            "automatic_optimization = False": not trainer.lightning_module.automatic_optimization,
            f"accumulate_grad_batches={trainer.accumulate_grad_batches}; espalier.join(global_batch=...) says how many samples a step has, "
            "and the DataLoader's batch_size how many are computed at once": trainer.accumulate_grad_batches != 1,
            "limit_train_batches": trainer.limit_train_batches != 1.0,
            "overfit_batches": trainer.overfit_batches > 0,
            "reload_dataloaders_every_n_epochs": bool(trainer.reload_dataloaders_every_n_epochs),
            "val_check_interval as a time": getattr(trainer, "_val_check_time_interval", None) is not None,
        }
        for problem, there in problems.items():
            if there:
                raise _cannot(problem)

    # ---- before the first step

    def prepare(self) -> None:
        """The data, before Lightning asks the model for its optimizers: schedulers may depend on it. All that may take long is done
        while the generation before still trains."""
        trainer, fit = self._trainer, self._trainer.fit_loop
        connector = trainer._data_connector
        prepare = connector._prepare_dataloader
        connector._prepare_dataloader = lambda loader, shuffle, mode: self._loader(loader) if mode == "train" else prepare(loader, shuffle, mode)
        # Slurm's SIGTERM is a notice, of which the launcher decides what it means. Lightning's handlers would end the training, and it asks
        # all processes about them in each batch: those with fewer batches would answer another question.
        trainer._signal_connector.register_signal_handlers = fit.epoch_loop._broadcast_sigterm_tensor = lambda: None
        interval, trainer.val_check_interval = trainer.val_check_interval, 1.0
        fit.setup_data()
        if fit._combined_loader is None or len(fit._combined_loader.flattened) != 1:
            raise _cannot("several DataLoaders for training, or none")
        trainer.val_check_interval = interval
        steps = len(self._batches) // self._count
        if isinstance(interval, int) and trainer.check_val_every_n_epoch is not None and interval > steps:
            raise _cannot(f"val_check_interval={interval} steps, and an epoch has {steps}")
        trainer.val_check_batch = self._count * (interval if isinstance(interval, int) else max(1, int(steps * interval)))

    def _loader(self, given: Any) -> _Loader:
        run, kind = self._run, type(getattr(given, "sampler", None)).__name__
        problems = {
            f"a {type(given).__name__} instead of a DataLoader": not isinstance(given, torch.utils.data.DataLoader),
            "a training dataset without a length": not hasattr(getattr(given, "dataset", None), "__len__"),
            "a DataLoader without a batch_size": getattr(given, "batch_size", None) is None,
            f"a DataLoader with a {kind}": kind not in ("RandomSampler", "SequentialSampler", "DistributedSampler"),
            "a RandomSampler with replacement or num_samples; each sample comes once an epoch": _draws_otherwise(getattr(given, "sampler", None)),
        }
        for problem, there in problems.items():
            if there:
                raise _cannot(problem)
        if len(given.dataset) < run.global_batch:
            raise _cannot(f"a dataset of {len(given.dataset)} samples, which is less than the global batch of {run.global_batch}")
        dataset = given.dataset
        if not (hasattr(dataset, "__getitems__") or draws_nothing(dataset)):
            dataset = Seeded(dataset, seed=run.seed)
        self._batches = Batches(run, dataset, shuffle=kind == "RandomSampler" or bool(getattr(given.sampler, "shuffle", False)),
                                seed=run.seed, most=given.batch_size, pass_steps=len(dataset) // run.global_batch)
        self._most = given.batch_size
        self._parts = self._batches.parts(1)
        self._count = self._trainer.accumulate_grad_batches = len(self._parts)
        workers = {}
        if given.num_workers > 0:
            workers = {"prefetch_factor": given.prefetch_factor, "persistent_workers": given.persistent_workers,
                       "multiprocessing_context": given.multiprocessing_context}
        return _Loader(self, self._batches, torch.utils.data.DataLoader(
            dataset, batch_sampler=self._batches, collate_fn=given.collate_fn, num_workers=given.num_workers, pin_memory=given.pin_memory,
            timeout=given.timeout, worker_init_fn=given.worker_init_fn, generator=given.generator, **workers))

    def start(self) -> None:
        """When model and optimizer are set up: takes over the state, and returns after the commit."""
        trainer, run = self._trainer, self._run
        if len(trainer.optimizers) != 1:
            raise _cannot(f"{len(trainer.optimizers)} optimizers")
        validation = trainer.fit_loop.epoch_loop.val_loop
        if trainer.enable_validation:
            trainer.validating = True
            validation.setup_data()
            trainer.training = True
        trainer._checkpoint_connector.restore_training_state()  # of fit(ckpt_path=...)
        carried = Carried(trainer)
        run.register(model=self._strategy.model, optimizer=trainer.optimizers[0], data=self._batches, trainer=carried)
        done = run.start(trainer.global_step, ("model", "optimizer", "data", "trainer"))
        self._strategy.let_write(True)
        if self._strategy.is_global_zero and trainer.progress_bar_callback is not None:
            trainer.progress_bar_callback.enable()  # Lightning has disabled it where nothing is to be written
        trainer._checkpoint_connector._loaded_checkpoint = {}
        # A state after no step counts too: Lightning's counters may be those of a checkpoint that it has read.
        if done > 0 or carried.loaded is not None:
            trainer.num_sanity_val_steps = 0
            go_on(trainer, done, len(self._batches) // self._count, self._count)
            if carried.loaded is not None:
                carried.apply()
                trainer._checkpoint_connector._ckpt_path = None  # Lightning would say that it goes on from this
            else:
                for one in trainer.checkpoint_callbacks:
                    one._last_global_step_saved = done  # or one is written again in the middle of the next step
        if self._strategy.is_global_zero:
            keep_open(trainer.loggers)

    # ---- the loop

    def begin_part(self, batch: int) -> None:
        if batch % self._count == 0:
            self.end_step()
            self._run.begin(1.0 / self._run.world)
            self._part, self._in_step, self._reported = 0, True, False
        else:
            seed_step(self._run.seed, self._run.done + 1, self._parts[self._part].start)
        self._computes = True

    def weighed(self, loss: torch.Tensor) -> torch.Tensor:
        """Lightning's loss of a part, so that the mean of all processes' sums of their parts is the mean over the global batch."""
        share = self._count * len(self._parts[self._part]) / self._run.global_batch  # Lightning has divided it by the parts
        self._run.add_loss(loss.detach().double() * share)
        return loss * (share * self._run.world)

    def optimizes(self) -> None:
        """Lightning computes the gradients inside the optimizer's step."""
        self._run.optimizes()

    def check_exchange(self) -> None:
        """Raises RunError where a part's exchange would meet another one in a process with more parts."""
        counts = {min(count_of(self._run.shares, self._most), share) for share in self._run.shares} if self._computes else {1}
        if len(counts) > 1 and self._run.world > 1:
            raise _cannot(f"self.log(..., sync_dist=True) in training_step(), where a step has {min(counts)} batches in one process and "
                          f"{max(counts)} in another; give the DataLoader a larger batch_size, or log with on_step=False")

    def end_part(self) -> None:
        self._computes = False
        self._part += 1
        if self._part == self._count:
            self.loss, self._reported = self._run.report(), True

    def end_step(self) -> None:
        """A step ends where the next one begins: Lightning logs, validates and writes checkpoints after its last part."""
        if not self._in_step:
            return
        if not self._reported:
            raise _cannot("a step that is left half-way, as where on_train_batch_start() returns -1")
        self._in_step = False
        try:
            self._run.end()
        except Leave:
            self.left = True
            self._strategy.let_write(False)
            # What these write at an exception is the next generation's to write.
            self._trainer.callbacks.clear()
            self._trainer.loggers = []
            raise

    def finish(self) -> None:
        """Once: further calls do nothing."""
        if not self._finished:
            self._finished = True
            self._run.finish()


def _draws_otherwise(sampler: Any) -> bool:
    """Whether a RandomSampler gives other samples than each of the dataset's once."""
    return bool(getattr(sampler, "replacement", False)) or getattr(sampler, "_num_samples", None) is not None


def _cannot(problem: str) -> RunError:
    return RunError(f"espalier.lightning.Elastic: cannot make this Trainer elastic: {problem}")
