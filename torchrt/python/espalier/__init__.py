"""Makes a PyTorch training elastic: it may be given more GPUs while it trains, and gives them back.

    import espalier
    run = espalier.join(global_batch=512, steps=1000)     # before torch
    import torch
    ...
    torch.distributed.init_process_group()
    ddp = DistributedDataParallel(model)
    run.register(model=ddp, optimizer=optimizer, scheduler=scheduler)
    for step in run.steps():
        loss = mean_loss(ddp(batch_of(run.slice(step))))
        loss.backward()
        optimizer.step()
        run.report(loss)

README.md beside this package and espalier-worker(7) tell the rest.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Union

from ._spare import wait_as_spare

wait_as_spare()

from ._channel import ChannelError
from ._layouts import Plan
from ._run import Part, Run, RunError

if TYPE_CHECKING:
    from .data import Batches, Data, Seeded
    from .stream import Stream

__version__ = "0.1.0"
__all__ = ["Batches", "ChannelError", "Data", "Part", "Plan", "Run", "RunError", "Seeded", "Stream", "join"]


def join(*, global_batch: int, steps: int, seed: int = 0, checkpoint: Optional[str] = None, checkpoint_every: int = 0,
         checkpoint_minutes: float = 30.0, snapshot_seconds: float = 10.0, start_seconds: int = 180,
         parallel: Union[str, Sequence[Dict[str, int]]] = "data", unit: int = 1, hand_over_pages: bool = True) -> Run:
    """Says hello to the launcher, and learns which process this is. Call it before torch is imported: importing takes
    seconds, in which the launcher would take this for a program that knows nothing of it.

    global_batch: samples of a step, whatever the number of processes. steps: of the whole training. checkpoint: a file that
    the first process writes every `checkpoint_every` steps (0: not by steps), after `checkpoint_minutes` without one (0: not by
    time), so that no loss costs more, and where it is asked to; a training that finds it goes on from it, unless the program has read
    a newer checkpoint of its own that holds all that is registered. snapshot_seconds: how often at most the state is copied into
    memory that outlives this process. start_seconds: how long the processes of a generation may take to start.

    parallel: "data": generations differ in the number of replicas. Or the layouts of a replica that the script can run, the preferred
    one first: [{"tp": 2}, {"pp": 2, "tp": 2}]. Names of dimensions are free; the product of a layout's degrees is the number of processes
    of a replica, another one in each layout. run.plan has the degrees of this generation, and run.plan.mesh() torch's DeviceMesh of
    them. What the processes of a replica divide must be DTensors or stages; see Run.register().

    unit: with "data" the processes of a replica, which the script divides among tensor, pipeline or other parallelism of its own. Their
    number stays the same. Each of them registers its own part of the model.

    hand_over_pages: whether a state on CPUs moves into shared memory after two steps, whose pages a change hands over. False: the state stays in
    torch's memory, and a change copies it, as it does where this process has forked.

    The processes of a replica are on one node, and have the ranks from run.replica * run.unit on.

    Outside of Slurm, or in a job without --elastic, the run is a plain one: of RANK and WORLD_SIZE if they are set
    (torchrun), else of this process alone. Raises ChannelError and RunError.
    """
    return Run(global_batch, steps, seed=seed, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
               checkpoint_minutes=checkpoint_minutes, snapshot_seconds=snapshot_seconds, start_seconds=start_seconds, parallel=parallel, unit=unit,
               hand_over_pages=hand_over_pages)


def __getattr__(name: str) -> Any:
    if name in ("Batches", "Data", "Seeded"):  # they need torch
        from . import data
        return getattr(data, name)
    if name == "Stream":
        from .stream import Stream
        return Stream
    raise AttributeError(name)
