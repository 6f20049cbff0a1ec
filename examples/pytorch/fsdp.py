"""The same training, elastic: srun --elastic=2:8 --gpus=2 python fsdp.py"""
import espalier
BATCH, STEPS = 24, 400
run = espalier.join(global_batch=BATCH, steps=STEPS)  # before torch
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(1)
x = torch.randn(4096, 32)
dataset = TensorDataset(x, x.sin().sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
for layer in (model[0], model[2], model):
    fully_shard(layer)
    layer.set_force_sum_reduction_for_comms(True)  # gloo has no averages
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = espalier.Data(dataset)
run.register(model=model, optimizer=optimizer, data=data)
for step in run.steps():
    inputs, targets = data.batch(run.slice(step))
    loss = mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss = run.report(loss)
    if run.is_writer and step % 100 == 0:
        print(f"step {step}: loss {loss:.4f} on {run.world} processes")
dist.destroy_process_group()
