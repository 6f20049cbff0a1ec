"""What Slurm says of its jobs, nodes and GPUs, and what is done where it is wrong about them by its own fault: a slurmctld that
was killed may give the numbers of jobs it had not saved yet again ("Duplicate jobid" drains the node), and may count GPUs as
used that no job has."""
import os
import re
import signal
import subprocess
import time

import processes
from shell import BOX, run

RUNS = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "CONFIGURING", "RESIZING")


OWN_FAULTS = ("duplicate", "counted")  # of a slurmctld that was killed


def job_state(job):
    """As squeue names it; "" when Slurm does not know the job, None when Slurm does not answer."""
    try:
        done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%T"], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == 0:
        return done.stdout.strip()
    return "" if "Invalid job id" in done.stderr else None


def is_done():
    """With jobs that ended and with nodes that were cut off or restarted: it starts nothing there before."""
    return ("COMPLETING" not in run("squeue", "-h", "-o", "%T", check=False)
            and "*" not in run("sinfo", "-h", "-N", "-o", "%t", check=False))


def _nodes():
    """By name: state, reason, GPUs that count as used."""
    found = {}
    for line in run("scontrol", "-o", "-d", "show", "node").splitlines():
        def field(name, text):
            value = re.search(rf"(?:^| ){name}={text}", line)
            return value[1] if value else ""
        used = re.search(r"gpu:(?:[a-z]\w*:)?(\d+)", field("GresUsed", r"(\S*)"))
        found[field("NodeName", r"(\S+)")] = (field("State", r"(\S+)"), field("Reason", r"(.*?)(?: \[|$)"),
                                              int(used[1]) if used else 0)
    return found


def names(nodes):
    """As squeue writes them: n1, n[1-2]."""
    return run("scontrol", "show", "hostnames", nodes).split() if "[" in nodes or "," in nodes else [nodes]


def _jobs():
    """(number, node, GPUs) of those that have some: what is asked for is per node."""
    found = []
    for line in run("squeue", "-h", "-o", "%i|%N|%b|%T").splitlines():
        number, nodes, gres, state = line.split("|")
        if state in RUNS:
            found += [(number, node, int(gres.rsplit(":", 1)[1]) if "gpu:" in gres else 0) for node in names(nodes)]
    return found


def wrong():
    """What it is wrong about just now, by node: (kind, in words)."""
    nodes, jobs = _nodes(), _jobs()
    found = {}
    for name, (state, reason, used) in nodes.items():
        held = sum(gpus for _, node, gpus in jobs if node == name)
        if "DRAIN" in state:
            own = "duplicate jobid" in reason.lower()
            found[name] = ("duplicate" if own else "drained", f"{name} is drained: {reason}")
        elif used > held:
            found[name] = ("counted", f"{name}: {used} GPUs count as used, its jobs have {held}")
    return found


def unknown_processes():
    """boxuser's, of jobs that Slurm does not list: they may hold any GPU, and nobody's fault but ours."""
    listed = set(run("squeue", "-h", "-o", "%i").split())
    return [f"process {pid} of job {processes.job_of(pid) or '?'}: {processes.command(pid)}" for pid in processes.pids()
            if processes.job_of(pid) not in listed and processes.command(pid)]  # not one that has only to be reaped


def heal(found):
    """Makes it right about what wrong() found."""
    for node, (kind, _) in found.items():
        if kind in ("duplicate", "drained"):
            run("scontrol", "update", f"nodename={node}", "state=resume")
    restart()  # a node that was drained may be counted wrong as well


def restart():
    """Of slurmctld, in good order: it counts anew what its jobs have."""
    with open(f"{BOX}/pid/slurmctld", encoding="utf-8") as file:
        pid = int(file.read())
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        time.sleep(0.1)
    start()


def start():
    subprocess.run(["slurmctld"], check=True, timeout=30, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while not run("scontrol", "ping", check=False).endswith("is UP") and time.monotonic() < end:
        time.sleep(0.1)


def says():
    """Of jobs, nodes and GPUs, to print where something is left behind."""
    def told(*command):
        try:
            return run(*command, check=False) or "(nothing)"
        except subprocess.TimeoutExpired:
            return "(no answer)"
    wanted = re.compile(r"(?:NodeName|State|CPUAlloc|Gres|GresUsed|AllocTRES)=\S*|Reason=.*")
    nodes = told("scontrol", "-o", "-d", "show", "node").splitlines()
    return "\n".join([told("squeue", "-o", "%i %j %T %N %b %M %k")] +
                     [" ".join(wanted.findall(line)) or line for line in nodes])
