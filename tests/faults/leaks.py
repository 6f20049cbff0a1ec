"""What jobs that are over have left behind."""
import os

import processes
import slurm
from shell import run


def leaks():
    try:
        found = [f"job {line}" for line in run("squeue", "-h", "-o", "%i %j %T").splitlines()]
    except RuntimeError as away:
        found = [f"jobs are not known: {away}"]
    found += [f"process {pid} {processes.command(pid)}" for pid in processes.pids()]
    found += [f"shared memory {name}" for name in os.listdir("/dev/shm")]
    found += [f"/tmp/{name}" for name in os.listdir("/tmp") if name.startswith(("espalier", "ompi."))]
    for node in os.listdir("/run/netns"):
        table = run("nsenter", f"--net=/run/netns/{node}", "cat", "/proc/net/unix")
        found += [f"socket {line.split()[-1]} on {node}" for line in table.splitlines() if "@espalier" in line]
    return found


def stray_extensions(job):
    """Extensions of others than `job`."""
    lines = run("squeue", "-h", "-p", "elastic", "-o", "%i %k").splitlines()
    return [f"extension of another job: {line}" for line in lines if f"espalier:ext:{job}:" not in line]


def gpus_twice():
    """Nodes whose jobs hold more GPUs than there are; Slurm's own word."""
    held = {}
    for line in run("squeue", "-h", "-t", "R", "-o", "%N %b").splitlines():
        nodes, gres = line.split()
        for node in slurm.names(nodes) if "gpu:" in gres else []:
            held[node] = held.get(node, 0) + int(gres.rsplit(":", 1)[1])
    return [f"{node}: {count} GPUs held" for node, count in held.items() if count > 4]
