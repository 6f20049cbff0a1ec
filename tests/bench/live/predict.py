"""predict.py RUNS SEED OUTPUT: step times that espalierd predicts for growths, against those measured afterwards.

Each run is a training on 1 to 4 devices of n1 while plain jobs hold all others. When the planner knows the job by its own
profiles the plain jobs end, and the job grows. What counts is the first decision on measured coefficients.
"""
import json
import pathlib
import sys
import time

import device_table
import workloads
from box_jobs import (calibrate, control, decisions, end, home, last_lines, of_job, owned, plain, running, say, slurm, step_seconds, steps,
                      train, wait_for)

runs, seed, output = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
STEPS_AFTER = 12


def sections(load):
    owned("device.json", json.dumps(load["table"]))
    return {
        "model": load["model"],
        "training": {"steps": 1000000, "global_batch": load["batch"], "micro_batches": load["batch"] // 2,
                     "learning_rate": 1e-3, "accuracy": load["accuracy"]},
        "device": {"times": str(home / "device.json")},
    }


def one(load):
    name, first = load["name"], load["first_gpus"]
    others = [plain("rest", "-N1", "-n1", "-w", "n1", f"--gres=gpu:{4 - first}")] if first < 4 else []
    others.append(plain("far", "-N1", "-n1", "-w", "n2", "--gres=gpu:4"))
    wait_for(60, "the plain jobs run", lambda: all(running(job) for job in others))
    job = train(name, f"{first}:8,accuracy={load['accuracy']}", ["-N1", "-n1", "-w", "n1", f"--gres=gpu:{first}"],
                sections(load))
    try:
        wait_for(120, f"{name} trains", lambda: len(steps(name)) >= 2)
        wait_for(60, "it is held", lambda: control("hold", job))
        wait_for(180, f"{name} is measured", lambda: of_job(job).get("coefficients_settled"))
        say(f"{name}: measured after {len(steps(name))} steps on {first} devices")
        for other in others:
            slurm("scancel", str(other))
        wait_for(60, "the other devices are free", lambda: not any(running(other) for other in others))
        time.sleep(2)
        wait_for(60, "it is released", lambda: control("release", job))
        committed = wait_for(120, f"{name} changes", lambda: [
            d for d in decisions(job) if d["outcome"].startswith("committed") and d["predicted_step_seconds"] > 0
            and d["kind"] in ("grow", "migrate")])[0]
        generation = committed["generation"]
        mine = lambda: [s for s in steps(name) if s["generation"] == generation]
        wait_for(180, f"{name} does its steps", lambda: len(mine()) >= STEPS_AFTER + 3
                 or (steps(name) and steps(name)[-1]["generation"] > generation))
        done = mine()
        if len(done) < 8:
            raise TimeoutError(f"{name}: another change came after {len(done)} steps")
        measured = step_seconds(done)
        alone = device_table.device_seconds(load["table"], committed["plan"], load["model"]["layers"])
        return {"name": name, "gpus": done[-1]["gpus"], "plan": done[-1]["plan"], "accuracy": load["accuracy"],
                "predicted_s": committed["predicted_step_seconds"], "measured_s": measured,
                "error_pct": 100 * (committed["predicted_step_seconds"] / measured - 1),
                "communication_pct": 100 * (1 - alone / measured), "first_gpus": first,
                "coefficients_after": of_job(job).get("coefficients")}
    finally:
        end(job, *others)


calibrate()
results = []
for load in workloads.draw(seed, runs):
    try:
        results.append(one(load))
        last = results[-1]
        say(f"{last['name']}: {last['first_gpus']} to {last['gpus']} devices, {last['plan']}: predicted {last['predicted_s']:.3f} s, "
            f"measured {last['measured_s']:.3f} s ({last['error_pct']:+.1f}%), communication {last['communication_pct']:.0f}%")
    except TimeoutError as problem:
        say(f"{load['name']}: {problem}\n{last_lines(load['name'])}")
        results.append({"name": load["name"], "problem": str(problem)})
    output.write_text(json.dumps(results))
