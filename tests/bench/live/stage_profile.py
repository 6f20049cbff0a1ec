"""stage_profile.py PLANS SEED OUTPUT [--only=N]... [--stages]: step times predicted from profiles of single stages, against real steps.

The box has two nodes of 4 devices: n1 of the fast type, n2 of the slow one. For each plan every distinct stage is profiled
on one device of its type, by a job with one GPU; `espalier plan --profiles` predicts the step with the network that
`espalier calibrate` measured. Then the whole plan runs. Both get the same numbers of warm-up and timed steps.
--only: of the list these plans, counted from 0. --stages: also says what each stage was predicted to take, and took.
"""
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

import device_table
import workloads
from box_jobs import as_user, box, end, home, last_lines, owned, say, state, steps, toml, wait_for

count, seed, output = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
WARMUP, TIMED = 2, 5
SLOWER = 1.6  # the slow type, beside differences of its own for every operation and shape

# Stages as NODE xREPLICAS*TP; samples of a micro-batch; schedule. A stage on "n1+n2" has replicas of both types.
PLANS = (
    ("n1x1*1", 2, "1f1b"),
    ("n2x1*1", 4, "1f1b"),
    ("n1x1*1 n1x1*1", 2, "1f1b"),
    ("n2x2*1", 4, "1f1b"),
    ("n1x1*1 n2x1*1", 2, "1f1b"),
    ("n1x1*2", 2, "1f1b"),
    ("n1x1*1 n1x1*1 n1x1*1", 2, "1f1b"),
    ("n1x2*1 n1x2*1", 2, "1f1b"),
    ("n2x1*1 n2x1*1 n2x1*1 n2x1*1", 2, "zb-h1"),
    ("n1x2*1 n2x2*1", 4, "1f1b"),
    ("n1x1*1 n1x1*1 n2x1*1 n2x1*1", 1, "1f1b"),
    ("n1+n2x1*1 n1+n2x1*1", 4, "1f1b"),
    ("n1x1*2 n1x1*1 n2x1*2 n2x1*1", 2, "1f1b"),
    ("n1x2*1 n1x2*1 n2x2*1 n2x2*1", 2, "1f1b"),
    ("n1x4*1 n2x4*1", 4, "1f1b"),
    ("n1x1*1 n1x1*1 n1x1*1 n1x1*1 n2x1*1 n2x1*1 n2x1*1 n2x1*1", 2, "1f1b"),
)


