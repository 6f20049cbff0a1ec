"""A plain training with FSDP2: torchrun --nproc-per-node=2 plain_fsdp.py"""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

BATCH, STEPS = 24, 400
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
x = torch.randn(4096, 32)
dataset = TensorDataset(x, x.sin().sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
for layer in (model[0], model[2], model):
    fully_shard(layer)
    layer.set_force_sum_reduction_for_comms(True)  # gloo has no averages
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
order = torch.randperm(len(dataset))
for step in range(1, STEPS + 1):
    numbers = torch.arange((step - 1) * BATCH + rank, step * BATCH, world)
    inputs, targets = dataset[order[numbers % len(dataset)]]
    loss = mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 100 == 0:
        print(f"step {step}: loss {loss:.4f} on {world} processes")
dist.destroy_process_group()
