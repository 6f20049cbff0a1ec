"""dcp.py save|load FOLDER WIDTH: the state of train.py's FSDP2 training by torch.distributed.checkpoint, which keeps it on the disk and
knows how to divide it among another number of processes. Each started by torchrun. Rank 0 prints the seconds in which all
processes have done it, as JSON. What is saved is on the disk then (fsync), as after a loss of power it must be."""
import json
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

what, folder, width = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(32, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)).double()
for layer in (model[0], model[2], model):
    fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model(torch.randn(4, 32, dtype=torch.float64)).sum().backward()
optimizer.step()  # it has its moments now
state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
dist.barrier()
begin = time.perf_counter()
if what == "save":
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, sync_files=True))
else:
    dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
dist.barrier()
if dist.get_rank() == 0:
    print(json.dumps({"what": what, "processes": dist.get_world_size(), "seconds": time.perf_counter() - begin}), flush=True)
dist.destroy_process_group()
