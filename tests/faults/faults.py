"""The faults: what is done to whom. Each returns what undoes it, or None. NoTarget: there is nobody to do it to just now."""
import dataclasses
import os
import resource
import signal
import subprocess
import threading
import time
from typing import Callable

import processes
import slurm
from job import DISK
from shell import BOX, as_user, run

HERE = f"{os.environ['BOX_HERE']}"


class NoTarget(Exception):
    pass


def _one(pids, choice):
    pids = list(pids)
    if not pids:
        raise NoTarget
    return choice(pids)


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError as gone:
        raise NoTarget from gone


def kill_worker(of):
    def fault(job, random):
        pids = processes.of_generation("espalier-train", of(job))
        _signal(_one(pids, random.choice), signal.SIGKILL)
    return fault


def kill_first_rank(job, _random):
    workers = processes.of_generation("espalier-train", job.generation)
    _signal(_one([pid for pid in workers if processes.rank_of(pid) == 0], min), signal.SIGKILL)


def kill_node_workers(job, random):
    """All workers of one remote rank server at once, and the server."""
    server = _one([pid for pid in processes.rank_servers() if not processes.beside_launcher(pid)], random.choice)
    workers = [pid for pid in processes.below(server) if processes.name_of(pid) == "espalier-train"]
    if not workers:
        raise NoTarget
    for pid in workers + [server]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # with its child or parent
            pass


def kill_rank_server(of, beside_launcher):
    """One that has started workers of that generation."""
    def fault(job, random):
        workers = set(processes.of_generation("espalier-train", of(job)))
        servers = [pid for pid in processes.rank_servers() if processes.beside_launcher(pid) == beside_launcher
                   and workers & set(processes.below(pid))]
        _signal(_one(servers, random.choice), signal.SIGKILL)
    return fault


def kill_one(find):
    def fault(_job, random):
        _signal(_one(find(), random.choice), signal.SIGKILL)
    return fault


def stop_worker(seconds):
    """Stands still, for a while or for good."""
    def fault(job, random):
        pid = _one(processes.of_generation("espalier-train", job.generation), random.choice)
        _signal(pid, signal.SIGSTOP)
        if seconds is None:
            return None
        def go_on():
            time.sleep(seconds)
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        thread = threading.Thread(target=go_on, daemon=True)
        thread.start()
        return thread.join
    return fault


def starve_worker(of):
    """It gets no more address space than it has: its next allocation fails. As its user: the box's root may not."""
    def fault(job, random):
        pid = _one(processes.of_generation("espalier-train", of(job)), random.choice)
        def limit(size):  # what may be raised again
            as_user("prlimit", "--pid", str(pid), f"--as={size}:")
        try:
            with open(f"/proc/{pid}/statm", encoding="utf-8") as file:
                limit(int(file.read().split()[0]) * resource.getpagesize())
        except (OSError, IndexError, RuntimeError) as gone:
            if os.path.exists(f"/proc/{pid}"):
                raise
            raise NoTarget from gone
        def lift():  # it may have had all it needed
            try:
                limit("unlimited")
            except RuntimeError:
                pass
        return lift
    return fault


def kill_keeper(extension):
    def fault(_job, random):
        _signal(_one(processes.keepers(extension), random.choice), signal.SIGKILL)
    return fault


def kill_base_keeper(job, random):
    """The base ends with it, as its batch script, once Slurm has given the workers their time: the one that the job trains on, or
    one that it moves to or leaves."""
    keeper = _one([pid for pid in processes.keepers(False) if processes.job_of(pid) in job.bases()], random.choice)
    base = processes.job_of(keeper)
    _signal(keeper, signal.SIGKILL)
    def ends():
        end = time.monotonic() + 50
        while base in job.bases() and time.monotonic() < end:
            time.sleep(0.2)
    return ends


def _extension(job, random):
    lines = run("squeue", "-h", "-p", "elastic", "-o", "%i %k").splitlines()
    return _one([line.split()[0] for line in lines if line.split()[1].startswith(f"espalier:ext:{job.id}:")], random.choice)


def _cancel(*words):
    try:
        as_user("scancel", *words)
    except RuntimeError as gone:  # it has ended meanwhile
        raise NoTarget from gone


def cancel_extension(job, random):
    _cancel(_extension(job, random))


def kill_extension(job, random):
    """Without grace."""
    _cancel("--full", "-s", "KILL", _extension(job, random))


def cancel_base(newest):
    """Of a job that has two: the one that it moves to, or the one that it leaves."""
    def fault(job, _random):
        bases = sorted(job.bases(), key=int)
        if len(bases) < 2:
            raise NoTarget
        _cancel(bases[-1 if newest else 0])
    return fault


