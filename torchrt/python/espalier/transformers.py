"""Hugging Face's Trainer on an elastic run. Needs `transformers` and `accelerate`; nothing else of the package does.

    from espalier.transformers import attach
    trainer = Trainer(model=model, args=arguments, train_dataset=dataset)
    attach(run, trainer)
    trainer.train()

The Trainer keeps its loop. Its data, the weight of its losses and what happens between two steps become the run's.
"""
from __future__ import annotations

import functools
import json
import os
import re
import sys
from typing import Any, Dict, List, Tuple

import torch
import transformers
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from ._random import seed_worker
from ._run import Run, RunError
from .data import Batches, Seeded, draws_nothing

_CARRIED = ("log_history", "best_metric", "best_global_step", "best_model_checkpoint", "total_flos", "num_input_tokens_seen")

_SCALED, _LOOKS_AT_SCALED = "loss_is_scaled_for_ga", "5.19"  # a Trainer's attribute, and the first version of transformers that looks at it


def attach(run: Run, trainer: Trainer) -> "ElasticCallback":
    """Makes `trainer.train()` the run's loop. Call it before train(), when the trainer has its datasets and callbacks.

    A step has run.global_batch samples, whatever the number of processes. args.per_device_train_batch_size is the most
    that a process computes at once; where its share is larger, it accumulates gradients. An epoch of the Trainer has
    len(train_dataset) // global_batch steps. Raises RunError for what cannot be elastic.
    """
    args = trainer.args
    if args.max_steps <= 0:
        args.max_steps = run.total_steps
    problems = {
        f"max_steps={args.max_steps}, and espalier.join() was told of {run.total_steps} steps": args.max_steps != run.total_steps,
        "DeepSpeed or FSDP": bool(trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled),
        "auto_find_batch_size": bool(args.auto_find_batch_size),
        f"{args.n_gpu} GPUs in one process; let each process see one": args.n_gpu > 1,
        f"it sees {args.world_size} of the run's {run.world} processes; on CPUs it needs use_cpu=True": args.world_size != run.world,
        "dataloader_in_order=False, which gives a step the batch of another one":
            not getattr(args, "dataloader_in_order", True) and args.dataloader_num_workers > 1,
        "a training dataset without a length": not hasattr(trainer.train_dataset, "__len__"),
        "train_sampling_strategy by length": getattr(args, "train_sampling_strategy", "random") not in ("random", "sequential"),
        **{f"{type(trainer).__name__}.{name}(), which would not be called; pass the dataset as train_dataset=, in the order of its elements, and leave "
           "the method out": _is_own(trainer, name) for name in ("get_train_dataloader", "_get_train_sampler")},
        f"{type(trainer).__name__}.compute_loss(), whose loss may be the mean over a batch, or be divided by num_items_in_batch already; say which, by the "
        "Trainer's attribute loss_is_scaled_for_ga: False for a mean, True for one that is divided, as that of super().compute_loss()": _tells_no_scale(trainer),
        f"{type(trainer).__name__}.loss_is_scaled_for_ga={getattr(trainer, _SCALED, None)}, which the Trainer of transformers {transformers.__version__} does "
        "not look at: it takes the loss for the other kind, and gradients would be wrong by the number of parts of a step; install transformers "
        f"{_LOOKS_AT_SCALED} or later": _tells_in_vain(trainer),
    }
    for problem, there in problems.items():
        if there:
            raise RunError(f"espalier.transformers.attach(): cannot make this Trainer elastic: {problem}")
    callback = ElasticCallback(run, trainer)
    # The first of all: others open files where training begins, which is not before the generation is the job.
    trainer.callback_handler.callbacks.insert(0, callback)
    return callback


def _is_own(trainer: Trainer, name: str) -> bool:
    """Whether the trainer has another method of this name than Trainer itself."""
    return getattr(getattr(trainer, name, None), "__func__", None) is not getattr(Trainer, name, None)


def _tells_no_scale(trainer: Trainer) -> bool:
    """Whether the Trainer takes the loss of a subclass for one that is divided by num_items_in_batch, and nobody has said that it is. A mean
    would be summed over the parts of a step, whose number changes with the number of GPUs."""
    counts = bool(trainer.model_accepts_loss_kwargs) or trainer.compute_loss_func is not None
    return counts and _is_own(trainer, "compute_loss") and getattr(trainer, _SCALED, None) is None


