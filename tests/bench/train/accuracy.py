"""The performance model against this machine: calibrated from one measured plan, it predicts the others."""
import json
import os
import statistics

from espalier import Run, models, plan

GLOBAL_BATCH = 16
LAYERS = 8
MODEL = {"family": "gpt2", "layers": LAYERS, "hidden": 256, "heads": 8, "sequence": 64, "vocabulary": 2048}


def plans():
    """name -> (plan, options). At most two ranks."""
    def one(micro_batches, *stages):
        return plan(stages, GLOBAL_BATCH, micro_batches)

    def share(micro_batches):
        return GLOBAL_BATCH // micro_batches

    result = {}
    for n in (2, 4, 8):
        result[f"1 rank, {n} micro-batches"] = (one(n, (LAYERS, 1, [share(n)])), {})
    for n, front in ((2, 4), (4, 4), (8, 4), (4, 5), (4, 3), (8, 6)):
        result[f"stages {front}+{LAYERS - front}, {n} micro-batches"] = (
            one(n, (front, 1, [share(n)]), (LAYERS - front, 1, [share(n)])), {})
    for n, shares in ((2, (4, 4)), (4, (2, 2)), (4, (3, 1)), (8, (1, 1))):
        result[f"replicas {shares[0]}+{shares[1]}, {n} micro-batches"] = (one(n, (LAYERS, 1, list(shares))), {})
    for n in (2, 4):
        result[f"tensor-parallel, {n} micro-batches"] = (one(n, (LAYERS, 2, [share(n)])), {})
    result["1 rank, recomputed, 4 micro-batches"] = (one(4, (LAYERS, 1, [4])), {"recompute": True})
    result["stages 4+4, recomputed, 4 micro-batches"] = (one(4, (4, 1, [4]), (4, 1, [4])), {"recompute": True})
    result["replicas 2+2, ZeRO-1, 4 micro-batches"] = (one(4, (LAYERS, 1, [2, 2])), {"zero1": True})
    return result


CALIBRATION = "replicas 2+2, 4 micro-batches"


def bandwidths(profiles):
    """Bytes/ms of sums between two ranks of this machine: as a site would measure it, once for all plans. A sum also waits for
    the slower rank, so the quickest that was seen counts.
    """
    tensor, replicas = "tensor-parallel, 4 micro-batches", CALIBRATION
    # Forward sums of a micro-batch: two a layer, each of the boundary's size; a ring of two sends it once.
    activations = 2 * LAYERS * MODEL["sequence"] * MODEL["hidden"] * 4 * profiles[tensor][0]["plan"]["stages"][0]["replicas"][0]["share"]
    one = profiles[replicas][0]["replicas"][0]
    return {"tp": activations / min(p["replicas"][0]["comm_fwd"] for p in profiles[tensor]),
            "dp": (one["gradient_bytes"] + one["edge_gradient_bytes"]) / min(p["replicas"][0]["sync"] for p in profiles[replicas])}


def typical(profiles):
    """The newest profile with the median of each time, as the planner averages over several before it believes them."""
    result = profiles[-1]
    for i, replica in enumerate(result["replicas"]):
        for key in ("fwd", "comm_fwd", "bwd", "optim", "sync"):
            if replica[key] is not None:
                replica[key] = statistics.median(p["replicas"][i][key] for p in profiles)
    return result


def measure(folder, rounds, steps, log=print):
    """Every plan runs in every round; its time is the median over all steps."""
    os.makedirs(folder, exist_ok=True)
    from ratio import random_tokens
    data = os.path.abspath(f"{folder}/tokens.bin")
    random_tokens(data, 300_000, MODEL["vocabulary"])
    seconds, profiles = {}, {}
    for index in range(rounds):
        for name, (one, options) in plans().items():
            config = {"model": MODEL,
                      "training": {"steps": steps, "global_batch": GLOBAL_BATCH, "micro_batches": one["micro_batches"],
                                   "learning_rate": 1e-4, "accuracy": "relaxed", "threads": 1, **options},
                      "data": {"path": data}, "profile": {"every": 4}}
            run = Run(f"{folder}/run", config, one)
            seconds.setdefault(name, []).extend(run.seconds)
            profiles.setdefault(name, []).extend(run.profiles)
        log(f"  round {index + 1} of {rounds}: {len(plans())} plans")

    with open(f"{folder}/profile.json", "w") as out:
        json.dump(typical(profiles[CALIBRATION]), out)
    with open(f"{folder}/plans.json", "w") as out:
        json.dump([{"plan": one, **options} for one, options in plans().values()], out)
    speed = bandwidths(profiles)
    predicted = models("predict", "--profile", f"{folder}/profile.json", "--plans", f"{folder}/plans.json",
                       "--tp-bandwidth", speed["tp"], "--dp-bandwidth", speed["dp"])
    rows = []
    for (name, (one, options)), said in zip(plans().items(), predicted["plans"]):
        peaks = {}  # by stage
        for replica in profiles[name][-1]["replicas"]:
            peaks[replica["stage"]] = max(peaks.get(replica["stage"], 0), replica["peak_bytes"])
        took = statistics.median(seconds[name]) * 1000
        memory = [(stage["peak_bytes"], peaks[i]) for i, stage in enumerate(said["stages"])]
        rows.append({"plan": name, "calibration": name == CALIBRATION,
                     "measured_ms": took, "predicted_ms": said["exact_ms"], "printed_ms": said["printed_ms"],
                     "time_error_pct": abs(said["exact_ms"] / took - 1) * 100,
                     "measured_peak_mb": [b / 1e6 for _, b in memory], "predicted_peak_mb": [a / 1e6 for a, _ in memory],
                     "memory_error_pct": max(abs(a / b - 1) * 100 for a, b in memory)})
    others = [row for row in rows if not row["calibration"]]

    def summary(key):
        values = sorted(row[key] for row in others)
        return {"mean": statistics.mean(values), "median": statistics.median(values), "max": values[-1]}

    return {"plans": rows, "calibrated_from": CALIBRATION, "coefficients": predicted["coefficients"],
            "remarks": predicted["remarks"], "bandwidth_bytes_per_ms": speed,
            "time_error_pct": summary("time_error_pct"), "memory_error_pct": summary("memory_error_pct")}
