"""plans.py CASES SEED OUTPUT: the plan that a job trains on after the planner has measured it, against all uniform plans.

Each case is a training on 4 to 8 devices. First it runs with the planner's choice, after its trials of other plans. Then every uniform plan (stages x
replicas x tensor-parallel degree x micro-batches) of as many devices runs for some steps, on the same devices. The three best
are measured again in turn with the chosen one.
"""
import json
import pathlib
import statistics
import sys

import workloads
from box_jobs import calibrate, end, home, last_lines, of_job, owned, say, state, step_seconds, steps, train, wait_for

cases, seed, output = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
STEPS = 8


def uniform(layers, heads, batch, devices, accuracy):
    for pp in range(1, min(devices, layers) + 1):
        for tp in (1, 2, 4, 8):
            if devices % (pp * tp) or heads % tp or (accuracy == "bitwise" and tp > 1):
                continue
            dp = devices // (pp * tp)
            for micro_batches in range(1, batch + 1):
                if batch % micro_batches == 0 and (batch // micro_batches) % dp == 0:
                    yield {"pp": pp, "dp": dp, "tp": tp, "micro_batches": micro_batches}


def submit(load, devices, parallel):
    owned("device.json", json.dumps(load["table"]))
    options = ["-N1", "-n1", "-w", "n1", "--gres=gpu:4"] if devices == 4 else \
        ["-N2", "--ntasks-per-node=1", f"--gres=gpu:{devices // 2}"]
    name = load["name"]
    sections = {
        "model": load["model"],
        "training": {"steps": 1000000, "global_batch": load["batch"], "micro_batches": load["batch"] // 2,
                     "learning_rate": 1e-3, "accuracy": load["accuracy"]},
        "device": {"times": str(home / "device.json")},
    }
    if parallel:
        sections["parallel"] = parallel
    return train(name, f"{devices}:{devices},accuracy={load['accuracy']}", options, sections)


def fixed(load, devices, parallel):
    """Median step of a plan; None where it does not fit the training, or is too slow."""
    job = submit(load, devices, parallel)
    try:
        wait_for(90, f"{parallel} has done its steps", lambda: len(steps(load["name"])) >= STEPS or not state(job))
        done = steps(load["name"])
        return step_seconds(done) if len(done) >= STEPS else None
    except TimeoutError:
        return None
    finally:
        end(job)


def chosen(load, devices):
    job = submit(load, devices, None)
    name = load["name"]
    try:
        wait_for(180, f"{name} is measured", lambda: of_job(job).get("coefficients_settled"))
        wait_for(400, f"the trials of {name} are over", lambda: of_job(job).get("plan_trials", {}).get("over"))
        at = len(steps(name))
        wait_for(180, f"{name} is at rest", lambda: len(steps(name)) >= at + 10 and settled(name))
        last = [s for s in steps(name) if s["generation"] == steps(name)[-1]["generation"]]
        return last[-1]["plan"], step_seconds(last), of_job(job)["plan"]
    finally:
        end(job)


def settled(name):
    last = steps(name)[-1]["generation"]
    return sum(s["generation"] == last for s in steps(name)) >= STEPS + 4


calibrate()
results = []
for number, load in enumerate(workloads.draw(seed, cases)):
    devices = (4, 6, 8)[number % 3]
    try:
        told, seconds, plan = chosen(load, devices)
        owned("chosen.json", json.dumps(plan))
        measured = []
        for parallel in uniform(load["model"]["layers"], load["model"]["heads"], load["batch"], devices, load["accuracy"]):
            took = fixed(load, devices, parallel)
            if took:
                measured.append((took, parallel))
        measured.sort(key=lambda one: one[0])
        if not measured:
            raise TimeoutError("no uniform plan did its steps")
        again = {i: [took] for i, (took, _) in enumerate(measured[:3])}
        own = [seconds]
        for _ in range(2):
            own.append(fixed(load, devices, {"plan": str(home / "chosen.json")}) or seconds)
            for i in again:
                again[i].append(fixed(load, devices, measured[i][1]) or measured[i][0])
        best = min(statistics.median(times) for times in again.values())
        ratio = min(1.0, best / statistics.median(own))
        results.append({"name": load["name"], "devices": devices, "chosen": told, "ratio": ratio, "plans": len(measured),
                        "worst_over_best": measured[0][0] / measured[-1][0]})
        say(f"{load['name']} on {devices} devices: chosen {told}, {ratio:.3f} of the best of {len(measured)} "
            f"({measured[0][1]}); the worst reaches {results[-1]['worst_over_best']:.2f} of it")
    except TimeoutError as problem:
        say(f"{load['name']}: {problem}\n{last_lines(load['name'])}")
        results.append({"name": load["name"], "problem": str(problem)})
    output.write_text(json.dumps(results))
