"""A plain training as torchtitan has it, with data and tensor parallelism: torchrun --nproc-per-node=4 plain_titan.py"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn import Embedding, Linear, RMSNorm
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu
from torch.utils.data import TensorDataset

BATCH, STEPS = 16, 100
TP = 2
LOCAL_BATCH, VOCABULARY, LENGTH, WIDTH, LAYERS, HEAD = 2, 64, 16, 32, 2, 8
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size() // TP, TP), mesh_dim_names=("dp", "tp"))


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
        x = x + self.wo(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        normed = self.ffn_norm(x)
        return x + self.w2(silu(self.w1(normed)) * self.w3(normed))


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = Embedding(VOCABULARY, WIDTH)
        self.layers = torch.nn.ModuleDict({str(layer): Block() for layer in range(LAYERS)})
        self.norm, self.output = RMSNorm(WIDTH), Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        x = self.tok_embeddings(x)
        for layer in self.layers.values():
            x = layer(x)
        return self.output(self.norm(x))


torch.manual_seed(1)
model = Llama()
columns, rows = (dict.fromkeys(names, style) for names, style in ((("wq", "wk", "wv", "w1", "w3"), ColwiseParallel(input_layouts=Shard(1))),
                                                                  (("wo", "w2"), RowwiseParallel(output_layouts=Shard(1)))))
norms = dict.fromkeys(("attention_norm", "ffn_norm"), SequenceParallel())
for block in model.layers.values():
    parallelize_module(block, mesh["tp"], {**columns, **rows, **norms})
parallelize_module(model, mesh["tp"], {"tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
                                       "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
for part in (*model.layers.values(), model):
    fully_shard(part, mesh=mesh["dp"])
    part.set_gradient_divide_factor(1.0)  # the loss is divided by the tokens of the global batch, so gradients are summed
    part.set_force_sum_reduction_for_comms(True)  # gloo has no other
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))

tokens = (torch.arange(4096)[:, None] * 7 + torch.arange(LENGTH + 1) ** 2) % VOCABULARY
labels = tokens[:, 1:].masked_fill(torch.arange(LENGTH) < torch.arange(4096)[:, None] % 5, -100)  # prompts do not count
dataset = TensorDataset(tokens[:, :-1], labels)
parts = -(-BATCH // (LOCAL_BATCH * mesh["dp"].size()))  # the same number in all processes, as each part is an exchange
order = torch.randperm(len(dataset))
for step in range(1, STEPS + 1):
    numbers = torch.arange((step - 1) * BATCH + mesh["dp"].get_local_rank(), step * BATCH, mesh["dp"].size())
    inputs, targets = dataset[order[numbers % len(dataset)]]
    count = (targets != -100).sum()
    dist.all_reduce(count, group=mesh["dp"].get_group())
    optimizer.zero_grad()
    loss = 0
    for some, wanted in zip(inputs.tensor_split(parts), targets.tensor_split(parts)):
        part = cross_entropy(model(some).flatten(0, 1), wanted.flatten(), reduction="sum") / count
        part.backward()
        loss += part.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
    optimizer.step()
    scheduler.step()
    dist.all_reduce(loss, group=mesh["dp"].get_group())
    if dist.get_rank() == 0 and step % 10 == 0:
        print(f"step {step}: loss {loss:.4f} on {mesh.size()} processes")
dist.destroy_process_group()
