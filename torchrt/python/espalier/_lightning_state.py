"""What a generation hands to the next one of Lightning's own: a Lightning checkpoint without model, optimizer and counters.

The counters follow from the steps that are done, and from the number of parts that a step has in this generation.
"""
from __future__ import annotations

import copy
import os
from typing import Any, Dict, List


class Carried:
    """Callbacks, schedulers, the data module's state, what the hooks on_save_checkpoint() add, and where loggers write."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.loaded: Any = None  # and not applied yet

    def state_dict(self) -> Dict[str, Any]:
        trainer = self._trainer
        if self.loaded is not None:  # the first snapshot is made before Lightning has it
            return self.loaded  # type: ignore[no-any-return]
        for logger in trainer.loggers:
            logger.save()  # the next generation writes on where this one's file ends
        kept = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        for name in ("loops", "optimizer_states"):
            kept.pop(name, None)
        # Somebody may have put other weights there, e.g. their average.
        here = _addresses(trainer.strategy.lightning_module_state_dict())
        kept["state_dict"] = {name: one for name, one in kept["state_dict"].items() if _address(one) != here.get(name)}
        return {"checkpoint": kept, "versions": [getattr(logger, "_version", None) for logger in trainer.loggers],
                "saved": [getattr(one, "_last_global_step_saved", 0) for one in trainer.checkpoint_callbacks]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if len(state["versions"]) != len(self._trainer.loggers):
            raise ValueError(f"the Trainer has {len(self._trainer.loggers)} loggers, and had {len(state['versions'])}")
        self.loaded = copy.deepcopy(state)  # its tensors are in memory that is given back

    def apply(self) -> None:
        """After the model and the optimizer have theirs."""
        trainer, kept = self._trainer, self.loaded["checkpoint"]
        connector, module = trainer._checkpoint_connector, trainer.lightning_module
        for logger, version in zip(trainer.loggers, self.loaded["versions"]):
            if version is not None:
                logger._version = version
        for one, step in zip(trainer.checkpoint_callbacks, self.loaded["saved"]):
            # Lightning has chosen a folder of a new version, and forgets the checkpoints of another one.
            one.dirpath = kept["callbacks"].get(one.state_key, {}).get("dirpath", getattr(one, "dirpath", None))
            one._last_global_step_saved = step
        kept["state_dict"] = {**trainer.strategy.lightning_module_state_dict(), **kept["state_dict"]}
        connector._loaded_checkpoint = kept
        module.on_load_checkpoint(kept)
        connector.restore_datamodule()
        connector.restore_callbacks()
        connector.restore_precision_plugin_state()
        connector.restore_lr_schedulers()
        connector._loaded_checkpoint = {}
        self.loaded = None


def _address(value: Any) -> Any:
    return value.data_ptr() if hasattr(value, "data_ptr") else None


def _addresses(state: Dict[str, Any]) -> Dict[str, Any]:
    return {name: _address(one) for name, one in state.items()}


def keep_open(loggers: List[Any]) -> None:
    """A CSVLogger removes the file that it finds. Here it goes on with it."""
    for logger in loggers:
        path = os.path.join(logger.log_dir or "", "metrics.csv")
        if type(logger).__name__ != "CSVLogger" or not os.path.exists(path):
            continue
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
        experiment = logger.experiment
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        experiment.metrics_keys = text.split("\n", 1)[0].strip().split(",")


def go_on(trainer: Any, done: int, pass_steps: int, parts: int) -> None:
    """Sets Lightning's counters to those of a training that has done `done` steps and is about to do the next one."""
    fit = trainer.fit_loop
    loop = fit.epoch_loop
    epochs, inside = divmod(done, pass_steps)
    for at in (fit.epoch_progress.total, fit.epoch_progress.current):
        at.ready = at.started = epochs + (inside > 0)
        at.processed = at.completed = epochs
    batches, steps = loop.batch_progress, loop.automatic_optimization.optim_progress.optimizer.step
    for at, count in ((batches.total, done * parts), (batches.current, inside * parts)):
        at.ready = at.started = at.processed = at.completed = count
    for at, count in ((steps.total, done), (steps.current, inside)):
        at.ready = at.completed = count
    batches.is_last_batch = False
    loop._batches_that_stepped = done
    for one in (fit, loop, loop.val_loop):
        one._restarting = one._loaded_from_state_dict = one._resuming_from_checkpoint = False
    if inside == 0:
        return
    # "Restarting" keeps the counters of the epoch. What Lightning does besides, it does for checkpoints that were written inside a batch.
    fit._restarting = loop._restarting = True
    begin = loop.on_run_start

    def on_run_start(fetcher: Any) -> None:
        begin(fetcher)
        fit._restarting = loop._restarting = loop.val_loop._restarting = False
        loop.on_run_start = begin

    loop.on_run_start = on_run_start
