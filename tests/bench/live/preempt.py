"""preempt.py ROUNDS OUTPUT: espalierd is dead and a plain job arrives; Slurm preempts 1, 2 or 3 extensions of one training
for it. Seconds from the submission of the plain job until it runs.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from box_jobs import end, gpus, last_lines, plain, running, say, slurm, state, steps, train, wait_for

rounds, output = int(sys.argv[1]), pathlib.Path(sys.argv[2])
SECTIONS = {
    "model": {"layers": 8, "hidden": 32, "heads": 4, "sequence": 32, "vocabulary": 256},
    "training": {"steps": 1000000, "global_batch": 8, "micro_batches": 8, "learning_rate": 1e-3},
    "device": {"gflops": 0.2},
}


def planner(word):
    subprocess.run([os.environ["BOX_HERE"] + "/planner.sh", word], check=True)


def wait_of(nodes):
    """The training has two devices of each of n1 to n4; a plain job takes n2 and as many more as `nodes` says."""
    wanted = ",".join(f"n{2 + i}" for i in range(nodes))
    planner("kill")
    before = time.monotonic()
    job = plain("urgent", f"-N{nodes}", "--ntasks-per-node=1", "-w", wanted, "--gres=gpu:2")
    wait_for(90, f"the plain job on {wanted} runs", lambda: running(job))
    seconds = time.monotonic() - before
    wait_for(60, "the training goes on without them", lambda: gpus("grown") == 8 - 2 * nodes)
    slurm("scancel", str(job))
    wait_for(60, "the plain job is gone", lambda: not state(job))
    planner("start")
    return seconds


def grown():
    wait_for(240, "the training has all eight devices", lambda: gpus("grown") == 8)
    at = len(steps("grown"))
    wait_for(120, "it does some steps", lambda: len(steps("grown")) >= at + 5)


training = train("grown", "2:8", ["-N1", "-n1", "-w", "n1", "--gres=gpu:2"], SECTIONS)
waits = {1: [], 2: [], 3: []}
try:
    for _ in range(rounds):
        for nodes in waits:
            grown()
            waits[nodes].append(wait_of(nodes))
            say(f"{nodes} extensions preempted: the plain job runs after {waits[nodes][-1]:.2f} s")
except TimeoutError as problem:
    say(f"{problem}\n{last_lines('grown')}")
    raise
medians = {nodes: statistics.median(seconds) for nodes, seconds in waits.items()}
output.write_text(json.dumps({"preempt_1_s": medians[1], "preempt_2_s": medians[2], "preempt_3_s": medians[3],
                              "preempt_2_over_1": medians[2] / medians[1], "preempt_3_over_1": medians[3] / medians[1]}))
end(training)
