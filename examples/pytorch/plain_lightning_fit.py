"""A plain training with Lightning's Trainer: python plain_lightning_fit.py"""
import lightning
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

BATCH, STEPS = 24, 400


class Sines(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        loss = mse_loss(self.layers(inputs), targets)
        self.log("train_loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


torch.manual_seed(1)
x = torch.randn(1000, 32)
dataset = TensorDataset(x, x.sin().sum(1, keepdim=True))
trainer = lightning.Trainer(max_steps=STEPS, accelerator="cpu", strategy="ddp", devices=2, log_every_n_steps=10, enable_progress_bar=False)
trainer.fit(Sines(), DataLoader(dataset, batch_size=BATCH // 2, shuffle=True))
