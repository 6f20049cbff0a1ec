"""ddp_cuda.py METRICS: the smallest elastic training in PyTorch whose model and optimizer are on the GPU."""
import json
import sys

import espalier

run = espalier.join(global_batch=32, steps=400)  # before torch
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.functional import mse_loss  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
torch.manual_seed(1)
x = torch.randn(4096, 256)
dataset = TensorDataset(x, x.sin().sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1)).to(device)
ddp = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3, fused=True)
data = espalier.Data(dataset)
run.register(model=ddp, optimizer=optimizer, data=data)
for step in run.steps():
    inputs, targets = (part.to(device) for part in data.batch(run.slice(step)))
    loss = mse_loss(ddp(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss = run.report(loss)
    if run.is_writer:
        with open(sys.argv[1], "a", encoding="utf-8") as out:
            out.write(json.dumps({"step": step, "loss": loss}) + "\n")
if run.is_writer:
    steps = [json.loads(line)["step"] for line in open(sys.argv[1], encoding="utf-8")]
    print(f"the end: {len(set(steps))} steps on {device.type}, {len(steps) - len(set(steps))} of them twice, loss {loss:.4f}", flush=True)
dist.destroy_process_group()
