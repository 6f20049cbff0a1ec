"""PyTorch Lightning on an elastic run. Needs `lightning` or `pytorch-lightning`; nothing else of the package does.

    from espalier.lightning import Elastic
    trainer = lightning.Trainer(max_steps=STEPS, strategy=Elastic(run))
    trainer.fit(model, DataLoader(dataset, batch_size=12, shuffle=True))

Lightning keeps its loop. Its processes, its data, the weight of its losses and what happens between two steps become the run's.
"""
from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any, Dict, Optional

import torch

from ._lightning_loop import Loop
from ._run import Run, RunError

# The same library under two names. A Trainer takes strategies of its own name only.
_OLD_NAME = "lightning.pytorch" not in sys.modules and ("pytorch_lightning" in sys.modules or importlib.util.find_spec("lightning") is None)
_pytorch, _fabric = ("pytorch_lightning", "lightning_fabric") if _OLD_NAME else ("lightning.pytorch", "lightning.fabric")
_DDPStrategy: Any = importlib.import_module(f"{_pytorch}.strategies").DDPStrategy
_Callback: Any = importlib.import_module(f"{_pytorch}.callbacks").Callback
_ClusterEnvironment: Any = importlib.import_module(f"{_fabric}.plugins.environments").ClusterEnvironment
_rank_zero_only: Any = importlib.import_module(f"{_fabric}.utilities.rank_zero").rank_zero_only


class _Environment(_ClusterEnvironment):  # type: ignore[misc]
    """The launcher's processes, or those that torchrun has started, or one."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    creates_processes_externally = True

    @staticmethod
    def detect() -> bool:
        return False  # nobody but Elastic makes one

    @property
    def main_address(self) -> str:
        return os.environ["MASTER_ADDR"]

    @property
    def main_port(self) -> int:
        return int(os.environ["MASTER_PORT"])

    def world_size(self) -> int:
        return self._run.world

    def set_world_size(self, size: int) -> None:
        pass  # Lightning multiplies nodes and devices, of which it was not told

    def global_rank(self) -> int:
        return self._run.rank

    def set_global_rank(self, rank: int) -> None:
        pass

    def local_rank(self) -> int:
        return self._run.local_rank

    def node_rank(self) -> int:
        return self._run.node_rank


class Elastic(_DDPStrategy):  # type: ignore[misc]
    """The strategy of a Trainer whose fit() is the run's loop: DistributedDataParallel.

    A step has run.global_batch samples, whatever the number of processes. The batch_size of the training's DataLoader is the most
    that a process computes at once; where its share is larger, it accumulates gradients, so accumulate_grad_batches is not given. An epoch
    has len(dataset) // run.global_batch steps, and val_check_interval counts steps. `settings` are DistributedDataParallel's.
    Raises RunError, here or in fit(), for what cannot be elastic.
    """

    def __init__(self, run: Run, **settings: Any) -> None:
        for name in ("cluster_environment", "ddp_comm_hook", "model_averaging_period", "start_method"):
            if settings.get(name) is not None:
                raise RunError(f"espalier.lightning.Elastic({name}=...): cannot be set, as the run decides it; leave it out")
        if run.unit != 1 or run.has_layouts:
            raise RunError("espalier.lightning.Elastic(): a Trainer's replicas are single processes; leave unit= and parallel= out of espalier.join()")
        super().__init__(cluster_environment=_Environment(run), **settings)
        self._run = run
        self._loop: Optional[Loop] = None
        self._writes = False  # whether this process may write files, logs and checkpoints

    @property
    def loss(self) -> float:
        """Of the last step: the mean over the global batch."""
        return 0.0 if self._loop is None else self._loop.loss

    # ---- who

    @property
    def root_device(self) -> torch.device:
        devices = self.parallel_devices or [torch.device("cpu")]
        return devices[self.local_rank if self.local_rank < len(devices) else 0]

    @property
    def is_global_zero(self) -> bool:
        """Lightning writes where this is true: never before the generation is the job, and not once another one is."""
        return self._writes

    @property
    def distributed_sampler_kwargs(self) -> Dict[str, Any]:
        return {"num_replicas": self._run.world, "rank": self._run.rank}

    def set_world_ranks(self) -> None:
        self.let_write(self._writes)

    def let_write(self, allowed: bool) -> None:
        self._writes = allowed and self._run.rank == 0
        _rank_zero_only.rank = 0 if self._writes else self._run.rank + 1

    # ---- the training

    def setup(self, trainer: Any) -> None:
        if trainer.state.fn != "fit":
            super().setup(trainer)
            self.let_write(True)
            return
        self._loop = Loop(self._run, trainer, self)
        self._loop.prepare()
        super().setup(trainer)
        trainer.callbacks.insert(0, _Between(self._loop))  # others write where training begins
        self._loop.start()

    def backward(self, closure_loss: torch.Tensor, optimizer: Any, *more: Any, **named: Any) -> torch.Tensor:
        assert self._loop is not None
        result: torch.Tensor = super().backward(self._loop.weighed(closure_loss), optimizer, *more, **named)
        return result

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        if self._loop is not None:
            self._loop.check_exchange()
        return super().reduce(tensor, group, reduce_op)

    # ---- work that is no step: the launcher hears after each batch and each checkpoint that it gets on

    def validation_step(self, *given: Any, **named: Any) -> Any:
        return self._told(super().validation_step(*given, **named))

    def test_step(self, *given: Any, **named: Any) -> Any:
        return self._told(super().test_step(*given, **named))

    def predict_step(self, *given: Any, **named: Any) -> Any:
        return self._told(super().predict_step(*given, **named))

    def save_checkpoint(self, *given: Any, **named: Any) -> None:
        self._told(super().save_checkpoint(*given, **named))

    def _told(self, result: Any) -> Any:
        self._run.progress()
        return result

    # ---- the end

    def teardown(self) -> None:
        if self._loop is None or not self._loop.left:
            super().teardown()  # it copies the state to the host, which who leaves has no time for


class _Between(_Callback):  # type: ignore[misc]
    """What the run does in Lightning's loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        self._loop.begin_part(batch_idx)

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        self._loop.optimizes()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._loop.end_part()

    def on_train_end(self, trainer: Any, module: Any) -> None:
        """Before other callbacks, which may put other weights into the model, as averages: with the last step's optimizer they are no state to go
        on from."""
        self._loop.end_step()
        self._loop.finish()

    def on_fit_end(self, trainer: Any, module: Any) -> None:
        self._loop.finish()  # Lightning calls no on_train_end() where all steps are done before
