"""Between two steps: what all processes agree upon, snapshots, hand-over to the next generation, and what is reported."""
from __future__ import annotations

import math
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from . import _profile, _vault
from ._gradients import Averager, Mark
from ._handover import Found, Offer, from_vaults, lowest_by_node, offer_name, spread, take
from ._memory import SharedMemory, private_map
from ._slices import nodes_of
from ._state import Packed, StateError, apply, read, sizes
from ._worker import Worker

_SWITCH_ARRIVES = 60.0
_SNAPSHOT_SHARE = 20  # a snapshot is due when so many times as long as the last one took has passed
# Places in the vector that all processes sum once a step; a profile's medians follow.
_SWITCH, _SAVE, _UNKEPT, _LOSS, _REPORTED, _HEAD = range(6)


def _innermost(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Libraries wrap an optimizer in an object of the same class that has none of its parts."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer  # type: ignore[attr-defined]
    return optimizer


class Training:
    def __init__(self, run: Any, worker: Optional[Worker], objects: Dict[str, Any], checkpoint: Optional[str], every: int,
                 snapshot_seconds: float) -> None:
        self._run, self._worker = run, worker
        # What is wrapped for several processes is not wrapped for one, so the wrapper's names of parameters are not the state's.
        self._objects = {name: one.module if isinstance(one, DistributedDataParallel) else one for name, one in objects.items()}
        self._path, self._every = checkpoint, every
        if run.world > 1 and not dist.is_initialized():
            raise StateError("call torch.distributed.init_process_group() before run.steps(): there are "
                             f"{run.world} processes")
        self._group = dist.new_group(backend="gloo") if run.world > 1 else None
        modules = [one for one in objects.values() if isinstance(one, DistributedDataParallel)]
        plain = [name for name, one in objects.items()
                 if isinstance(one, torch.nn.Module) and not isinstance(one, DistributedDataParallel)
                 and any(p.requires_grad for p in one.parameters())]
        if plain and run.world > 1:
            raise StateError(f"run.register({plain[0]}=...): wrap the module in DistributedDataParallel, and register that")
        self._cuda = any(p.is_cuda for m in modules for p in m.parameters())
        self.averager = Averager(modules, self._cuda)
        for one in objects.values():
            if isinstance(one, torch.optim.Optimizer):
                _innermost(one).register_step_pre_hook(self._before_optimizer)
            if hasattr(one, "split_batches") and hasattr(one, "step_with_optimizer"):
                one.split_batches = True  # Accelerate's scheduler: one step a step, not one for each process
        self._snapshot_seconds = snapshot_seconds
        self._line: Optional[_vault.Line] = None
        self._copies: List[Optional[SharedMemory]] = [None] * len(_vault.SLOTS)
        self._newest = 0        # index of the newest copy
        self._copied_at, self._copy_took = time.monotonic(), 0.0
        self._unkept = False    # this process should keep snapshots, and no vault takes them
        self._offer: Optional[Offer] = None
        self._received: Optional[Offer] = None  # of state from another node, to this node's other processes
        self._requests: List[List[Any]] = []  # switches without an answer: [message, resumed]
        self._samples, self._steps_here, self._profiled_at = _profile.Samples(), 0, 0
        self._own_share = len(run.slice(1)) / run.global_batch
        self._begin_step(0)

    # ---- the beginning

    def start(self, begun: int) -> int:
        """Steps that are done already. begun: those of a checkpoint that the program has read by itself."""
        self._begun = begun
        worker = self._worker
        if worker is None:
            return self._from_checkpoint()
        source = worker.source
        live = source is not None and not source.get("recovery")
        done = 0
        if source is None:
            done = self._from_checkpoint()
        self._keeper = lowest_by_node(worker.nodes)[worker.nodes[worker.rank]] == worker.rank
        if self._keeper:
            self._offer = Offer(offer_name(worker.token, worker.generation, worker.rank))
            self._reach_vault()
        self._barrier()
        worker.control.begin_heartbeats()
        worker.control.send("ready")
        if source is not None:
            load = worker.control.expect("load")
            if load.get("giving"):
                worker.control.expect("given")
            begin = time.perf_counter()
            found, origin = self._take_over(source) if live else self._recover(source)
            if found is not None:
                done = self._apply(found, f"the state of generation {source['generation']}")
            elif origin == "checkpoint":
                done = self._from_checkpoint()
            if live and done != load["step"]:
                raise StateError(f"the state that was handed over is that after step {done}, not {load['step']}")
            size = os.fstat(found.fd).st_size if found else 0
            remote = found is not None and found.remote
            took = (time.perf_counter() - begin) * 1000
            if found is not None:
                if self._line is not None:
                    self._line.deposit(0, done, found.fd)
                os.close(found.fd)
            # `copied` counts what this process has read from memory of its node.
            worker.control.send("loaded", bytes_adopted=0, bytes_copied=0 if remote else size,
                                bytes_sent=size if remote and self._keeper else 0, step=done, phases_ms={"state": took},
                                bytes_sent_early=0, **{"from": "" if live else origin})
        elif self._line is not None:
            self._snapshot(done)
        worker.control.expect("commit")
        return done

    def _reach_vault(self) -> None:
        worker = self._worker
        assert worker is not None
        try:
            name = _vault.own_vault(worker.vault, worker.owner) if worker.vault else None
            if name is not None:
                self._line = _vault.Line(name, worker.generation, worker.rank)
        except OSError as error:
            print(f"espalier: worker: rank {worker.rank}: {error}; a loss goes back to a checkpoint", file=sys.stderr)
        self._unkept = self._line is None

    def _take_over(self, source: Dict[str, Any]) -> "tuple[Found, str]":
        worker = self._worker
        assert worker is not None
        givers = lowest_by_node(nodes_of(source["plan"]))
        have = [node in givers for node in worker.nodes]
        if not any(have):
            raise StateError("no node of the new generation has processes of the old one")
        found = None
        if have[worker.rank]:
            found = Found(*take(offer_name(worker.token, source["generation"], givers[worker.nodes[worker.rank]])))
        return self._spread(found, have), ""

    def _spread(self, found: Optional[Found], have: List[bool]) -> Found:
        worker = self._worker
        assert worker is not None
        prefix = offer_name(worker.token, worker.generation, worker.rank).rpartition("-")[0] + "-received"
        whole, offer = spread(found, worker.nodes, worker.rank, have, self._group, prefix)
        self._received = offer
        return whole

    def _recover(self, source: Dict[str, Any]) -> "tuple[Optional[Found], str]":
        """The newest snapshot on any node, else the checkpoint, else nothing."""
        worker = self._worker
        assert worker is not None
        lost = [(int(source["generation"]), None)]
        lost += [(int(one["generation"]), int(one["step"])) for one in source.get("earlier", [])]
        here = from_vaults(worker.vault, lost, worker.generation) if worker.vault else []
        best = [here[0][0], here[0][1]] if here else [-1, -1]
        told: List[Any] = [best]
        if self._group is not None:
            told = [None] * self._run.world
            dist.all_gather_object(told, best, group=self._group)
        step, generation = max((tuple(one) for one in told), default=(-1, -1))
        if step < 0:
            kept = self._begun > 0 or (self._path and os.path.exists(self._path))
            return None, "checkpoint" if kept else "start"
        found = None
        for at, of, item in here:
            if (at, of) == (step, generation):
                found = Found(step, _vault.fetch(item, of))
                break
        have: List[Any] = [found is not None]
        if self._group is not None:
            have = [None] * self._run.world
            dist.all_gather_object(have, found is not None, group=self._group)
        return self._spread(found, have), "snapshot"

    def _apply(self, found: Found, origin: str) -> int:
        step, state = read(private_map(found.fd))
        if step != found.step:
            raise StateError(f"{origin}: its memory is of step {step}, not {found.step}")
        apply(self._objects, state, origin)
        return step

    def _from_checkpoint(self) -> int:
        if not self._path or not os.path.exists(self._path):
            return self._begun
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            step, state = read(private_map(fd))
        finally:
            os.close(fd)
        apply(self._objects, state, f"the checkpoint {self._path}")
        return step

    # ---- a step

    def begin(self, step: int, weight: float) -> None:
        self._begin_step(step)
        self.averager.weight = weight
        self.averager.last_bucket = None
        self._began = Mark(self._cuda)

    def _begin_step(self, step: int) -> None:
        self._began_at, self._reported, self._loss_here = time.perf_counter(), False, 0.0
        self._optimizes: Optional[Mark] = None
        self._step = step

    def _before_optimizer(self, *_: Any) -> None:
        if self._optimizes is None:
            self._optimizes = Mark(self._cuda)

    def backward(self, loss: torch.Tensor, share: float, by: Optional[Callable[[Any], Any]]) -> None:
        self.averager.weight = 1.0
        weighed = loss * share
        self.add_loss(weighed)
        weighed.backward() if by is None else by(weighed)

    def add_loss(self, loss: Any) -> None:
        self._loss_here = self._loss_here + (loss.detach() if isinstance(loss, torch.Tensor) else loss)

    def report(self, loss: Any, tokens: int) -> float:
        if self._reported:
            raise StateError(f"run.report() was called twice in step {self._step}")
        self._reported = True
        value = self._loss_here if loss is None else loss
        value = value.detach() if isinstance(value, torch.Tensor) else value
        mine = float(value) * (1.0 if loss is None else self._own_share)
        ended = Mark(self._cuda)
        if self._optimizes is not None:
            ready = self.averager.last_bucket
            self._samples.add((ready or self._optimizes).ms_since(self._began),
                              None if ready is None else max(0.0, self._optimizes.ms_since(ready)),
                              max(0.0, ended.ms_since(self._optimizes)))
        self._agree(mine)
        total = float(self._agreed[_LOSS])
        worker = self._worker
        if worker is not None and self._run.rank == 0:
            seconds = max(time.perf_counter() - self._began_at, 1e-9)
            worker.control.send("step", step=self._step, loss=total if math.isfinite(total) else None, seconds=seconds,
                                tokens_per_second=(tokens or self._run.global_batch) / seconds,
                                settled=self._agreed[_UNKEPT] == 0)
        return total

    def _agree(self, loss: float) -> None:
        """The one exchange of a step that is ours."""
        self._listen()
        self._steps_here += 1
        due = self._worker is not None and _profile.due(self._steps_here) and len(self._samples.compute) >= _profile.LEAST_STEPS
        vector = torch.zeros(_HEAD + (3 * self._run.world if due else 0), dtype=torch.float64)
        vector[_SWITCH], vector[_SAVE], vector[_UNKEPT] = bool(self._requests), self._save_asked, self._unkept
        vector[_LOSS], vector[_REPORTED] = loss, self._reported
        if due:
            first = _HEAD + 3 * self._run.rank
            vector[first:first + 3] = torch.tensor(self._samples.medians(), dtype=torch.float64)
        if self._group is not None:
            dist.all_reduce(vector, group=self._group)
        self._agreed = vector.tolist()
        if due:
            self._tell_profile()

    def _tell_profile(self) -> None:
        worker, steps = self._worker, len(self._samples.compute)
        samples, self._samples = self._samples, _profile.Samples()
        if worker is None or self._run.rank != 0:
            return
        ranks = [self._agreed[at:at + 3] for at in range(_HEAD, len(self._agreed), 3)]
        peak = torch.cuda.max_memory_allocated() if self._cuda else 0
        worker.control.send("profile", flat=_profile.flat(self._step, steps, ranks, sizes(self._objects), peak,
                                                          _profile.spread_of(samples.work())))

    # ---- the boundary after a step

    _save_asked = False

    def _listen(self) -> None:
        worker = self._worker
        if worker is None:
            return
        worker.tell_notice()
        while True:
            frame = worker.control.poll("switch", "resume", "checkpoint")
            if frame is None:
                return
            if frame["type"] == "switch":
                self._requests.append([frame, False])
            elif frame["type"] == "checkpoint":
                self._save_asked = True
            elif self._requests:
                self._requests[-1][1] = True

    def boundary(self, step: int) -> None:
        if self._received is not None:  # all have taken it: the generation trains
            self._received.close()
            self._received = None
        if not self._reported:
            self._agree(0.0)
        save, self._save_asked = self._agreed[_SAVE] > 0, False
        stands = self._agreed[_SWITCH] > 0 and step < self._run.total_steps
        if self._line is not None and not stands and (save or self._snapshot_due()):
            self._snapshot(step)
        if self._path and self._run.rank == 0 and (save or (self._every > 0 and step % self._every == 0)):
            self._write_checkpoint(step)
        if stands:
            self._stand(step)

    def _snapshot_due(self) -> bool:
        passed = time.monotonic() - self._copied_at
        return passed >= max(self._snapshot_seconds, _SNAPSHOT_SHARE * self._copy_took)

    def _snapshot(self, step: int) -> None:
        """The state in memory that the node's vault holds: two copies, written in turn, so that one is always whole."""
        assert self._line is not None
        begin, index = time.monotonic(), 1 - self._newest
        packed, memory = Packed(step, self._objects), self._copies[1 - self._newest]
        self._line.tear(index)
        if memory is None or memory.size < packed.size:
            if memory is not None:
                memory.close()
            self._copies[index] = memory = SharedMemory(packed.size)
            packed.write(memory.map)
            self._line.deposit(index, step, memory.fd)
        else:
            packed.write(memory.map)
            self._line.mark(index, step)
        self._newest = index
        self._copied_at, self._copy_took = time.monotonic(), time.monotonic() - begin

    def _write_checkpoint(self, step: int) -> None:
        assert self._path is not None
        packed = Packed(step, self._objects)
        memory = SharedMemory(packed.size)
        try:
            packed.write(memory.map)
            part = f"{self._path}.{os.getpid()}.part"
            with open(part, "wb") as file:
                file.write(memory.map)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self._path)
        finally:
            memory.close()

    def _stand(self, step: int) -> None:
        """Until the launcher says `resume` (returns) or `exit` (Leave)."""
        worker = self._worker
        assert worker is not None
        if not self._requests:
            self._requests.append([worker.control.expect("switch", timeout=_SWITCH_ARRIVES), False])
        request = self._requests.pop(0)
        memory, problem = None, ""
        if self._offer is not None:
            try:
                packed = Packed(step, self._objects)
                memory = SharedMemory(packed.size)
                packed.write(memory.map)
                self._offer.provide(step, memory.fd)
            except (OSError, StateError, RuntimeError) as error:
                problem = f"rank {worker.rank} cannot hand its state over: {error}"
        worker.control.send("switched", step=step, problem=problem)
        if not request[1]:
            worker.control.expect("resume")
        if memory is not None:  # the next generation has failed
            assert self._offer is not None
            self._offer.close()
            self._offer = Offer(offer_name(worker.token, worker.generation, worker.rank))
            memory.close()

    def finish(self, step: int) -> None:
        if self._path and self._run.rank == 0 and self._every > 0:
            self._write_checkpoint(step)
        self._tell_done(step)

    def _tell_done(self, step: int) -> None:
        if self._worker is not None:
            self._worker.control.farewell()
            self._worker.control.send("done", step=step)

    def leave(self) -> None:
        """Ends a training whose loop was left early. A step without report() is not written as done: the state is that of the
        step before where the optimizer has not begun, and of neither step where it has."""
        if self._reported:
            self.finish(self._step)
        elif self._optimizes is None:
            self.finish(self._step - 1)
        else:
            self._tell_done(self._step - 1)

    def _barrier(self) -> None:
        if self._group is not None:
            dist.barrier(group=self._group)
