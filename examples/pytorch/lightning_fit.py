"""The same training, elastic: srun --elastic=2:8 --gpus=2 python lightning_fit.py"""
import espalier
BATCH, STEPS = 24, 400
run = espalier.join(global_batch=BATCH, steps=STEPS)  # before torch
import lightning
import torch
from espalier.lightning import Elastic
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset


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
trainer = lightning.Trainer(max_steps=STEPS, accelerator="cpu", strategy=Elastic(run), log_every_n_steps=10, enable_progress_bar=False)
trainer.fit(Sines(), DataLoader(dataset, batch_size=12, shuffle=True))