def _tells_in_vain(trainer: Trainer) -> bool:
    """Whether somebody has said which kind of loss this is, and this version of the Trainer, which does not hear it, takes the loss for the other kind."""
    scaled = getattr(trainer, _SCALED, None)
    counts = bool(trainer.model_accepts_loss_kwargs) or trainer.compute_loss_func is not None
    return scaled is not None and not hasattr(Trainer, _SCALED) and bool(scaled) != counts


def _is_whole(folder: str) -> bool:
    """Whether a checkpoint of the Trainer's was written to its end: trainer_state.json comes last."""
    try:
        with open(os.path.join(folder, "trainer_state.json"), encoding="utf-8") as file:
            json.load(file)
        return True
    except (OSError, ValueError):
        return False


def _held(folder: Any) -> Tuple[str, ...]:
    """Names of the registered objects that Trainer fills from its checkpoint. It passes over the optimizer's and the scheduler's files where one of
    them is missing, as save_only_model=True leaves them out."""
    def there(name: str) -> bool:
        return bool(folder) and os.path.isfile(os.path.join(folder, name))

    return ("model", "data", "trainer", *(("optimizer", "scheduler") if there("optimizer.pt") and there("scheduler.pt") else ()),
            *(("scaler",) if there("scaler.pt") else ()))


def _whole_checkpoint(folder: str, given: Any, tells: bool) -> Any:
    """What train() is given as resume_from_checkpoint, or the newest checkpoint in the Trainer's `folder` before it where that is not whole. None: no
    such one is. A folder that was named and lies elsewhere is the script's affair. tells: whether this process says what is passed over."""
    if not given or not os.path.isdir(folder):
        return given
    there = {int(found[1]): os.path.join(folder, one) for one in os.listdir(folder) if (found := re.fullmatch(r"checkpoint-(\d+)", one))}
    newest_first = [there[step] for step in sorted(there, reverse=True) if os.path.isdir(there[step])]
    if given is not True:
        same = [os.path.realpath(one) == os.path.realpath(given) for one in newest_first]
        newest_first = newest_first[same.index(True):] if True in same else []
    for one in newest_first:
        if _is_whole(one):
            return one
        if tells:
            print(f"espalier: {one} is not whole: it has no readable trainer_state.json, which the Trainer writes last; the checkpoint before it is taken, "
                  "if there is one", file=sys.stderr, flush=True)
    return None if newest_first else given


