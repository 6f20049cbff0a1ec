"""Between two steps: what all processes agree upon, snapshots, hand-over to the next generation, and what is reported."""
from __future__ import annotations

import math
import os
import time
from contextlib import nullcontext
from typing import Any, Callable, Dict, Iterable, List, Optional

import torch
import torch.distributed as dist

from . import _profile
from ._accumulated import Accumulated
from ._control import Leave
from ._ending import Ending
from ._exchange import gathered
from ._gradients import Averager
from ._groups import Groups
from ._leaving import Alone
from ._measuring import Measuring
from ._named import by_name
from ._numbers import SharedNumbers
from ._registered import Registered, innermost, unwrapped
from ._saving import Saving
from ._snapshots import Snapshots
from ._state import StateError
from ._whole import largest_in
from ._worker import Worker

_SWITCH_ARRIVES = 60.0
# Places in the vector that all processes sum once a step; a profile's medians follow.
_SWITCH, _SAVE, _EVERY, _UNKEPT, _SNAPSHOT, _LOSS, _TELLERS, _REPORTED, _HEAD = range(9)


class Training:
    def __init__(self, run: Any, worker: Optional[Worker], objects: Dict[str, Any], checkpoint: Optional[str], every: int,
                 minutes: float, snapshot_seconds: float) -> None:
        self._run, self._worker = run, worker
        self._head = SharedNumbers(_HEAD)  # what a step without a profile tells: made once, as it is needed in each step
        self._registered = registered = Registered(objects)
        self._names = set(objects)
        self._named = bool(run.has_layouts)
        self.groups = Groups(run.rank, run.world, worker is not None)
        self._divided = self._named or self._all_divide(registered.is_divided)
        if checkpoint and every > 0 and (self._divided or run.unit > 1):
            self.groups.leave_together()
        self._ending = Ending(worker, self.groups.release)
        registered.check(run.replicas)
        self._objects: Dict[str, Any] = dict(by_name(objects)) if self._named else {name: unwrapped(one) for name, one in objects.items()}
        self.saving = Saving(run, self._objects, checkpoint, every, minutes, worker is not None and worker.source is not None)
        self._gpu = registered.gpu
        self.averager = Averager([one for _, one in registered.modules], run.replicas, self._gpu)
        for one in registered.optimizers:
            innermost(one).register_step_pre_hook(self._before_optimizer)
        for _, one in registered.all:
            if hasattr(one, "split_batches") and hasattr(one, "step_with_optimizer"):
                one.split_batches = True  # Accelerate's scheduler: one step a step, not one for each process
        self._hand: Any = None  # Whole or Divided, where a launcher leads
        self._snapshots: Optional[Snapshots] = None
        self._snapshot_seconds = snapshot_seconds
        self._requests: List[List[Any]] = []  # switches without an answer: [message, resumed]
        self._measuring = Measuring(self.averager, self._gpu, worker is not None)
        self._accumulated = Accumulated(bool(registered.optimizers), run.rank == 0)
        self._own_share = run.share
        self._begin_step(0)

    # ---- the beginning

    def _all_divide(self, here: bool) -> bool:
        """Whether the state is divided, which is handed over in another way than a whole one: processes that went different ways would wait for each
        other for ever. Raises StateError in all where only some divide theirs: without layouts nothing says what is whose part then."""
        told = gathered(here, self.groups.all)
        if any(told) and not all(told):
            raise StateError(f"the processes {[rank for rank, one in enumerate(told) if one]} of {len(told)} register modules with divided tensors "
                             "(DTensor), and the others register none; divide the model in all, or in none, or say by "
                             "espalier.join(parallel=[...]) what the processes of a replica have")
        return all(told)

    def start(self, begun: int, holds: Optional[Iterable[str]] = None) -> int:
        """Steps that are done already. begun, holds: of a checkpoint that the program has read by itself; see Run.start()."""
        self._holds_all = holds is None or self._names <= set(holds)
        with nullcontext() if self._gpu is None else torch.cuda.device(self._gpu):  # state is read onto the current device
            done = self._start(begun)
        self._step = done + 1  # a loop that is left before its first step has done those before it
        return done

    def _start(self, begun: int) -> int:
        self._begun = begun
        worker = self._worker
        if worker is None or worker.source is None:
            self._check_alike()
        if worker is None:
            return self._from_checkpoint()
        source = worker.source
        done = self._from_checkpoint() if source is None else 0
        if self._divided:
            from ._divided import Divided as Hand
        else:
            from ._whole import Whole as Hand  # type: ignore[assignment]
        self._hand = Hand(worker, self._objects, self.groups.all, self._run.hand_over_pages)
        self._snapshots = Snapshots(worker, self._hand.pack, self._hand.partners, self._snapshot_seconds)
        if self._hand.keeps:
            self._snapshots.reach()
        self.groups.barrier()
        worker.control.begin_heartbeats()
        worker.control.send("ready", jobs_reach=self._gpu is None)
        if source is not None:
            done = self._take_over(worker, source)
        else:
            self._snapshots.make(done, elsewhere=False)
        worker.control.expect("commit")
        return done

    def _check_alike(self) -> None:
        """Before the first step, and not only when the layout changes for the first time. Raises StateError in the first replica."""
        unit = self._run.unit
        if not self._named or unit == 1:
            return
        from ._alike import check_alike, sample_of

        group = dist.new_group(list(range(unit)), backend="gloo")
        if self._run.rank < unit:
            check_alike(gathered(sample_of(self._objects), group))
            dist.destroy_process_group(group)

    def _take_over(self, worker: Worker, source: Dict[str, Any]) -> int:
        assert self._snapshots is not None
        live = not source.get("recovery")
        load = worker.control.expect("load")
        if load.get("giving"):
            worker.control.expect("given")
        begin, origin, done = time.perf_counter(), "", 0
        if live:
            taken = self._hand.take_over(source)
            if taken.step != load["step"]:
                raise StateError(f"the state that was handed over is that after step {taken.step}, not {load['step']}")
        else:
            taken, origin = self._hand.recover(source), "snapshot"
        took = (time.perf_counter() - begin) * 1000
        if taken is None:
            done = self._from_checkpoint()
            origin = "checkpoint" if done > 0 else "start"
        else:
            done = taken.step
        if taken is not None and taken.fd is not None:
            self._snapshots.adopt(done, taken.fd)
            os.close(taken.fd)
        else:
            self._snapshots.make(done, elsewhere=False)
        # `copied` counts what this process has read from memory of its node.
        worker.control.send("loaded", bytes_adopted=0, bytes_copied=taken.near_bytes if taken else 0,
                            bytes_sent=taken.far_bytes if taken else 0, step=done, phases_ms={"state": took}, bytes_sent_early=0,
                            **{"from": origin})
        return done

    def _from_checkpoint(self) -> int:
        """Steps that are done by the checkpoint, or by what the program has read by itself, where that is newer and lacks nothing. Raises
        StateError where processes differ: they would train on with other weights each, and nothing would tell."""
        group = self.groups.all
        done = self._begun
        if self.saving.is_there(group) and not self.saving.is_older(done if self._holds_all else 0, group):
            done = self.saving.load(self._divided, group)
        told = gathered(done, group)
        if len(set(told)) > 1:
            raise StateError(f"the processes would go on after the steps {told}, by rank; all must read the same checkpoint, from a folder that all "
                             "nodes share, and what the program has read by itself must be of the same step in all")
        return done

    # ---- a step

    def begin(self, step: int, weight: float) -> None:
        self._begin_step(step)
        self.averager.weight = weight
        self._measuring.begin()

    def _begin_step(self, step: int) -> None:
        self._began_at, self._reported = time.perf_counter(), False
        self._loss_here: Any = None  # what add_loss() was told
        self._step = step

    def optimizes(self) -> None:
        self._measuring.optimizes(self._reported)

    def _before_optimizer(self, *_: Any) -> None:
        self._measuring.optimizes(self._reported)

    def backward(self, loss: torch.Tensor, share: float, by: Optional[Callable[[Any], Any]]) -> None:
        weighed = loss * share
        self.add_loss(weighed)
        self.averager.weight = 1.0
        if self.averager.averages_again:
            # A mean, and not a sum: gradients of an earlier step, which the optimizer has not used yet, are the same in all processes, and stay so.
            self.averager.weight = 1.0 / self._run.replicas
            weighed = loss * (share * self._run.replicas)
        weighed.backward() if by is None else by(weighed)

    def add_loss(self, loss: Any) -> None:
        loss = loss.detach() if isinstance(loss, torch.Tensor) else loss
        self._loss_here = loss if self._loss_here is None else self._loss_here + loss

    def report(self, loss: Any, tokens: int) -> float:
        if self._reported:
            raise StateError(f"run.report() was called twice in step {self._step}")
        self._reported = True
        value = self._loss_here if loss is None else loss
        value = value.detach() if isinstance(value, torch.Tensor) else value
        mine = 0.0 if value is None else float(value) * (1.0 if loss is None else self._own_share)
        self._measuring.reports()
        self._agree(mine, value is not None)
        total = self._of_one_teller()
        worker = self._worker
        if worker is not None and self._run.rank == 0:
            seconds = max(time.perf_counter() - self._began_at, 1e-9)
            worker.control.send("step", step=self._step, loss=total if math.isfinite(total) else None, seconds=seconds,
                                tokens_per_second=(tokens or self._run.global_batch) / seconds,
                                settled=self._agreed[_UNKEPT] == 0)
        return total

    def _of_one_teller(self) -> float:
        """The mean loss over the global batch: all of a replica that tell a loss tell the same. No number where nobody tells one."""
        total, tellers, replicas = float(self._agreed[_LOSS]), round(self._agreed[_TELLERS]), self._run.replicas
        if tellers == replicas:
            return total
        if tellers == 0:
            return math.nan
        if tellers % replicas:
            raise StateError(f"run.report() in step {self._step}: {tellers} processes told a loss, which is not the same number in each of "
                             f"{replicas} replicas; the same processes of each replica must tell it")
        return total * replicas / tellers

    def _agree(self, loss: float, tells: bool) -> None:
        """The one exchange of a step that is ours."""
        self._listen()
        due = self._measuring.is_due()  # on all ranks or on none: it says how many numbers are summed
        unkept = self._snapshots is not None and self._hand.keeps and not self._snapshots.safe
        numbers = SharedNumbers(_HEAD + _profile.TOLD * self._run.world) if due else self._head
        told = numbers.values
        told[_SWITCH], told[_SAVE], told[_UNKEPT] = bool(self._requests), self.saving.asked or (self._run.rank == 0 and self.saving.is_due_by_time()), unkept
        told[_EVERY] = self.saving.is_due_after(self._step)
        told[_SNAPSHOT] = self._snapshots is not None and self._snapshots.due()
        told[_LOSS], told[_TELLERS], told[_REPORTED] = loss, tells, self._reported
        if due:
            for at, value in enumerate(self._measuring.told(), _HEAD + _profile.TOLD * self._run.rank):
                told[at] = value
        self.groups.sum(numbers)
        self._agreed = told.tolist()
        if due and self._worker is not None and (self._divided or self._run.rank == 0):
            ranks = [self._agreed[at:at + _profile.TOLD] for at in range(_HEAD, len(self._agreed), _profile.TOLD)]
            self._measuring.tell(self._worker, self._step, self._reported, ranks, self._objects)

    # ---- the boundary after a step

    def _listen(self) -> None:
        worker = self._worker
        if worker is None:
            return
        worker.tell_notice()
        while (frame := worker.control.poll("switch", "resume")) is not None:
            if frame["type"] == "switch":
                self._requests.append([frame, False])
            elif self._requests:
                self._requests[-1][1] = True
        self.saving.asked = worker.control.take_checkpoint() or self.saving.asked

    def boundary(self, step: int) -> None:
        if self._hand is not None:
            self._hand.settle()
        if not self._reported:
            self._agree(0.0, False)
        self._accumulated.step_ends(self._measuring.optimizing)
        asked, self.saving.asked = self._agreed[_SAVE] > 0, False
        save = asked or self._agreed[_EVERY] > 0
        stands = self._agreed[_SWITCH] > 0 and step < self._run.total_steps
        # All at the same step: parts of a divided state belong together.
        snapshot = self._snapshots is not None and not stands and (asked or self._agreed[_SNAPSHOT] > 0)
        if (stands or snapshot or save) and step < self._run.total_steps and self._accumulated.wait(self.groups):
            # Later, after the optimizer's step. What asks for it stays: requests do, and a snapshot is still due then.
            self.saving.asked, stands, snapshot, save = save, False, False, False
        if snapshot:
            assert self._snapshots is not None
            self._snapshots.make(step)
        if save:
            self.saving.try_to_write(step, self._divided, largest_in(self.groups.all))
        if stands:
            self._stand(step)
        elif self._hand is not None:
            self._hand.between_steps()

    def _stand(self, step: int) -> None:
        """Until the launcher says `resume` (returns) or `exit` (Leave)."""
        worker = self._worker
        assert worker is not None
        if not self._requests:
            self._requests.append([worker.control.expect("switch", timeout=_SWITCH_ARRIVES), False])
        request, problem = self._requests.pop(0), ""
        try:
            self._hand.provide(step)
            self._make_room()
        except (OSError, StateError, RuntimeError) as error:
            problem = f"rank {worker.rank} cannot hand its state over: {error}"
        worker.control.send("switched", step=step, problem=problem)
        try:
            if not request[1]:
                worker.control.expect("resume")
        except Leave:
            self.groups.release()
            raise
        self._hand.withdraw()  # the next generation has failed

    def _make_room(self) -> None:
        """The next generation fills the same GPU while this one stands on it: gradients, which every step computes anew, and what torch
        keeps for later tensors go back to the device."""
        if self._gpu is not None:
            for _, module in self._registered.modules:
                for parameter in module.parameters():
                    parameter.grad = None
            torch.cuda.empty_cache()

    def finish(self, step: int) -> None:
        if self.saving.lacks(step):
            self._save(step)
        self._ending.done(step)

    def _save(self, step: int) -> None:
        self.saving.write(step, self._divided, largest_in(self.groups.all))

    def leave(self) -> Optional[BaseException]:
        """Ends a training whose loop was left early. A step without report() is not written as done: the state is that of the
        step before where the optimizer has not begun, and of neither step where it has. Raises nothing: a finalizer may call it, whose
        exceptions nobody hears of. Returns what a block of the steps raises then: an interrupt, or the like."""
        step, can = self._left_at()
        if self._ending.is_over:
            self.groups.release()
            return None
        try:
            mine = can and self.saving.lacks(step)
            if self.groups.leavers is not None:
                mine = self.groups.leavers.all_can_write(step, mine)
            if mine:
                self._save(step)
        except Alone as error:
            self._ending.failed(f"run.steps(): {error}; {self.saving.path} was not written")
        except BaseException as error:  # also an interrupt, which would be lost
            self._ending.not_written(f"{self.saving.path} was not written after step {step}, where the loop was left", error)
            return None if isinstance(error, Exception) else error
        else:
            self._ending.done(step)
        return None

    def _left_at(self) -> "tuple[int, bool]":
        """Steps that are done, and whether the state is that after them."""
        return (self._step, True) if self._reported else (self._step - 1, not self._measuring.optimizing)

    def fail(self, at_exit: bool, by_itself: bool = False) -> None:
        """Where an exception has ended the loop. at_exit: the interpreter ends now. by_itself: the loop was not that of run.steps(), and has not
        told how it ended."""
        step = self._left_at()[0]
        unwritten = None
        if self.saving.lacks(step):
            unwritten = (f"run.start(): the loop has ended after step {step} without run.finish(), so {self.saving.path} was not written then; call "
                         "run.finish() where it ends well" if by_itself else
                         f"run.steps(): the loop was ended after step {step} by an exception, or in a way that looks like one, so "
                         f"{self.saving.path} was not written then; where it was none, loop inside `with run.steps() as steps:`")
        self._ending.at_exit(step, unwritten, at_exit)
