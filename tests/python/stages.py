"""The tests' model of blocks, as torchtitan divides one: stages by taking layers away, tensor parallelism by parallelize_module(), and
fully_shard() or DistributedDataParallel over the replicas. Its losses are those of the model in one process but for rounding."""
import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

BLOCKS = 4


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(width), torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = torch.nn.Linear(32, width)
        self.layers = torch.nn.ModuleDict({str(one): Block(width) for one in range(BLOCKS)})
        self.last = torch.nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x) if self.first is not None else x
        for layer in self.layers.values():
            x = layer(x)
        return self.last(x) if self.last is not None else x

    def without(self, stages, stage):
        """Leaves what is of one of `stages` stages. Names remain."""
        for one in range(BLOCKS):
            if one * stages // BLOCKS != stage:
                del self.layers[str(one)]
        self.first = self.first if stage == 0 else None
        self.last = self.last if stage == stages - 1 else None
        return self


def loss_of(output, target):
    return torch.nn.functional.mse_loss(output, target)


class Divided:
    """The parts of the model that this process has in run.plan, and a step of them. wrap: "fsdp" or "ddp"; several: parts of each
    process where there are stages. tokens: as torchtitan normalises its loss, in micro-batches of two samples and without stages."""

    def __init__(self, make, run, wrap, several=1, tokens=False):
        plan, mesh = run.plan, run.plan.mesh("cpu")
        stages = plan.pp * (several if plan.pp > 1 else 1)
        own = range(mesh["pp"].get_local_rank() if plan.pp > 1 else 0, stages, plan.pp)
        self.parts = [self._divide(make().without(stages, stage), mesh, plan, wrap) for stage in own]
        self.last, self._schedule = stages - 1 in own, None
        if plan.pp > 1:
            self._stages = [PipelineStage(part, stage, stages, torch.device("cpu"), group=mesh["pp"].get_group())
                            for part, stage in zip(self.parts, own)]
            samples = len(run.slice(1))  # a micro-batch of one sample each: slices may differ in size
            self._schedule = (ScheduleGPipe(self._stages[0], samples, loss_of) if several == 1 else
                              ScheduleInterleaved1F1B(self._stages, samples, loss_of))
        self._first, self._tokens, self._run = 0 in own, tokens, run
        for part in (module for one in self.parts if tokens for module in one.modules() if hasattr(module, "set_gradient_divide_factor")):
            part.set_gradient_divide_factor(1.0)

    @staticmethod
    def _divide(part, mesh, plan, wrap):
        if plan.tp > 1:
            for layer in part.layers.values():
                parallelize_module(layer, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        if wrap == "ddp":
            return DistributedDataParallel(part, process_group=mesh["dp"].get_group())
        for layer in part.layers.values():
            fully_shard(layer, mesh=mesh["dp"])
        return fully_shard(part, mesh=mesh["dp"])

    def step(self, inputs, targets):
        """The mean loss where it is known and the run was not told of it, else None."""
        if self._tokens:
            parts = -(-self._run.global_batch // (2 * self._run.replicas))  # the same number in all processes: each is an exchange
            for one, wanted in zip(inputs.tensor_split(parts), targets.tensor_split(parts)):
                loss = torch.nn.functional.mse_loss(self.parts[0](one), wanted, reduction="sum") / self._run.global_batch
                loss.backward()
                self._run.add_loss(loss)
            return None
        if self._schedule is None:
            loss = loss_of(self.parts[0](inputs), targets)
            loss.backward()
            return loss
        losses = []
        self._schedule.step(*([inputs] if self._first else []), target=targets if self.last else None, losses=losses if self.last else None)
        return torch.stack(losses).mean() if self.last else None
