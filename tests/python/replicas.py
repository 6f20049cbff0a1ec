"""The tests' model in replicas of several processes, as Megatron-LM divides one: a model of a first layer, an activation and a second
layer. Its losses are those of the model in one process but for rounding."""
import torch
import torch.distributed as dist
from torch.nn.functional import linear
from torch.nn.parallel import DistributedDataParallel

TP = 2


class Sum(torch.autograd.Function):
    """Over the two shards of a layer."""

    @staticmethod
    def forward(context, x, pair):
        x = x.clone()
        dist.all_reduce(x, group=pair)
        return x

    @staticmethod
    def backward(context, gradient):
        return gradient, None


class ToNextStage(torch.autograd.Function):
    """The first stage sends its output, and gets the model's. Backward it gets the gradient of its own."""

    @staticmethod
    def forward(context, hidden, other):
        context.other, context.like = other, hidden
        dist.send(hidden.detach().contiguous(), other)
        output = hidden.new_empty(len(hidden), 1)
        dist.recv(output, other)
        return output

    @staticmethod
    def backward(context, gradient):
        own = torch.empty_like(context.like)
        dist.recv(own, context.other)
        return own, None


class FromStageBefore(torch.autograd.Function):
    """like: what must have a gradient, so that backward() comes here."""

    @staticmethod
    def forward(context, like, shape, other):
        context.other = other
        hidden = like.new_empty(shape)
        dist.recv(hidden, other)
        return hidden

    @staticmethod
    def backward(context, gradient):
        dist.send(gradient.contiguous(), context.other)
        return None, None, None


def _take(tensor, dimension, shard):
    return torch.nn.Parameter(tensor.detach().chunk(TP, dimension)[shard].clone(memory_format=torch.contiguous_format))


class Part(torch.nn.Module):
    """Columns of the first layer and rows of the second one, as far as they are this process's."""

    def __init__(self, whole, stages, stage, shard, rank, pair):
        super().__init__()
        self._stages, self._stage, self._rank, self._pair = stages, stage, rank, pair
        if stage == 0:
            self.first, self.first_bias = _take(whole[0].weight, 0, shard), _take(whole[0].bias, 0, shard)
        if stage == stages - 1:
            self.second = _take(whole[2].weight, 1, shard)
            self.bias = torch.nn.Parameter(whole[2].bias.detach().clone())

    def forward(self, x):
        if self._stage == 0:
            hidden = torch.tanh(linear(x, self.first, self.first_bias))
            if self._stages > 1:
                return ToNextStage.apply(hidden, self._rank + TP)
        else:
            hidden = FromStageBefore.apply(self.bias, (len(x), self.second.shape[1]), self._rank - TP)
        output = Sum.apply(linear(hidden, self.second), self._pair) + self.bias
        if self._stages > 1:
            dist.send(output.detach(), self._rank - TP)
        return output


def divided(whole, run):
    """This process's part of the model in replicas of run.unit processes, averaged over the processes of the same place in all replicas."""
    unit, place = run.unit, run.rank % run.unit
    # All processes make all groups.
    pair = [dist.new_group([first, first + 1]) for first in range(0, run.world, TP)][run.rank // TP]
    across = [dist.new_group(range(one, run.world, unit)) for one in range(unit)][place]
    part = Part(whole, unit // TP, place // TP, place % TP, run.rank, pair)
    return DistributedDataParallel(part, process_group=across)