class ElasticCallback(TrainerCallback):
    """What the run does in a Trainer's loop. Made by attach()."""

    def __init__(self, run: Run, trainer: Trainer) -> None:
        self._run, self._trainer, args = run, trainer, trainer.args
        self.loss = 0.0  # of the last step: the mean over the global batch
        self._pass = max(1, len(trainer.train_dataset) // run.global_batch)
        self._seed = args.seed if args.data_seed is None else args.data_seed
        self._batches = Batches(run, self._seeded(trainer.train_dataset), most=args.per_device_train_batch_size, pass_steps=self._pass,
                                shuffle=getattr(args, "train_sampling_strategy", "random") == "random", seed=self._seed)
        self._parts = self._batches.parts(1)  # of each step of this generation they have the same sizes
        args.gradient_accumulation_steps = len(self._parts)
        args.ignore_data_skip = True  # samples have numbers: nothing needs to be read and thrown away
        self._part = 0          # which part of the step is being computed
        self._of_step = False   # a step is being computed, not an evaluation
        self._in_step = False   # begun, and its hand-over has not come yet
        self._unlogged = 0.0    # sum of the losses since the Trainer last logged
        self._own_loss = _is_own(trainer, "compute_loss")
        self._train, self._training_step, self._compute_loss = trainer.train, trainer.training_step, trainer.compute_loss
        replaced: Dict[str, Any] = {"train": self._train_from_whole, "get_train_dataloader": self._loader, "training_step": self._weigh_step,
                                    "compute_loss": self._weigh_loss, "get_total_train_batch_size": lambda _args: run.global_batch,
                                    "_load_best_model": self._end_before_best}
        self._load_optimizer = trainer._load_optimizer_and_scheduler
        self._read: Any = None  # the folder of the checkpoint that the Trainer has read
        replaced["_load_optimizer_and_scheduler"] = self._load_optimizer_of
        self._load_best_model, self._finished = trainer._load_best_model, False
        self._init_training_state = getattr(trainer, "_init_training_state", None)
        if self._init_training_state is not None:
            replaced["_init_training_state"] = self._from_first_epoch
        self._run_epoch = getattr(trainer, "_run_epoch", None)
        if self._run_epoch is not None:
            replaced["_run_epoch"] = self._epoch_with_steps
        for name, one in replaced.items():
            setattr(trainer, name, one)

    # ---- data and losses

    def _seeded(self, dataset: Any) -> Any:
        """Datasets that read a batch at once, as those of `datasets`, draw by batch."""
        return dataset if hasattr(dataset, "__getitems__") or draws_nothing(dataset) else Seeded(dataset, seed=self._seed)

    def _loader(self) -> Any:
        trainer, args, dataset = self._trainer, self._trainer.args, self._trainer.train_dataset
        try:
            import datasets
            ours = isinstance(dataset, datasets.Dataset)
        except ImportError:
            ours = False
        collate = trainer.data_collator
        if ours:
            dataset = trainer._remove_unused_columns(dataset, description="training")
        else:
            collate = trainer._get_collator_with_removed_columns(collate, description="training")
        workers: Dict[str, Any] = {}
        if args.dataloader_num_workers > 0:
            workers = {"prefetch_factor": args.dataloader_prefetch_factor, "persistent_workers": args.dataloader_persistent_workers,
                       "multiprocessing_context": getattr(args, "dataloader_multiprocessing_context", None),
                       "worker_init_fn": functools.partial(seed_worker, rank=self._run.rank, generation=self._run.generation)}
        # Not prepared by Accelerate, which would divide the batches once more.
        return torch.utils.data.DataLoader(self._seeded(dataset), batch_sampler=self._batches, collate_fn=collate,
                                           num_workers=args.dataloader_num_workers,
                                           pin_memory=args.dataloader_pin_memory and torch.cuda.is_available(), **workers)

    def _weigh_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        self._of_step = True
        try:
            loss = self._training_step(model, inputs, num_items_in_batch)
        finally:
            self._of_step = False
        self._part += 1
        self._run.add_loss(loss.double() / self._run.world)
        return loss

    def _weigh_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None,
                    **more: Any) -> Any:
        made = self._compute_loss(model, inputs, return_outputs=return_outputs, num_items_in_batch=num_items_in_batch, **more)
        if not self._of_step:
            return made
        loss = (made[0] if return_outputs else made) * self._weight(num_items_in_batch)
        return (loss, made[1]) if return_outputs else loss

    def _weight(self, items: Any) -> float:
        """What the Trainer's loss of a part is multiplied by, so that the mean of all processes' sums of their parts is the
        mean over the global batch."""
        trainer, run = self._trainer, self._run
        scaled, function = getattr(trainer, _SCALED, None), trainer.compute_loss_func
        counted = (trainer.model_accepts_loss_kwargs or function is not None) and items is not None
        of_all = counted and trainer.args.average_tokens_across_devices  # Trainer.compute_loss() has multiplied by the number of processes
        if scaled or (scaled is None and counted):
            # By the items of the global batch, or by those of the slice.
            return 1.0 if of_all else len(run.slice(1)) * run.world / run.global_batch
        share = len(self._parts[self._part]) * run.world / run.global_batch  # the loss is the mean over the part
        if scaled is False:
            # training_step() divides it by the number of parts. What Trainer's own compute_loss() has multiplied a mean by is taken back.
            return share * len(self._parts) / (run.world if of_all and not self._own_loss else 1)
        return share * len(self._parts) if function is None else share

    # ---- the loop

    def _train_from_whole(self, resume_from_checkpoint: Any = None, *given: Any, **named: Any) -> Any:
        """A process that was killed while the Trainer saved has left half a checkpoint. The Trainer would take it, as it is the last one, and fail."""
        return self._train(_whole_checkpoint(self._trainer.args.output_dir or "", resume_from_checkpoint, self._run.rank == 0), *given, **named)

    def _from_first_epoch(self, *given: Any, **named: Any) -> Tuple[int, int]:
        """The Trainer's epochs that are done, and the batches of the next one that are done: none. The Trainer counts them by its own checkpoint,
        before the run tells after which step it goes on. That may be an earlier one, and the epochs that are left would be too few. The loop ends
        by max_steps, so epochs too many do no harm."""
        assert self._init_training_state is not None
        self._init_training_state(*given, **named)
        return 0, 0

    def _epoch_with_steps(self, *given: Any, **named: Any) -> None:
        """Where all steps were done before, as in a training that is started once more, the Trainer's epoch would have no batch. The Trainer would
        warn of that, evaluate, and write its last checkpoint over, of which a kill would leave half."""
        assert self._run_epoch is not None
        if self._run.done < self._run.total_steps:
            self._run_epoch(*given, **named)
        else:
            self._trainer.control.should_training_stop = True

    def _load_optimizer_of(self, checkpoint: Any) -> None:
        self._read = checkpoint
        self._load_optimizer(checkpoint)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer, run = self._trainer, self._run
        carried = _Carried(trainer, self, state)
        run.register(model=trainer.model_wrapped, optimizer=trainer.optimizer, scheduler=trainer.lr_scheduler,
                     scaler=getattr(trainer.accelerator, "scaler", None), data=self._batches, trainer=carried)
        own = state.global_step
        done = run.start(own, _held(self._read))
        if self._init_training_state is None and done // self._pass < own // self._pass:
            raise RunError(f"espalier: training goes on after step {done}, and the Trainer of this transformers has counted the epochs that are left by its "
                           f"own checkpoint of step {own}, so it would end too early: update transformers to 5.3 or later, or delete the checkpoints "
                           f"in output_dir that are newer than step {done}")
        if carried.loaded is None:
            return
        # Also where no step is done: the Trainer may have read a checkpoint of its own, and has the step's number from that.
        carried.apply()
        state.global_step, state.epoch = done, done / self._pass
        if done > 0:
            args.eval_on_start = False

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self._end_step()  # before the loader is asked where it begins

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._end_step()
        self._run.begin(1.0 / self._run.world)
        self._part, self._in_step = 0, True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.loss = self._run.report()
        self._unlogged += self.loss
        state.epoch = state.global_step / self._pass

    def _end_step(self) -> None:
        """A step ends where the next one begins: the Trainer logs, evaluates and writes checkpoints after on_step_end()."""
        if self._in_step:
            self._in_step = False
            if self._trainer._globalstep_last_logged == self._trainer.state.global_step:
                self._unlogged = 0.0
            self._run.end()

    # ---- work that is no step: the launcher hears that it gets on

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        self._run.progress()

    def on_evaluate(self, *_: Any, **__: Any) -> None:
        self._run.progress()

    def on_predict(self, *_: Any, **__: Any) -> None:
        self._run.progress()

    def on_save(self, *_: Any, **__: Any) -> None:
        self._run.progress()

    # ---- the end

    def _end_before_best(self, *given: Any, **named: Any) -> Any:
        """load_best_model_at_end: what is kept of the training's end is the state of its last step. The best weights with the optimizer of that step
        are no state to go on from. A callback may load them in the midst of the training, which ends nothing."""
        if self._trainer.control.should_training_stop:
            self._finish()
        return self._load_best_model(*given, **named)

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        if self._trainer.state.global_step == self._run.total_steps:
            self._end_step()
        self._run.finish()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._finish()


