"""What jobs that are over have left behind."""
import os

import processes
from shell import run


def leaks():
    found = [f"job {line}" for line in run("squeue", "-h", "-o", "%i %j %T").splitlines()]
    found += [f"process {pid} {' '.join(processes._words(pid))[:100]}" for pid in processes.pids()]
    found += [f"shared memory {name}" for name in os.listdir("/dev/shm")]
    found += [f"/tmp/{name}" for name in os.listdir("/tmp") if name.startswith(("espalier", "ompi."))]
    for node in os.listdir("/run/netns"):
        table = run("nsenter", f"--net=/run/netns/{node}", "cat", "/proc/net/unix")
        found += [f"socket {line.split()[-1]} on {node}" for line in table.splitlines() if "@espalier" in line]
    return found


def slurm_is_done():
    """With jobs that ended and with nodes that were cut off or restarted: it starts nothing there before."""
    return ("COMPLETING" not in run("squeue", "-h", "-o", "%T", check=False)
            and "*" not in run("sinfo", "-h", "-N", "-o", "%t", check=False))


def stray_extensions(job):
    """Extensions of others than `job`."""
    lines = run("squeue", "-h", "-n", "espalier-ext", "-o", "%i %k").splitlines()
    return [line for line in lines if f"espalier:ext:{job}:" not in line]


def gpus_twice():
    """Nodes whose jobs hold more GPUs than there are; Slurm's own word."""
    held = {}
    for line in run("squeue", "-h", "-t", "R", "-o", "%N %b").splitlines():
        node, gres = line.split()
        held[node] = held.get(node, 0) + int(gres.rsplit(":", 1)[1])
    return [f"{node}: {count} GPUs held" for node, count in held.items() if count > 4]
