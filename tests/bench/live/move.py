"""move.py ROUNDS OUTPUT: how long training stands when the base of a movable job is replaced, and when it grows. Two devices of each of
four nodes are free, so both bring state to another node. ROUNDS times: a job of two devices grows to four, its base moves to
devices of the other type, and it gives back what it was lent.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys

from box_jobs import box, end, gpus, home, last_lines, of_job, plain, say, steps, train, wait_for

rounds, output = int(sys.argv[1]), pathlib.Path(sys.argv[2])
# 154 MB of state; a move brings as much of it to another node as a growth does.
SECTIONS = {
    "model": {"layers": 8, "hidden": 256, "heads": 8, "sequence": 32, "vocabulary": 256},
    "training": {"steps": 1000000, "global_batch": 8, "micro_batches": 4, "learning_rate": 1e-3},
    "device": {"gflops": 20},
}


def committed(name):
    """(kind, ms) of each change, in their order."""
    found, kind = [], None
    for line in (home / f"{name}.out").read_text(errors="replace").splitlines():
        if match := re.search(r"launch: (\w+) committed at step", line):
            kind = match[1]
        elif kind and (match := re.search(r"launch: paused ([\d.]+) ms between step", line)):
            found.append((kind, float(match[1])))
            kind = None
    return found


def of_kind(kind):
    return [ms for one, ms in committed("moved") if one == kind]


def rest():
    at = len(steps("moved"))
    wait_for(240, "the training does some steps on four devices", lambda: len(steps("moved")) >= at + 15 and
             all(one["gpus"] == 4 for one in steps("moved")[-8:]))
    wait_for(60, "it has one base", lambda: len(of_job(training).get("bases", [])) <= 1)


def asked(*words):
    return subprocess.run([box / "bin/espalier", *words], capture_output=True, timeout=60).returncode == 0


fillers = [plain(f"fill{n}", "-N1", "-n1", "-w", f"n{n}", "--mem=100", "--gres=gpu:2") for n in (1, 2, 3, 4)]
training = train("moved", "2:4,movable", ["-n1", "--mem=500"], SECTIONS)
try:
    for number in range(rounds):
        rest()
        before, kind = len(of_kind("migrate")), ("a100", "h100")[number % 2]
        wait_for(120, f"its base moves to {kind}",
                 lambda: asked("migrate", str(training), "--type", kind))
        wait_for(240, "it has moved", lambda: len(of_kind("migrate")) > before)
        say(f"moved to {kind}: it stood for {of_kind('migrate')[-1]:.1f} ms")
        wait_for(120, "it gives back its extension", lambda: gpus("moved") == 2 or asked("reclaim", str(training)) and False)
    rest()
except TimeoutError as problem:
    say(f"{problem}\n{last_lines('moved')}")
    raise
lost = [one["step"] for one in steps("moved")] != list(range(1, len(steps("moved")) + 1))
moves, grows = of_kind("migrate"), of_kind("grow")
say("grows: " + ", ".join(f"{ms:.1f}" for ms in grows) + " ms")
output.write_text(json.dumps({"move_pause_ms": statistics.median(moves), "grow_pause_ms": statistics.median(grows),
                              "move_over_grow": statistics.median(moves) / statistics.median(grows),
                              "moves": len(moves), "grows": len(grows), "steps_lost_in_moves": lost}))
end(training, *fillers)
sys.exit(1 if lost else 0)