class _Carried:
    """The Trainer's own state, as something to register: logs, the best metric, counters of callbacks."""

    def __init__(self, trainer: Trainer, callback: ElasticCallback, state: Any) -> None:
        self._trainer, self._callback, self._state = trainer, callback, state
        self.loaded: Any = None  # and not applied yet

    def _exportable(self) -> List[Any]:
        return [one for one in self._trainer.callback_handler.callbacks if isinstance(one, ExportableState)]

    def state_dict(self) -> Dict[str, Any]:
        trainer = self._trainer
        if self.loaded is not None:  # the first snapshot is made before the Trainer has it
            return self.loaded  # type: ignore[no-any-return]
        return {**{name: getattr(self._state, name) for name in _CARRIED},
                "unlogged": self._callback._unlogged, "logged_step": trainer._globalstep_last_logged,
                "logged_loss": trainer._total_loss_scalar, "first_step": trainer._initial_global_step,
                "callbacks": [(type(one).__name__, one.state()["attributes"]) for one in self._exportable()]}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        kinds = [type(one).__name__ for one in self._exportable()]
        if kinds != [kind for kind, _ in state["callbacks"]]:
            raise ValueError(f"the Trainer has the callbacks {kinds}, and had {[kind for kind, _ in state['callbacks']]}")
        self.loaded = state

    def apply(self) -> None:
        trainer, state = self._trainer, self.loaded
        for name in _CARRIED:
            setattr(self._state, name, state[name])
        self._callback._unlogged = state["unlogged"]
        trainer._tr_loss = torch.full_like(trainer._tr_loss, state["unlogged"])
        trainer._globalstep_last_logged = state["logged_step"]
        trainer._total_loss_scalar, trainer._initial_global_step = state["logged_loss"], state["first_step"]
        for one, (_, attributes) in zip(self._exportable(), state["callbacks"]):
            for name, value in attributes.items():
                setattr(one, name, value)
        self.loaded = None