def kill_planner(_job, _random):
    run(f"{HERE}/planner.sh", "kill")
    def start():
        subprocess.run([f"{HERE}/planner.sh", "start"], check=True, timeout=30, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
    return start


def kill_controller(_job, _random):
    with open(f"{BOX}/pid/slurmctld", encoding="utf-8") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    return slurm.start


def kill_slurmd(_job, _random):
    run(f"{HERE}/node.sh", "kill", "n2")
    def start():
        subprocess.run([f"{HERE}/node.sh", "start", "n2"], check=True, timeout=30, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return start


def cut_network(node, seconds):
    """From all other nodes and the controller, both ways. Packets are dropped, nothing is refused; what stays on the node
    arrives."""
    link = node.replace("n", "v")
    def fault(_job, _random):
        run("ip", "link", "set", link, "down")
        def restore():
            time.sleep(seconds)
            run("ip", "link", "set", link, "up")
        return restore
    return fault


def _full(folder):
    def fault(_job, _random):
        for slack in (4, 64, 1024):  # KiB: what is written between the two commands must fit
            used = int(run("df", "--output=used", "-k", folder).splitlines()[-1])
            try:
                run("mount", "-o", f"remount,size={used + slack}k", folder)
                break
            except RuntimeError:
                continue
        else:
            raise NoTarget
        def restore():
            time.sleep(2)
            run("mount", "-o", "remount,size=50%", folder)
        return restore
    return fault


def kill_launcher(_job, _random):
    _signal(_one(processes.launchers(), min), signal.SIGKILL)


def cancel_anchor(job, _random):
    as_user("scancel", job.id)


def present(job):
    return job.generation


def coming(job):
    """The generation that is being started: numbers only grow."""
    later = [generation for generation in processes.generations() if generation > job.generation]
    if not later:
        raise NoTarget
    return max(later)


@dataclasses.dataclass(frozen=True)
class Fault:
    strike: Callable
    survives: bool = True  # the job must
    may_end: bool = False  # the job may, if it says how to go on; nothing of it is left then
    of_next: bool = False  # done to the generation that is being started: the one that trains must not be lost by it
    # To a job that has not trained yet: None if there is nobody to do it to. A job that never trained has nothing to recover.
    launching: str | None = None
    kinds: tuple[str, ...] | None = None  # of jobs, where there is somebody to do it to
    by_slurmctld: bool = False  # Slurm may be wrong about its nodes after it
    hides_node: bool = False  # Slurm may take minutes to end a job there
    takes_copies: bool = False  # what is kept in memory on a node may go with it


ANCHORED = ("adopt", "checkpoint", "overlap", "spread")  # the launcher is beside GPUs of the job
MUST_LIVE, MAY_END = "must live", "may end"

FAULTS = {
    "a worker killed": Fault(kill_worker(present), launching=MAY_END),
    "rank 0 killed": Fault(kill_first_rank, launching=MAY_END),
    "a node's workers and rank server killed": Fault(kill_node_workers),
    "a rank server killed": Fault(kill_rank_server(present, False)),
    "the rank server beside the launcher killed": Fault(kill_rank_server(present, True), launching=MAY_END, kinds=ANCHORED),
    "a step's srun killed": Fault(kill_one(processes.steps)),
    "a worker of the next generation killed": Fault(kill_worker(coming), of_next=True),
    "a rank server of the next generation killed": Fault(kill_rank_server(coming, False), of_next=True),
    "the launcher's rank server killed in a change": Fault(kill_rank_server(coming, True), of_next=True, kinds=ANCHORED),
    "a worker of the next generation out of memory": Fault(starve_worker(coming), of_next=True),
    "a worker stopped for 2 s": Fault(stop_worker(2), launching=MUST_LIVE),
    "a worker stopped for good": Fault(stop_worker(None), launching=MAY_END),
    "what starts a rank server killed": Fault(kill_one(processes.tethers)),
    "a keeper killed": Fault(kill_keeper(True), takes_copies=True),
    "the keeper of an own node killed": Fault(kill_keeper(False), kinds=("spread",), takes_copies=True),
    "the keeper of a base killed": Fault(kill_base_keeper, may_end=True, launching=MAY_END, kinds=("movable",), takes_copies=True),
    "the base that it moves to cancelled": Fault(cancel_base(True), kinds=("movable",), takes_copies=True),
    "the base that it leaves cancelled": Fault(cancel_base(False), kinds=("movable",), takes_copies=True),
    "an extension cancelled": Fault(cancel_extension, takes_copies=True),
    "an extension killed": Fault(kill_extension, takes_copies=True),
    "espalierd killed": Fault(kill_planner, launching=MUST_LIVE),
    # A job that slurmctld had not saved is unknown to the next one, which ends it.
    "slurmctld killed": Fault(kill_controller, launching=MAY_END, by_slurmctld=True, takes_copies=True),
    "slurmd killed": Fault(kill_slurmd, hides_node=True, takes_copies=True),
    "a node's network cut for 3 s": Fault(cut_network("n2", 3), hides_node=True, takes_copies=True),
    "a node's network cut for 15 s": Fault(cut_network("n2", 15), hides_node=True, takes_copies=True),
    "the launcher's network cut for 5 s": Fault(cut_network("n1", 5), launching=MUST_LIVE, hides_node=True, takes_copies=True),
    "the disk full": Fault(_full("/tmp"), launching=MAY_END),
    "the disk of the checkpoints full": Fault(_full(DISK), kinds=("checkpoint", "overlap")),
    "/dev/shm full": Fault(_full("/dev/shm"), launching=MAY_END, takes_copies=True),
    "the launcher killed": Fault(kill_launcher, survives=False, launching=MAY_END),
    "the anchor cancelled": Fault(cancel_anchor, survives=False, launching=MAY_END),
}
