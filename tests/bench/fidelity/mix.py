"""mix.py MIX.toml FOLDER: inside a box, submits the jobs of the mix as boxuser, waits for their end, and leaves in FOLDER what
happened: real.json (times, decisions, the launchers' phases) and job-NAME.json (what `espalier show job --json` says of each).
"""
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import tomllib

mix = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())
folder = pathlib.Path(sys.argv[2])
box = pathlib.Path(os.environ["BOX"])
home = box / "home"
LIMIT = 1500  # seconds for all jobs


def as_user(*command):
    environment = os.environ | {"HOME": str(home), "USER": "boxuser"}
    return subprocess.run(["setpriv", "--reuid", "boxuser", "--regid", "boxuser", "--clear-groups", *command], cwd=home,
                          env=environment, check=True, capture_output=True, text=True).stdout.strip()


def espalier(*words):
    return json.loads(subprocess.run([box / "bin/espalier", *words, "--json"], check=True, capture_output=True,
                                     text=True).stdout)


def owned(path, text, mode=0o644):
    path.write_text(text)
    path.chmod(mode)
    shutil.chown(path, "boxuser", "boxuser")


def submit(job):
    kind = mix["kinds"][job["kind"]]
    name = job["name"]
    sections = {
        "model": kind["model"],
        "training": kind["training"] | {"steps": job["steps"], "learning_rate": 1e-3},
        "device": {"gflops": mix["gflops"]},
        "data": {"path": str(box / "share/text")},
        "metrics": {"path": f"{name}.jsonl", "progress_every": 0},
        "profile": {"every": 1, "path": f"{name}.profiles"},
    }
    text = "".join(f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
                   for section, keys in sections.items())
    owned(home / f"{name}.toml", text)
    owned(home / f"{name}.sh", f"""#!/bin/bash
echo "$EPOCHREALTIME" > {name}.started
srun --elastic={kind['gpus']}:{kind['max']},accuracy={kind['accuracy']} espalier-train {name}.toml
echo "$? $EPOCHREALTIME" > {name}.ended
""", 0o755)
    job["submitted"] = time.time()
    job["id"] = int(as_user("sbatch", "--parsable", "-J", name, "-o", f"{name}.out", "-N1", "-n1",
                            f"--gres=gpu:{kind['gpus']}", f"{name}.sh"))


def look(unended, first_seen):
    """When the planner first knows a job's step time."""
    for job in espalier("show", "jobs")["jobs"]:
        if job["step_seconds"] > 0:
            first_seen.setdefault(job["id"], time.time())
    return [job for job in unended if not (home / f"{job['name']}.ended").exists()]


jobs = sorted(mix["jobs"], key=lambda job: job["at"])
begin = time.time()
waiting, unended, first_seen = list(jobs), [], {}
while waiting or unended:
    if time.time() - begin > LIMIT:
        sys.exit(f"mix: after {LIMIT} s still not ended: {[job['name'] for job in waiting + unended]}")
    if waiting and time.time() - begin >= waiting[0]["at"]:
        unended.append(waiting.pop(0))
        submit(unended[-1])
        print(f"[{time.time() - begin:6.1f} s] {unended[-1]['name']} is submitted", flush=True)
    before = {job["name"] for job in unended}
    unended = look(unended, first_seen)
    for name in before - {job["name"] for job in unended}:
        print(f"[{time.time() - begin:6.1f} s] {name} has ended", flush=True)
    time.sleep(0.25)
time.sleep(3)  # what the launchers say last

store = sqlite3.connect("file:/var/lib/espalier/espalier.db?mode=ro", uri=True)
transitions = store.execute("SELECT job, time, source, event, target, generation FROM transitions ORDER BY id").fetchall()
for job in jobs:
    name = job["name"]
    job["started"] = float((home / f"{name}.started").read_text())
    code, ended = (home / f"{name}.ended").read_text().split()
    if code != "0":
        sys.exit(f"mix: {name} failed:\n{(home / f'{name}.out').read_text()}")
    job["ended"] = float(ended)
    job["last_step"] = (home / f"{name}.jsonl").stat().st_mtime
    job["profiled"] = first_seen.get(job["id"])
    job["transitions"] = [row[1:] for row in transitions if row[0] == job["id"]]
    job["metrics"] = [json.loads(line) for line in (home / f"{name}.jsonl").read_text().splitlines()]
    (folder / f"job-{name}.json").write_text(json.dumps(espalier("show", "job", str(job["id"]))))
    shutil.copy(home / f"{name}.profiles", folder / f"{name}.profiles")
log = (box / "log/espalierd.log").read_text()
settled = re.findall(r"^(\S+) .*job (\d+): its profiles agree", log, re.M)
decisions = espalier("show", "decisions", "--limit=1000")["decisions"]
(folder / "real.json").write_text(json.dumps({"begin": begin, "jobs": jobs, "decisions": decisions, "settled": settled}))
shutil.copy("/etc/espalier/espalier.toml", folder / "espalier.toml")
(folder / "espalierd.log").write_text(log)
