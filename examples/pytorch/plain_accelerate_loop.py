"""A plain training with Accelerate: torchrun --nproc-per-node=2 plain_accelerate_loop.py"""
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

BATCH, STEPS = 24, 400
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
torch.manual_seed(1)
x = torch.randn(4096, 32)
dataset = TensorDataset(x, x.sin().sum(1, keepdim=True))
loader = DataLoader(dataset, batch_size=BATCH, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
model, optimizer, scheduler, loader = accelerator.prepare(model, optimizer, scheduler, loader)
step = 0
while step < STEPS:
    for step, (inputs, targets) in enumerate(loader, step + 1):
        loss = mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        if accelerator.is_main_process and step % 100 == 0:
            print(f"step {step}: loss {loss:.4f} on {accelerator.num_processes} processes")
        if step == STEPS:
            break