def plan_of(text, samples, schedule, load):
    used = {"n1": 0, "n2": 0}
    words = text.split()
    layers = load["model"]["layers"]
    stages = []
    for number, word in enumerate(words):
        nodes, shape = word.split("x")
        replicas, tp = map(int, shape.split("*"))
        hosts = [node for node in nodes.split("+") for _ in range(replicas)]
        stage = {"layers": layers * (number + 1) // len(words) - layers * number // len(words), "tp": tp, "replicas": []}
        for at, node in enumerate(hosts):
            gpus = [f"{node}/{used[node] + t}" for t in range(tp)]
            used[node] += tp
            stage["replicas"].append({"share": samples // len(hosts) + (at < samples % len(hosts)), "gpus": gpus})
        stages.append(stage)
    plan = {"global_batch": load["batch"], "micro_batches": load["batch"] // samples, "stages": stages}
    if schedule != "1f1b":
        plan["schedule"] = schedule
    return plan, {node: number for node, number in used.items() if number}


def saturation(speed, members):
    """v0 and v_sat of a bandwidth that grows with the logarithm of the size, through the smallest and the fastest size."""
    sent = lambda size: size * 2 * (1 - 1 / members) / 1e6
    most = max(speed.values())
    full = sent(next(size for size in speed if speed[size] >= 0.95 * most))
    least = min(speed)
    share = min(0.9, speed[least] / most)
    v0 = 2 ** ((math.log2(sent(least)) - share * math.log2(full)) / (1 - share))
    return {"v0_mb": v0, "v_sat_mb": full} if v0 < full else {}


def network():
    """The network's figures, as a cluster file. The two nodes are the only pair, so what it reaches is a rail's speed."""
    done = subprocess.run([box / "bin/espalier", "calibrate", "--program", box / "bin/espalier-train", "--mpi", "mpirun",
                           "--minutes", "5", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"stage-profile: espalier calibrate: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    figures = {key: found[key] for key in ("tp_gb_s", "v0_mb", "v_sat_mb", "dp_gb_s") if found[key] is not None}
    figures |= {"nic_gb_s": statistics.median(found["by_distance"].values()), "nics": 1}
    # Nodes of two types seldom look alike inside on a busy machine; calibrate then leaves these to data sheets, which
    # imitated devices have none of. What was measured inside of the nodes stands in.
    for key, activations in (("tp_gb_s", True), ("dp_gb_s", False)):
        rows = [row["reduce"] for row in found["measured"] if "reduce" in row]
        rows = [row for row in rows if row["activations"] == activations and not row.get("other")]
        if key in figures or not rows:
            continue
        speed = {size: statistics.median(row["gb_s"] for row in rows if row["bytes"] == size)
                 for size in sorted({row["bytes"] for row in rows})}
        figures[key] = max(speed.values())
        if activations:
            figures |= saturation(speed, rows[0]["members"])
    say("calibrated: " + ", ".join(f"{key} {value:.4g}" for key, value in figures.items()))
    (home / "cluster.toml").write_text("".join(
        f'[[nodes]]\nname = "{node}"\ngpus = 4\ngpu_type = "{kind}"\n' for node, kind in (("n1", "h100"), ("n2", "a100"))) +
        "[network]\n" + "".join(f"{key} = {value}\n" for key, value in figures.items()))


def prepare(name, load, plan):
    """The training's files. A node's devices find their table by the node's name."""
    for node, factor in (("n1", 1.0), ("n2", SLOWER)):
        table = json.loads(json.dumps(load["tables"][node]))
        for row in table["rows"]:
            for key in row:
                if key.endswith("_ms"):
                    row[key] *= factor
        owned(f"device-{node}.json", json.dumps(table))
    owned("plan.json", json.dumps(plan))
    sections = {
        "model": load["model"],
        "training": {"steps": WARMUP + TIMED + 3, "global_batch": load["batch"], "micro_batches": plan["micro_batches"],
                     "learning_rate": 1e-3, "accuracy": load["accuracy"], "schedule": plan.get("schedule", "1f1b")},
        "data": {"path": str(box / "share/text")},
        "metrics": {"path": f"{name}.jsonl", "progress_every": 0},
        "profile": {"path": f"{name}-profile.jsonl"},
    }
    owned(f"{name}.toml", toml(sections))
    # The launcher asks a program for its description only where it finds these words. A table is part of what a rank
    # tells of its training, so n1, where the program is asked, must be the first to tell it again.
    owned("on-device", f"""#!/bin/bash
# espalier: describes itself
case $* in *--profile-plan* | *--describe*) ;; *) [ "$(hostname)" = n1 ] || sleep 1.5 ;; esac
exec espalier-train "$@" --set device.times={home}/device-$(hostname).json
""", 0o755)
    (home / f"{name}.jsonl").unlink(missing_ok=True)


def profiles(name, plan):
    """A file for each stage and type of GPU, and the seconds of GPUs that they took: by measuring, and with all starts."""
    last = len(plan["stages"]) - 1
    measured, files, seconds, held = {}, [], 0.0, 0.0
    for number, stage in enumerate(plan["stages"]):
        by_node = {}
        for at, replica in enumerate(stage["replicas"]):
            node = replica["gpus"][0].split("/")[0]
            if node not in by_node or replica["share"] > stage["replicas"][by_node[node]]["share"]:
                by_node[node] = at
        for node, replica in by_node.items():
            share = stage["replicas"][replica]["share"]
            key = (node, share, stage["tp"], stage["layers"], number == 0, number == last)
            if key not in measured:
                begun = time.monotonic()
                told = as_user("srun", "-N1", "-n1", "-w", node, "--gres=gpu:1", "./on-device", f"{name}.toml",
                               "--profile-plan", "plan.json", "--stage", str(number), "--replica", str(replica),
                               "--profile-warmup", str(WARMUP), "--profile-steps", str(TIMED))
                held += time.monotonic() - begun
                measured[key] = json.loads(told)
                seconds += measured[key]["device_seconds"]
            files.append(home / f"profile-{number}-{replica}.json")
            files[-1].write_text(json.dumps(measured[key] | {"stage": number, "replica": replica}))
    return files, seconds, held


def real(name, plan, gpus):
    """The median of the timed steps, and the seconds of GPUs that all steps took."""
    number = sum(gpus.values())
    per_node = max(gpus.values())
    assert all(one == per_node for one in gpus.values()), gpus
    owned(f"{name}.sh", f"#!/bin/bash\nsrun --elastic={number}:{number} ./on-device {name}.toml "
          f"--set parallel.plan=plan.json\n", 0o755)
    job = int(as_user("sbatch", "--parsable", "-J", name, "-o", f"{name}.out", f"-N{len(gpus)}", "--ntasks-per-node=1",
                      "-w", ",".join(gpus), f"--gres=gpu:{per_node}", f"{name}.sh"))
    try:
        wait_for(120, f"{name} has done its steps", lambda: len(steps(name)) >= WARMUP + TIMED or not state(job))
        done = steps(name)
        if len(done) < WARMUP + TIMED:
            raise TimeoutError(f"{name} ended after {len(done)} steps")
        if done[-1]["gpus"] != number:
            raise TimeoutError(f"{name} ran on {done[-1]['gpus']} devices")
        seconds = [one["seconds"] for one in done[:WARMUP + TIMED]]
        return statistics.median(seconds[WARMUP:]), sum(seconds) * number
    finally:
        end(job)


def loads():
    drawn = workloads.draw(seed, 4 * len(PLANS))
    for load in drawn:
        other = device_table.make(load["model"]["family"], load["model"], 1.0, seed + 1)
        block = lambda table: next(r["forward_ms"] for r in table["rows"] if (r["unit"], r["tp"], r["samples"]) == ("block", 1, 2))
        scale = block(load["table"]) / block(other)
        for row in other["rows"]:
            for key in row:
                if key.endswith("_ms"):
                    row[key] *= scale
        load["tables"] = {"n1": load["table"], "n2": other}
    return drawn


network()
pool = loads()
results = []
only = [int(word[7:]) for word in sys.argv if word.startswith("--only=")]
for number, (text, samples, schedule) in enumerate(PLANS[:count]):
    if only and number not in only:
        continue
    mixed = len({word.split("*")[1] for word in text.split()}) > 1
    load = next(one for one in pool if one["model"]["layers"] >= len(text.split()) and one["batch"] % samples == 0
                and not (mixed and one["accuracy"] == "bitwise"))
    pool.remove(load)
    name = f"plan{number}"
    plan, gpus = plan_of(text, samples, schedule, load)
    try:
        prepare(name, load, plan)
        files, profiled, held = profiles(name, plan)
        told = json.loads(subprocess.run([box / "bin/espalier", "plan", "--profiles=" + ",".join(map(str, files)),
                                          f"--cluster={home}/cluster.toml", "--json"], check=True, capture_output=True,
                                         text=True).stdout)
        predicted = told["step_ms"] / 1000
        measured, spent = real(name, plan, gpus)
        last = (home / f"{name}-profile.jsonl").read_text().splitlines()
        compare = [] if not last else [
            {"stage": one["stage"], "ms": {key: round(one[key] or 0, 2) for key in ("fwd", "comm_fwd", "bwd", "optim", "sync")},
             "peak_error_pct": round(100 * (told["stages"][one["stage"]]["peak_bytes"] / one["peak_bytes"] - 1), 2)}
            for one in json.loads(last[-1])["replicas"]]
        results.append({"plan": text, "schedule": schedule, "model": load["name"], "accuracy": load["accuracy"],
                        "gpus": sum(gpus.values()), "predicted_s": predicted, "measured_s": measured,
                        "error_pct": 100 * (predicted / measured - 1), "real_gpu_seconds": spent,
                        "profile_gpu_seconds": profiled, "profile_held_seconds": held, "profiled": told["stages"], "real": compare})
        say(f"{text} {schedule} {load['name']} {load['accuracy']}: predicted {predicted:.3f} s, measured {measured:.3f} s "
            f"({results[-1]['error_pct']:+.1f}%), GPU seconds {spent:.1f} and {profiled:.2f} ({held:.1f} with starts)")
        if "--stages" in sys.argv:
            say(json.dumps([[{key: round(value, 2) for key, value in one.items()} for one in told["stages"]], compare]))
    except (TimeoutError, subprocess.CalledProcessError) as problem:
        say(f"{text}: {problem} {getattr(problem, 'stderr', '') or ''}\n{last_lines(name)}")
        results.append({"plan": text, "problem": str(problem)})
    output.write_text(json.dumps(results))
