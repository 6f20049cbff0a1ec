"""The same training, elastic: srun --elastic=2:8 --gpus=2 python accelerate_loop.py"""
import espalier
BATCH, STEPS = 24, 400
run = espalier.join(global_batch=BATCH, steps=STEPS)  # before torch
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
torch.manual_seed(1)
x = torch.randn(4096, 32)
dataset = TensorDataset(x, x.sin().sum(1, keepdim=True))
loader = DataLoader(dataset, batch_sampler=espalier.Batches(run, dataset))
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
run.register(model=model, optimizer=optimizer, scheduler=scheduler, scaler=accelerator.scaler)
for step, (inputs, targets) in run.batches(loader):
    inputs, targets = inputs.to(accelerator.device), targets.to(accelerator.device)
    loss = mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    scheduler.step()
    loss = run.report(loss)
    if run.is_writer and step % 100 == 0:
        print(f"step {step}: loss {loss:.4f} on {run.world} processes")
