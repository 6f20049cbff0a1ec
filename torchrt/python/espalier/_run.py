"""The training loop's side: which steps, which samples, and what happens between two steps."""
from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Sequence, Tuple

from . import _forks
from ._layouts import Layouts, Plan
from ._network import use_between
from ._open_files import allow_many_files
from ._random import seed_step
from ._slices import count_of, even_shares, parts_of
from ._steps import Steps
from ._threads_at_exit import wait_at_exit
from ._worker import Worker


_MEETING_SECONDS = 600


class RunError(RuntimeError):
    """A use of this package that cannot work. The message says what to change."""


class Part:
    """Some of the samples of a step. Iterates over their global numbers."""

    def __init__(self, samples: range, last: bool) -> None:
        self.samples, self.last = samples, last

    def __iter__(self) -> Iterator[int]:
        return iter(self.samples)

    def __len__(self) -> int:
        return len(self.samples)


class Run:
    """One process's part in a training. See join()."""

    def __init__(self, global_batch: int, steps: int, *, seed: int, checkpoint: Optional[str], checkpoint_every: int,
                 checkpoint_minutes: float, snapshot_seconds: float, start_seconds: int, parallel: Any = "data", unit: int = 1,
                 hand_over_pages: bool = True) -> None:
        if global_batch < 1 or steps < 1:
            raise RunError("espalier.join(): global_batch and steps must be at least 1")
        if not 0 <= checkpoint_minutes <= 1e6:  # NaN is neither
            raise RunError(f"espalier.join(checkpoint_minutes={checkpoint_minutes}): must be between 0 (no limit) and 1000000")
        self._layouts = _layouts_of(parallel, unit)
        units = self._layouts.units if self._layouts else (unit,)
        self.global_batch, self.total_steps = global_batch, steps
        self.seed = seed
        self._checkpoint, self._every, self._minutes = checkpoint, checkpoint_every, checkpoint_minutes
        self._snapshot_seconds, self.hand_over_pages = snapshot_seconds, bool(hand_over_pages)
        _forks.begin()
        allow_many_files()
        wait_at_exit()
        self._worker: Optional[Worker] = None
        if "ESPALIER_LAUNCHER" in os.environ:
            _check_not_imported_again()
            self._worker = Worker(global_batch, steps, start_seconds, units)
            self.rank, self.generation, self._shares = self._worker.rank, self._worker.generation, self._worker.shares
            unit = self._worker.unit
        else:
            self.rank, self.generation = int(os.environ.get("RANK", "0")), 0
            world = int(os.environ.get("WORLD_SIZE", "1"))
            if self._layouts:
                try:
                    unit = self._layouts.unit_for(world)
                except ValueError as error:
                    raise RunError(f"espalier.join(parallel=...): {error}") from None
            elif world % unit:
                raise RunError(f"espalier.join(unit={unit}): {world} processes are no whole replicas of {unit}")
            self._shares = even_shares(global_batch, world // unit)
            _set_up_alone()
        self.unit = unit  # processes of a replica, in this generation
        self.replicas = len(self._shares)
        self.replica = self.rank // unit  # this process's
        self.world = self.replicas * unit
        self._first, self._count = sum(self._shares[:self.replica]), self._shares[self.replica]  # of a step's samples
        self.plan = self._layouts.plan(self.replicas, unit) if self._layouts else Plan(self.replicas, {"unit": unit})
        self._objects: Dict[str, Any] = {}
        self._done = 0
        self._committed = False
        self._over = False  # finish() or fail() has said how the training ends
        self._trainer: Any = None  # _training.Training: it needs torch
        self._store = None if self._worker is None else _meet(self._worker, self.world)

    # ---- who

    @property
    def has_layouts(self) -> bool:
        """Whether the processes of a replica may be divided in another way in the next generation."""
        return self._layouts is not None

    @property
    def elastic(self) -> bool:
        """Whether a launcher leads this run."""
        return self._worker is not None

    @property
    def is_writer(self) -> bool:
        """Whether this process may write files, logs and checkpoints: the first one of the generation that is the job.
        False before the first step that steps() yields, as the generation before still trains until then, and once another one is
        the job: what the script does at its end must not write over the other's files."""
        return self.rank == 0 and self._committed and not (self._worker is not None and self._worker.control.left)

    @property
    def local_rank(self) -> int:
        """Which of the GPUs that this process can see is its own."""
        return int(os.environ.get("LOCAL_RANK", "0"))

    @property
    def node_rank(self) -> int:
        """Which of the run's nodes this process is on, in the order of their first ranks."""
        if self._worker is None:
            return int(os.environ.get("GROUP_RANK", "0"))
        return list(dict.fromkeys(self._worker.nodes)).index(self._worker.nodes[self.rank])

    @property
    def shares(self) -> Sequence[int]:
        """Samples of a step, by replica."""
        return tuple(self._shares)

    # ---- what

    def register(self, **objects: Any) -> None:
        """What the training's state is made of: everything with state_dict() and load_state_dict(). Names are free; each
        generation must register the same ones. Modules that registered optimizers train must be wrapped in DistributedDataParallel or by
        fully_shard() before. A moving average of them is no such module.

        With layouts a tensor has the same name in all of them: that of the whole model, as a stage made by taking layers away keeps
        it. Where a process has several stages, it registers lists: model=[one, other], optimizer=[...]. Optimizers may have
        parameters of registered modules only. What the processes of a replica divide must be a DTensor."""
        if self._trainer is not None:
            raise RunError("run.register() comes before run.steps()")
        for name, given in objects.items():
            if given is None:
                continue
            if isinstance(given, (list, tuple)) and not (given and self._layouts):
                raise RunError(f"run.register({name}=[...]): a list of parts of the model is for runs with layouts (espalier.join(parallel=[...])), "
                               "and has at least one part")
            for one in given if isinstance(given, (list, tuple)) else [given]:
                if not hasattr(one, "state_dict") or not hasattr(one, "load_state_dict"):
                    raise RunError(f"run.register({name}=...): {type(one).__name__} has no state_dict() and load_state_dict()")
            self._objects[name] = given

    def slice(self, step: int) -> range:
        """The global numbers of the samples of `step` that this process computes."""
        first = (step - 1) * self.global_batch + self._first
        return range(first, first + self._count)

    @property
    def share(self) -> float:
        """Of a step's samples that this process computes."""
        return self._count / self.global_batch

    def parts(self, step: int, most: int) -> Iterator[Part]:
        """The same in parts of at most `most` samples, for gradients that are accumulated. backward() of all parts but the
        last exchanges nothing. Use run.backward(loss, part)."""
        pieces = parts_of(self.slice(step), most, self._shares)
        if min(self._shares) < count_of(self._shares, most) and self._training().averager.is_sharded:
            raise RunError(f"run.parts(step, {most}): fully_shard() exchanges parameters in each part, and {min(self._shares)} samples of one process "
                           f"cannot be as many parts as {max(self._shares)} of another; give a larger number of samples")
        for index, samples in enumerate(pieces):
            part = Part(samples, index + 1 == len(pieces))
            seed_step(self.seed, step, samples.start)
            if part.last:
                yield part
            else:
                with self._training().averager.alone():
                    yield part

    def backward(self, loss: Any, part: Part, by: Optional[Callable[[Any], Any]] = None) -> None:
        """backward() of the loss that is the mean over `part`, weighed by its share of the global batch. by: who calls it,
        where the loss is scaled, e.g. accelerator.backward."""
        self._training().backward(loss, len(part) / self.global_batch, by)

    def report(self, loss: Any = None, tokens: int = 0) -> float:
        """Ends a step: the loss that is the mean over this process's slice (none where run.backward() was used), and the
        tokens of the global batch. Returns the mean over the global batch. All processes call it once a step, after the
        optimizer's step.

        Without a loss, and without run.backward() or run.add_loss(), the mean is no number (NaN), and the launcher is told none.

        The processes of a replica that have a loss tell the same one. Where it is known to some of them only, as to the last
        stage of a pipeline, the others say None; so it must be in each replica. Raises StateError where it is not."""
        return self._training().report(loss, tokens)

    def progress(self) -> None:
        """Tells the launcher that the job gets on with work that is no step: call it after each batch of an evaluation, or each file of
        a download. A process that does no step within `launch.hang_seconds` (600) and does not call it is taken for hung.

        Cheap: the launcher is told once per heartbeat (a second) at most. Any process may call it, from any thread, also after the last step.
        Without a launcher, and before the first step, it does nothing. Do not call it where nothing gets on, as in a loop that waits for
        another process or in a thread of its own: a job that hangs would never be started again."""
        if self._worker is not None:
            self._worker.control.progress()

    def _training(self) -> Any:
        if self._trainer is None:
            raise RunError("this is for use inside `for step in run.steps():`")
        return self._trainer

    # ---- when

    @property
    def done(self) -> int:
        """Steps that are behind this training. 0 before it has begun."""
        return self._done

    def steps(self) -> Iterator[int]:
        """The numbers of the steps that are left, from 1 on. Takes over the state of the generation before, and hands it
        over where another generation follows: the loop then ends the process. `break` and `return` end the training as its last step
        does. An exception does not: nothing is written then.

        `with run.steps() as steps:` says for certain which of the two it was, also where iterators, generators or next() are between the
        steps and the loop: the training ends with the block, well where no exception leaves it. Where the block is in a generator that its
        consumer closes, the consumer's frame tells."""
        return Steps(self)

    def batches(self, loader: Iterable[Any]) -> Iterator[Tuple[int, Any]]:
        """steps(), each with what `loader` gives for it: a DataLoader whose batch_sampler is an espalier.Batches of this run.
        It is asked for its first batch when the first step is known. Raises RunError for a DataLoader with another one, and for one that Accelerate
        has prepared. Anything else that gives batches is taken as it is."""
        _check_loader(loader, self.global_batch)
        return Steps(self, loader)

    # ---- for loops that are not the script's own: what steps() is made of

    def start(self, done: int = 0, holds: Optional[Iterable[str]] = None) -> int:
        """Takes over the state. Returns after the commit, with the steps that are done. done: steps of a checkpoint that
        somebody else has read into the registered objects; it counts where nothing newer is found. holds: the names of the
        registered objects that it was read into; None: into all. Where it lacks one, a file of join(checkpoint=) counts, also an older one:
        that has them all, of the same step."""
        from ._training import Training

        if self._trainer is not None:
            raise RunError("a run's steps can be done once: run.steps() or run.start() was called before")
        if not self._objects:
            raise RunError("run.register() must name the model and the optimizer before run.steps()")
        if self._worker is not None:
            self._worker.trains_in = threading.current_thread()
        self._trainer = Training(self, self._worker, self._objects, self._checkpoint, self._every, self._minutes, self._snapshot_seconds)
        self._done = self._trainer.start(done, holds)
        self._committed = True
        atexit.register(self._ends, threading.current_thread(), os.getpid())
        return self._done

    def begin(self, weight: Optional[float] = None) -> int:
        """Before a step's first forward pass. Returns the step's number. weight: of this process's gradients in their sum over
        all processes. Its share of the samples by default, which is right for a loss that is the mean over its slice."""
        step = self._done + 1
        seed_step(self.seed, step, (step - 1) * self.global_batch + self._first)
        self._training().begin(step, self.share if weight is None else weight)
        return step

    def add_loss(self, loss: Any) -> None:
        """A summand of the step's mean loss over the global batch, for run.report() without a loss."""
        self._training().add_loss(loss)

    def optimizes(self) -> None:
        """Before the optimizer changes parameters, where its step() computes the gradients itself: a profile tells one from the other."""
        self._training().optimizes()

    def end(self) -> None:
        """After a step's report(), and after what else belongs to the step: snapshots, checkpoints, hand-over. Does not
        return where another generation goes on."""
        self._training().boundary(self._done + 1)
        self._done += 1

    def finish(self) -> Optional[BaseException]:
        """After the last step, or where the training ends before it. Returns what has interrupted that, and is no error."""
        training = self._training()
        self._is_over()
        if self._done != self.total_steps:
            return training.leave()  # type: ignore[no-any-return]
        try:
            training.finish(self._done)
            return None
        except BaseException:
            self.fail()  # the launcher hears of it also where the script has a sys.excepthook of its own
            raise

    def fail(self, at_exit: bool = False) -> None:
        """Where an exception has ended the loop. at_exit: the interpreter ends now. Who calls neither this nor finish() has ended the training where
        the script ends."""
        if self._committed:
            self._is_over(at_exit)
            self._training().fail(at_exit)

    def _is_over(self, at_exit: bool = False) -> None:
        self._over = True
        if not at_exit:
            atexit.unregister(self._ends)  # which keeps the model

    def _ends(self, thread: threading.Thread, process: int) -> None:
        """When the interpreter ends, and a loop of somebody else's has told nothing: it was left by an exception that the script has caught. The
        launcher would take the end for a crash, and start the training again. thread, process: those that train; a child tells nothing."""
        if not self._over and os.getpid() == process and (thread is threading.current_thread() or not thread.is_alive()):
            self._over = True
            self._training().fail(True, by_itself=True)


def _check_not_imported_again() -> None:
    """Raises RunError in a process that multiprocessing has started by spawn or forkserver: it runs the script's top once more, and would
    say hello as the rank that its parent is."""
    multiprocessing = sys.modules.get("multiprocessing.process")  # such a process has it
    if multiprocessing is not None and getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RunError("espalier.join(): this process was started by multiprocessing (a worker of a DataLoader, or the like), which runs the "
                       "script's top in it once more; put the script's work into a function, from espalier.join() on, and call that below "
                       '`if __name__ == "__main__":`, or let such processes be forked (DataLoader(multiprocessing_context="fork"))')


def _check_loader(loader: Any, global_batch: int) -> None:
    """Raises RunError where the loader would give other samples than those of the step, or several batches a step. What has no batch_sampler
    is no DataLoader, and nothing is known of it."""
    if not hasattr(loader, "batch_sampler"):
        return
    if any(kind.__module__.split(".")[0] == "accelerate" for kind in type(loader).__mro__):
        # With several processes it gives each of them every so many batches. With one it would do, until the job grows.
        raise RunError("run.batches(): Accelerate has prepared this loader, and divides its batches among the processes once more, so steps would "
                       "not get their samples; do not prepare it: give run.batches() the DataLoader itself, and move its batches to the device")
    data = sys.modules.get("espalier.data")  # it needs torch; who has such a sampler has imported it
    sampler = loader.batch_sampler
    if sampler is None:
        sampler = getattr(loader, "sampler", None)  # batch_size=None: the dataset takes all indices of a batch at once
    if data is None or not isinstance(sampler, data.Batches):
        raise RunError(f"run.batches(): the loader's batch_sampler is a {type(sampler).__name__}, which knows neither steps nor slices, so samples would "
                       "come several times or never; give DataLoader(dataset, batch_sampler=espalier.Batches(run, dataset)), or read an "
                       "IterableDataset by espalier.Stream")
    if not getattr(loader, "in_order", True) and getattr(loader, "num_workers", 0) > 1:
        raise RunError("run.batches(): a DataLoader with in_order=False gives a step the batch of another one; leave in_order= out")
    if 0 < sampler.most < global_batch:
        raise RunError(f"run.batches(): espalier.Batches(most={sampler.most}) may give several batches a step, and this loop takes one; leave most= out, "
                       f"or use `for step in run.steps(): for part in run.parts(step, {sampler.most}):` with espalier.Data")


def _layouts_of(parallel: Any, unit: int) -> Optional[Layouts]:
    """None: "data", with `unit` processes of a replica for good. Raises RunError."""
    if not isinstance(unit, int) or not 1 <= unit <= 1024:
        raise RunError(f"espalier.join(unit={unit}): must be between 1 and 1024")
    if isinstance(parallel, str) and parallel == "data":
        return None
    try:
        layouts = Layouts(parallel)
    except ValueError as error:
        said = f'"{parallel}"' if isinstance(parallel, str) else "..."
        raise RunError(f"espalier.join(parallel={said}): {error}") from None
    if unit != 1:
        raise RunError(f"espalier.join(parallel=[...], unit={unit}): the layouts say how many processes a replica has; leave unit= out")
    return layouts


def _meet(worker: Worker, world: int) -> Any:
    """Before torch looks for the network of this node's name. Returns rank 0's store. Raises RunError."""
    try:
        use_between(worker.nodes)
        return _store_of(world) if worker.rank == 0 else None
    except OSError as error:
        raise RunError(f"espalier.join(): {error}") from error


def _store_of(world: int) -> Any:
    """Rank 0's, before torch opens it where more can reach it. torchrun has opened its own. Raises OSError."""
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if world == 1 or "TORCHELASTIC_RUN_ID" in os.environ or not address or not port.isdecimal():
        return None
    from ._meeting import open_store  # it needs torch, as the script does next

    return open_store(address, int(port), world, _MEETING_SECONDS)


def _set_up_alone() -> None:
    """Without a launcher: what torch.distributed.init_process_group() needs, where nobody has said it."""
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    os.environ.setdefault("LOCAL_RANK", "0")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    if "MASTER_PORT" not in os.environ:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            os.environ["MASTER_PORT"] = str(probe.getsockname()[1])
