"""Jobs of boxuser inside a box: submit them, watch them, ask espalierd about them."""
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time

box = pathlib.Path(os.environ["BOX"])
home = box / "home"


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def as_user(*command):
    environment = os.environ | {"HOME": str(home), "USER": "boxuser"}
    done = subprocess.run(["setpriv", "--reuid", "boxuser", "--regid", "boxuser", "--clear-groups", *command], cwd=home,
                          env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"live: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def slurm(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def espalier(*words):
    done = subprocess.run([box / "bin/espalier", *words, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 and done.stdout.strip() else None


def control(word, job):
    """hold or release; False where espalierd refuses it."""
    return subprocess.run([box / "bin/espalier", word, str(job)], capture_output=True).returncode == 0


def wait_for(seconds, what, holds):
    until = time.monotonic() + seconds
    while True:
        answer = holds()
        if answer:
            return answer
        if time.monotonic() > until:
            raise TimeoutError(f"after {seconds} s still not: {what}")
        time.sleep(0.2)


def owned(name, text, mode=0o644):
    path = home / name
    path.write_text(text)
    path.chmod(mode)
    shutil.chown(path, "boxuser", "boxuser")


def toml(sections):
    return "".join(f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                   for section, keys in sections.items())


def train(name, elastic, options, sections):
    """Submits an elastic job; its id."""
    sections = sections | {"data": {"path": str(box / "share/text")},
                           "metrics": {"path": f"{name}.jsonl", "progress_every": 0}}
    owned(f"{name}.toml", toml(sections))
    owned(f"{name}.sh", f"#!/bin/bash\nsrun --elastic={elastic} espalier-train {name}.toml\n", 0o755)
    (home / f"{name}.jsonl").unlink(missing_ok=True)
    return int(as_user("sbatch", "--parsable", "-J", name, "-o", f"{name}.out", *options, f"{name}.sh"))


def plain(name, *options):
    """A job that holds its GPUs until it is cancelled; its id."""
    return int(as_user("sbatch", "--parsable", "-J", name, "-o", f"{name}.out", *options, "--wrap", "exec sleep 3600"))


def state(job):
    return slurm("squeue", "-h", "-j", str(job), "-o", "%T")


def running(job):
    return state(job) == "RUNNING"


def end(*jobs):
    """Cancels jobs, and waits until nothing is in the queue or on the nodes."""
    for job in jobs:
        slurm("scancel", str(job))
    wait_for(120, "the queue is empty", lambda: not slurm("squeue", "-h"))
    wait_for(60, "no process of boxuser is left", lambda: not slurm("pgrep", "-u", "boxuser"))


def steps(name):
    """What was written of the training's steps; the last line may be half written."""
    try:
        text = (home / f"{name}.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def gpus(name):
    done = steps(name)
    return done[-1]["gpus"] if done else 0


def decisions(job):
    answer = espalier("show", "decisions", "--job", str(job), "--limit=1000")
    return sorted((d.get("decision", d) for d in answer["decisions"]), key=lambda d: d["id"]) if answer else []


def of_job(job):
    answer = espalier("show", "job", str(job))
    return answer["job"] if answer else {}


def step_seconds(done, skip=3):
    """The median of a generation's steps without its first ones."""
    return statistics.median(one["seconds"] for one in done[skip:])


def last_lines(name, count=15):
    try:
        return "\n".join((home / f"{name}.out").read_text().splitlines()[-count:])
    except FileNotFoundError:
        return "(no output)"


def calibrate():
    """The site's first act: measures links and devices, and has espalierd use the figures."""
    done = subprocess.run([box / "bin/espalier", "calibrate", "--program", box / "bin/espalier-train", "--mpi", "mpirun",
                           "--minutes", "5", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"live: espalier calibrate: {done.stderr.strip()}")
    os.kill(int((box / "pid/espalierd").read_text()), signal.SIGHUP)
    wait_for(30, "espalierd uses what was measured",
             lambda: (espalier("show", "config") or {}).get("calibrated.used"))
    found = json.loads(done.stdout)
    say("calibrated: " + ", ".join(f"{key} {found[key]}" for key in ("nic_gb_s", "tp_gb_s", "dp_gb_s")))
