"""A plain training of a small Llama with data, tensor and pipeline parallelism, as torchtitan has it: torchrun --nproc-per-node=4 plain_layouts.py"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import Embedding, Linear, RMSNorm
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu
from torch.utils.data import TensorDataset

BATCH, STEPS = 8, 40
PP, TP = 2, 2
VOCABULARY, LENGTH, WIDTH, LAYERS, HEAD = 64, 16, 32, 2, 8
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world // (TP * PP), PP, TP), mesh_dim_names=("dp", "pp", "tp"))
replica, replicas = mesh["dp"].get_local_rank(), mesh["dp"].size()
stage, stages = mesh["pp"].get_local_rank(), mesh["pp"].size()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.ffn_norm = RMSNorm(WIDTH), RMSNorm(WIDTH)
        self.wq, self.wk, self.wv, self.wo = (Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.w1, self.w3 = (Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.w2 = Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        normed = self.attention_norm(x)
        q, k, v = (w(normed).unflatten(-1, (-1, HEAD)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = rotated(q), rotated(k)
        x = x + self.wo(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        normed = self.ffn_norm(x)
        return x + self.w2(silu(self.w1(normed)) * self.w3(normed))


def rotated(x):
    angles = torch.outer(torch.arange(LENGTH), 10000.0 ** -torch.arange(0, 1, 2 / HEAD))
    first, second = x.chunk(2, -1)
    return torch.cat([first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1)


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = Embedding(VOCABULARY, WIDTH)
        self.layers = torch.nn.ModuleDict({str(layer): Block() for layer in range(LAYERS)})
        self.norm, self.output = RMSNorm(WIDTH), Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        x = self.tok_embeddings(x) if self.tok_embeddings else x
        for layer in self.layers.values():
            x = layer(x)
        return self.output(self.norm(x)) if self.output else x


torch.manual_seed(1)
model = Llama()  # the whole one; what is of other stages is taken away, so the names of what is left are those of the whole model
for layer in range(LAYERS):
    if layer * stages // LAYERS != stage:
        del model.layers[str(layer)]
if stage > 0:
    model.tok_embeddings = None
if stage < stages - 1:
    model.norm = model.output = None
for block in model.layers.values():
    columns, rows = dict.fromkeys(("wq", "wk", "wv", "w1", "w3"), ColwiseParallel()), dict.fromkeys(("wo", "w2"), RowwiseParallel())
    parallelize_module(block, mesh["tp"], {**columns, **rows})
if model.output:
    parallelize_module(model, mesh["tp"], {"output": ColwiseParallel(output_layouts=Replicate())})
for part in (*model.layers.values(), model):
    fully_shard(part, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)  # foreach mixes no tensors of several meshes


def loss_of(output, target):
    return cross_entropy(output.flatten(0, 1), target.flatten())


tokens = (torch.arange(4096)[:, None] * 7 + torch.arange(LENGTH + 1) ** 2) % VOCABULARY
dataset = TensorDataset(tokens[:, :-1], tokens[:, 1:])
samples = BATCH // replicas
order = torch.randperm(len(dataset))
schedule = Schedule1F1B(PipelineStage(model, stage, stages, torch.device("cpu"), group=mesh["pp"].get_group()), samples, loss_of)
for step in range(1, STEPS + 1):
    numbers = torch.arange((step - 1) * BATCH + replica, step * BATCH, replicas)
    inputs, targets = dataset[order[numbers % len(dataset)]]
    optimizer.zero_grad()
    losses = []
    schedule.step(*([inputs] if stage == 0 else []), target=targets, losses=losses if stage == stages - 1 else None)
    optimizer.step()
    loss = torch.stack(losses).mean() if losses else None
    if rank == world - 1 and step % 10 == 0:
        print(f"step {step}: loss {loss:.4f} on {mesh.size()} processes")
dist.destroy_process_group()
