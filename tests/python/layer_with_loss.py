"""The Trainer's model in tests: one layer, which also finds its loss, as the Trainer's models do."""
import torch


class LayerWithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels):
        apart = (self.layer(x).squeeze(1) - labels).square()
        return {"loss": apart.mean(), "logits": apart}
