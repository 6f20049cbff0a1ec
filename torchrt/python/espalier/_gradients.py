"""The average of gradients over a global batch that is divided unevenly, and when
the last gradients of a step were there.

DDP and FSDP2 divide the sum of all processes' gradients by their number. That is the mean over the batch only where every process
has as many samples. Here each process's gradient is weighed by its samples before the sum.

A script that has called FSDP2's set_gradient_divide_factor() has divided its loss by what the global batch has, as torchtitan does by its
tokens: its gradients are summed, divided by that factor, and not weighed.

FSDP2 weighs in its sum over the processes that divide a parameter. Where that is one process, as on a mesh (replicas, 1) and with replicate(),
torch has no such sum, and asks nobody before it sums over the replicas. There the gradients are weighed when backward() has computed them.
"""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Optional

import torch
import torch.distributed as dist

from ._marks import Mark
from ._registered import averaging


class Averager:
    """Of the DDP and FSDP2 modules among the registered objects. One for the process's life."""

    def __init__(self, modules: List[torch.nn.Module], world: int, gpu: Optional[torch.device]) -> None:
        self.weight = 1.0  # of what backward() computes: this process's share of the samples, where the loss is their mean
        self.last_bucket: Optional[Mark] = None  # when the last gradients of a step were there, before their sum
        self._ddp = [wrapper for one in modules for wrapper in averaging(one)]
        self._sharded = [part for one in modules for part in one.modules() if hasattr(part, "set_requires_gradient_sync")]
        self.marks = True  # whether the moment is wanted
        self._world, self._mark = world, Mark(gpu)
        for module in self._ddp:
            group = module.process_group
            module.register_comm_hook((group, dist.get_world_size(group), dist.AllreduceOptions()), self._hook)
        for part in self._sharded:
            part.set_custom_reduce_scatter(_ReduceScatter(self, part))
            if world > 1 and _is_undivided(_parameters_of(part)):
                _weigh_before_sum(self, _parameters_of(part))

    @property
    def is_sharded(self) -> bool:
        """Whether forward passes are exchanges too."""
        return bool(self._sharded) and self._world > 1

    @property
    def averages_again(self) -> bool:
        """Whether what is exchanged in a step has the gradients of steps before in it, where the optimizer has not used them: DDP exchanges what a
        parameter has gathered. FSDP2 exchanges the step's alone, and adds them to what is there. Beside DDP its gradients are averaged too, which
        comes to the same, but not where a factor of the script's divides them."""
        return bool(self._ddp) and all(_factor_of(part) is None for part in self._sharded)

    # Without annotations: DDP compares them with types, and here they would be texts.
    def _hook(self, exchange, bucket):  # type: ignore[no-untyped-def]
        (group, size, options), buffer = exchange, bucket.buffer()
        # A group of more processes than there are replicas: those of a replica divide the samples' tokens, and each has the mean over its own.
        scale = self.scale / size
        if scale != 1.0:
            buffer.mul_(scale)
        if bucket.is_last():
            self.marks_last()
        if buffer.is_complex():
            future = dist.all_reduce(buffer, group=group, async_op=True).get_future()
        else:
            future = group.allreduce([buffer], options).get_future()  # half of what dist.all_reduce() takes in this thread
        return future.then(_first)

    @property
    def scale(self) -> float:
        """Of gradients that are divided by the number of processes later."""
        return self.weight * self._world

    def reduce_scatter(self, output: torch.Tensor, buffer: torch.Tensor, group: Any, op: Any, async_op: bool, factor: Any) -> Any:
        """Of FSDP2, which divides by the number of processes, or by the script's `factor`: by `op`, or by itself before and after the
        sum."""
        scale = self.scale if factor is None and dist.get_world_size(group) > 1 else 1.0  # of one process they have been weighed before
        if op != dist.ReduceOp.SUM:  # gloo has nothing else
            op, scale = dist.ReduceOp.SUM, scale / (factor or dist.get_world_size(group))
        if scale != 1.0:
            buffer.mul_(scale)
        self.marks_last()
        return dist.reduce_scatter_tensor(output, buffer, op=op, group=group, async_op=async_op)

    def marks_last(self) -> None:
        """All gradients of an exchange are there; of the last one that tells it, all of the step's are."""
        if self.marks:
            self.last_bucket = self._mark.now()

    @contextlib.contextmanager
    def alone(self) -> Any:
        """Forward and backward passes inside exchange nothing: their gradients are summed here."""
        with contextlib.ExitStack() as stack:
            for module in self._ddp:
                stack.enter_context(module.no_sync())
            self._synchronize(False)
            try:
                yield
            finally:
                self._synchronize(True)

    def _synchronize(self, wanted: bool) -> None:
        for part in self._sharded:
            part.set_requires_gradient_sync(wanted, recurse=False)


def _first(done: Any) -> Any:
    return done.value()[0]


def _parameters_of(part: Any) -> Any:
    """What FSDP2 keeps of the parameters that are this module's and no inner one's; None: it has none."""
    return part._get_fsdp_state()._fsdp_param_group


def _factor_of(part: Any) -> Any:
    """What the script has set for this part; None: the number of processes."""
    return getattr(_parameters_of(part), "gradient_divide_factor", None)


def _is_undivided(parameters: Any) -> bool:
    """Whether each of these parameters is whole in each process."""
    return parameters is not None and getattr(parameters.mesh_info, "shard_mesh_size", 1) == 1


def _weigh_before_sum(averager: Averager, parameters: Any) -> None:
    exchange = parameters.post_backward

    def weighed(*arguments: Any) -> None:
        if parameters.reduce_grads:
            if getattr(parameters, "gradient_divide_factor", None) is None and averager.scale != 1.0:
                for one in parameters.fsdp_params:
                    for gradient in _gradients_of(one):
                        gradient.mul_(averager.scale)
            averager.marks_last()
        exchange(*arguments)

    parameters.post_backward = weighed


def _gradients_of(parameter: Any) -> "Iterator[torch.Tensor]":
    """What is summed over the processes next: the last backward() has computed one, and those before without an exchange may have another."""
    for one in (parameter.unsharded_accumulated_grad, getattr(getattr(parameter, "_unsharded_param", None), "grad", None)):
        if one is not None:
            yield getattr(one, "_local_tensor", one)  # of a DTensor, what is here


class _ReduceScatter:
    """What FSDP2 calls instead of its own."""

    def __init__(self, averager: Averager, part: Any) -> None:
        self._averager, self._part = averager, part

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False) -> Any:
        return self._averager.reduce_scatter(output_tensor, input_tensor, group, op, async_op, _factor_of(self._part))
