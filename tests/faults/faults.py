"""The faults: what is done to whom. Each returns what undoes it, or None. NoTarget: there is nobody to do it to just now."""
import os
import signal
import subprocess
import threading
import time

import processes
from shell import BOX, as_user, on_node, run

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
    """All workers of one remote node at once, and their orted."""
    orted = _one(processes.of_generation("orted", job.generation), random.choice)
    for pid in processes.of_generation("espalier-train", job.generation):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            if int(file.read().rsplit(")", 1)[1].split()[1]) == orted:
                _signal(pid, signal.SIGKILL)
    _signal(orted, signal.SIGKILL)


def kill_named(name, of):
    def fault(job, random):
        _signal(_one(processes.of_generation(name, of(job)), random.choice), signal.SIGKILL)
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


def kill_keeper(_job, random):
    _signal(_one(processes.keepers(True), random.choice), signal.SIGKILL)


def _extension(job, random):
    lines = run("squeue", "-h", "-n", "espalier-ext", "-o", "%i %k").splitlines()
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


def kill_planner(_job, _random):
    run(f"{HERE}/planner.sh", "kill")
    def start():
        subprocess.run([f"{HERE}/planner.sh", "start"], check=True, timeout=30, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
    return start


def kill_controller(_job, _random):
    with open(f"{BOX}/pid/slurmctld", encoding="utf-8") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    def start():
        subprocess.run(["slurmctld"], check=True, timeout=30, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return start


def kill_slurmd(_job, _random):
    run(f"{HERE}/node.sh", "kill", "n2")
    def start():
        subprocess.run([f"{HERE}/node.sh", "start", "n2"], check=True, timeout=30, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return start


def cut_network(seconds):
    """Of the extensions' node. Packets are dropped, nothing is refused."""
    def fault(_job, _random):
        run("ip", "link", "set", "v2", "down")
        def restore():
            time.sleep(seconds)
            run("ip", "link", "set", "v2", "up")
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


# name -> (fault, whether the job must survive it)
FAULTS = {
    "a worker killed": (kill_worker(present), True),
    "rank 0 killed": (kill_first_rank, True),
    "a node's workers and orted killed": (kill_node_workers, True),
    "an orted killed": (kill_named("orted", present), True),
    "mpirun killed": (kill_named("mpirun", present), True),
    "a step's srun killed": (kill_named("srun", present), True),
    "a worker of the next generation killed": (kill_worker(coming), True),
    "an orted of the next generation killed": (kill_named("orted", coming), True),
    "mpirun of the next generation killed": (kill_named("mpirun", coming), True),
    "a worker stopped for 2 s": (stop_worker(2), True),
    "a worker stopped for good": (stop_worker(None), True),
    "a keeper killed": (kill_keeper, True),
    "an extension cancelled": (cancel_extension, True),
    "an extension killed": (kill_extension, True),
    "espalierd killed": (kill_planner, True),
    "slurmctld killed": (kill_controller, True),
    "slurmd killed": (kill_slurmd, True),
    "a node's network cut for 3 s": (cut_network(3), True),
    "a node's network cut for 15 s": (cut_network(15), True),
    "the disk full": (_full("/tmp"), True),
    "/dev/shm full": (_full("/dev/shm"), True),
    "the launcher killed": (kill_launcher, False),
    "the anchor cancelled": (cancel_anchor, False),
}
