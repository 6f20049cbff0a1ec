"""A training with tensor and pipeline parallelism of its own, as Megatron-LM has it: torchrun --nproc-per-node=4 plain_megatron.py"""
import torch
import torch.distributed as dist
from torch.nn.functional import linear, mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

BATCH, STEPS, TP, PP, WIDTH = 24, 400, 2, 2, 32
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
replica, place = divmod(rank, TP * PP)
stage, shard = divmod(place, TP)
# Every process makes all groups: of a stage's shards, of a replica, and of the same place in all replicas.
shards = [dist.new_group(range(first, first + TP)) for first in range(0, world, TP)][rank // TP]
whole = [dist.new_group(range(first, first + TP * PP)) for first in range(0, world, TP * PP)][replica]
across = [dist.new_group(range(first, world, TP * PP)) for first in range(TP * PP)][place]


class Copy(torch.autograd.Function):  # the sum of gradients
    forward = staticmethod(lambda context, x: x.clone())

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=shards)
        return gradient


class Sum(torch.autograd.Function):  # the sum of values
    backward = staticmethod(lambda context, gradient: gradient)

    @staticmethod
    def forward(context, x):
        x = x.clone()
        dist.all_reduce(x, group=shards)
        return x


class Stage(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(place)
        self.columns = torch.nn.Linear(WIDTH, 4 * WIDTH // TP)
        self.rows = torch.nn.Linear(4 * WIDTH // TP, WIDTH, bias=False)
        torch.manual_seed(100)  # all shards have the same head
        self.head = torch.nn.Linear(WIDTH, 1) if stage == PP - 1 else torch.nn.Identity()

    def forward(self, x):
        return self.head(x + Sum.apply(self.rows(torch.tanh(self.columns(Copy.apply(x))))))


def forward_and_backward(model, inputs, targets):
    loss = torch.zeros(())
    x = inputs if stage == 0 else torch.empty(len(inputs), WIDTH)
    if stage > 0:
        dist.recv(x, rank - TP)
    y = model(x.requires_grad_())
    if stage < PP - 1:
        dist.send(y.detach(), rank + TP)
        gradient = torch.empty_like(y)
        dist.recv(gradient, rank + TP)
        y.backward(gradient)
    else:
        loss = mse_loss(y, targets)
        loss.backward()
    if stage > 0:
        dist.send(x.grad, rank - TP)
    loss = loss.detach()
    dist.broadcast(loss, (replica + 1) * TP * PP - 1, group=whole)  # all of a replica have its loss
    return loss


model = DistributedDataParallel(Stage(), process_group=across)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1)
x = torch.randn(4096, WIDTH)
dataset = TensorDataset(x, x.sin().sum(1, keepdim=True))
order = torch.randperm(len(dataset))
for step in range(1, STEPS + 1):
    numbers = torch.arange((step - 1) * BATCH + replica, step * BATCH, world // (TP * PP))
    inputs, targets = dataset[order[numbers % len(dataset)]]
    optimizer.zero_grad()
    loss = forward_and_backward(model, inputs, targets)
    optimizer.step()
    if rank == 0 and step % 100 == 0:
        print(f"step {step}: loss {loss:.4f} on {world} processes")
dist.destroy_process_group()
