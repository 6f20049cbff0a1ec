"""`make bench-schedules`: pipeline schedules in real runs against what the planner's model says of them, into
build/bench/schedules.json, which is written after every run. With an argument only the parts it names (of time, memory,
comma-separated); the others keep what the file says.

time: eight ranks on paced devices (pace.hpp). One run of 1F1B is profiled; from it the model predicts the step time of every
schedule, which is then measured. A schedule that `espalier schedule --search` finds for the same measured times and 1F1B's
memory runs as well.
memory: four ranks at full speed. From a profile of 1F1B's memory the model predicts the peak of every rank of every schedule
and chunking.
"""
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from espalier import BUILD, Run, models, plan, ranks  # noqa: E402
from ratio import random_tokens  # noqa: E402

FOLDER = f"{BUILD}/bench/schedules"
PATH = f"{BUILD}/bench/schedules.json"
# The wide vocabulary of a real model would make the head longer than a stage: nothing could balance that.
TIME_MODEL = {"family": "gpt2", "layers": 32, "hidden": 32, "heads": 4, "sequence": 32, "vocabulary": 256}
TIME_RANKS, TIME_BATCH = 8, 16
PACE_GFLOPS = float(os.environ.get("BENCH_GFLOPS", "0.1"))
MEMORY_MODEL = {"family": "gpt2", "layers": 16, "hidden": 128, "heads": 4, "sequence": 128, "vocabulary": 512}
MEMORY_RANKS, MEMORY_BATCH = 4, 16
STEPS = int(os.environ.get("BENCH_STEPS", "20"))

# name -> chunks of a stage
# The first is the one that is profiled: its error does not count.
TIMED = [("1f1b", 1), ("gpipe", 1), ("gpipe", 2), ("gpipe", 4), ("interleaved", 2), ("interleaved", 4), ("zb-h1", 1),
         ("zb-h2", 1), ("zb-v", 2), ("v-half", 2), ("v-min", 2)]
REMEMBERED = [(name, chunks, batches) for batches in (4, 8, 16)
              for name, chunks in (("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("interleaved", 4), ("zb-h1", 1), ("zb-h2", 1),
                                   ("zb-v", 2), ("v-half", 2), ("v-min", 2), ("memory-min", 2))]


def stages_of(model, count, global_batch, micro_batches):
    layers = model["layers"] // count
    return plan([(layers, 1, [global_batch // micro_batches])] * count, global_batch, micro_batches)


def cut(one, name, chunks):
    """The plan with the schedule's chunks, as the trainer cuts it (planner/core/pipeline_form.cpp)."""
    one = json.loads(json.dumps(one))
    count = len(one["stages"])
    one["schedule"] = name
    if chunks == 1:
        return one
    back = name in ("zb-v", "v-half", "v-min")
    layers = one["stages"][0]["layers"] // chunks
    held_by = [s if not (back and leg % 2) else count - 1 - s for leg in range(chunks) for s in range(count)]
    one["chunks"] = [{"stage": s, "layers": layers} for s in held_by]
    return one


def config(model, data, one, name, chunks, steps, every, gflops=0.0):
    result = {"model": model,
              "training": {"steps": steps, "global_batch": one["global_batch"], "micro_batches": one["micro_batches"],
                           "learning_rate": 1e-4, "accuracy": "relaxed", "threads": 1, "schedule": name},
              "data": {"path": data}, "profile": {"every": every}}
    if chunks > 1:
        result["parallel"] = {"chunks": chunks}
    if gflops:
        result["device"] = {"gflops": gflops}
    return result


def tokens(vocabulary):
    os.makedirs(FOLDER, exist_ok=True)
    data = os.path.abspath(f"{FOLDER}/tokens-{vocabulary}.bin")
    random_tokens(data, 300_000, vocabulary)
    return data


def predict(folder, profile, plans):
    with open(f"{folder}/profile.json", "w") as out:
        json.dump(profile, out)
    with open(f"{folder}/plans.json", "w") as out:
        json.dump([{"plan": one} for one in plans], out)
    return models("predict", "--profile", f"{folder}/profile.json", "--plans", f"{folder}/plans.json",
                  "--tp-bandwidth", 1e9, "--dp-bandwidth", 1e9)


def searched(profile, one):
    """The lists that the search finds for the measured times of a layer, two chunks in a V, and 1F1B's memory."""
    count, chunks = len(one["stages"]), 2
    inner = next(r for r in profile["replicas"] if r["stage"] == 1)
    first, last = (next(r for r in profile["replicas"] if r["stage"] == s) for s in (0, count - 1))
    half = 1 / chunks

    def of(replica, key, edge):
        # The edges' own time belongs to the model's first and last chunk.
        return inner[key] * half + (replica[key] - inner[key] if edge else 0)

    def listed(get):
        values = []
        for chunk in range(chunks * count):
            replica = first if chunk == 0 else last if chunk == chunks * count - 1 else inner
            values.append(max(1e-6, get(replica, replica is not inner)))
        return ",".join(f"{value:.6f}" for value in values)

    def schedule(*options):
        command = [f"{BUILD}/bin/espalier", "schedule", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")

    # A V to start from: the trainer's chunks lie as those of the file do. A rank's activations of a micro-batch are 1, so
    # that 1F1B's fullest rank has as many as there are ranks.
    zb_v, csv = (os.path.abspath(f"{FOLDER}/{name}.csv") for name in ("zb-v", "searched"))
    schedule("--ranks", str(count), "--micro-batches", str(one["micro_batches"]), "--kind", "zb-v", "--csv", zb_v)
    schedule("--file", zb_v, "--search", "--csv", csv, "--activation", "1", "--memory", str(count),
             "--forward", listed(lambda r, e: of(r, "fwd", e)),
             "--backward-weight", listed(lambda r, e: of(r, "bwd_weights", e)),
             "--backward-input", listed(lambda r, e: of(r, "bwd", e) - of(r, "bwd_weights", e)))
    return csv


def times(save):
    folder = f"{FOLDER}/time"
    os.makedirs(folder, exist_ok=True)
    data = tokens(TIME_MODEL["vocabulary"])
    one = stages_of(TIME_MODEL, TIME_RANKS, TIME_BATCH, TIME_BATCH)
    warm = 4
    run = Run(f"{folder}/profiled", config(TIME_MODEL, data, one, "1f1b", 1, 12, 4, PACE_GFLOPS), one)
    profile = run.profiles[-1]
    said = predict(folder, profile, [cut(one, name, chunks) for name, chunks in TIMED])
    rows = []
    load = os.getloadavg()[0]

    def figures(**more):
        errors = [row["error_pct"] for row in rows[1:]]
        return {"rows": rows, "time_error_max_pct": max(errors, default=None), "gflops": PACE_GFLOPS, "model": TIME_MODEL,
                "ranks": TIME_RANKS, "micro_batches": TIME_BATCH, "load": [load, os.getloadavg()[0]], **more}

    for (name, chunks), prediction in zip(TIMED, said["plans"]):
        run = Run(f"{folder}/run", config(TIME_MODEL, data, one, name, chunks, STEPS + warm, 0, PACE_GFLOPS), one)
        took = statistics.median(run.seconds[warm - 2:])
        rows.append({"schedule": name, "chunks": chunks, "measured_s": took, "predicted_s": prediction["exact_ms"] / 1000,
                     "error_pct": abs(prediction["exact_ms"] / 1000 / took - 1) * 100, "steps": len(run.seconds),
                     "cpu_share_pct": 100 * run.cpu_seconds / (sum(run.seconds) * ranks(one))})
        print(f"  {name:12} {chunks} chunks: {took:.3f} s a step, predicted {rows[-1]['predicted_s']:.3f} s", flush=True)
        save(figures())
    csv = searched(profile, one)
    settings = config(TIME_MODEL, data, one, "zb-v", 2, STEPS + warm, 0, PACE_GFLOPS)
    run = Run(f"{folder}/run", settings, one, options=["--schedule", csv])
    took = statistics.median(run.seconds[warm - 2:])
    base = rows[0]["measured_s"]
    print(f"  searched     2 chunks: {took:.3f} s a step, {base / took:.3f} times 1F1B's throughput")
    save(figures(searched_s=took, throughput_over_1f1b=base / took))


def memory(save):
    folder = f"{FOLDER}/memory"
    os.makedirs(folder, exist_ok=True)
    data = tokens(MEMORY_MODEL["vocabulary"])

    def stages(micro_batches):
        return stages_of(MEMORY_MODEL, MEMORY_RANKS, MEMORY_BATCH, micro_batches)

    def peaks(name, chunks, micro_batches):
        one = stages(micro_batches)
        run = Run(f"{folder}/run", config(MEMORY_MODEL, data, one, name, chunks, 5, 4), one)
        return run.profiles[-1], [replica["peak_bytes"] for replica in run.profiles[-1]["replicas"]]

    profile, _ = peaks("1f1b", 1, 8)
    said = predict(folder, profile, [cut(stages(batches), name, chunks) for name, chunks, batches in REMEMBERED])
    rows = []
    for (name, chunks, batches), prediction in zip(REMEMBERED, said["plans"]):
        _, measured = peaks(name, chunks, batches)
        predicted = [stage["peak_bytes"] for stage in prediction["stages"]]
        errors = [abs(a / b - 1) * 100 for a, b in zip(predicted, measured)]
        rows.append({"schedule": name, "chunks": chunks, "micro_batches": batches,
                     "measured_mb": [b / 1e6 for b in measured], "predicted_mb": [a / 1e6 for a in predicted],
                     "largest_error_pct": abs(max(predicted) / max(measured) - 1) * 100,
                     "error_pct": statistics.mean(errors)})
        print(f"  {name:12} {chunks} chunks, {batches:2} micro-batches: largest peak {max(measured) / 1e6:.2f} MB, predicted "
              f"{max(predicted) / 1e6:.2f} MB; ranks' mean error {rows[-1]['error_pct']:.1f}%", flush=True)
        save({"rows": rows, "memory_error_mean_pct": statistics.mean(row["error_pct"] for row in rows),
              "largest_peak_error_mean_pct": statistics.mean(row["largest_error_pct"] for row in rows),
              "calibrated_from": "1f1b, 8 micro-batches", "model": MEMORY_MODEL, "ranks": MEMORY_RANKS})


def main():
    parts = sys.argv[1].split(",") if len(sys.argv) > 1 else ["time", "memory"]
    os.makedirs(FOLDER, exist_ok=True)
    result = {"time_error_max_pct": None, "memory_error_mean_pct": None, "throughput_over_1f1b": None}
    if os.path.exists(PATH):
        before = json.load(open(PATH))
        result.update({key: value for key, value in before.items() if key not in parts})
    for part in parts:  # what is measured anew
        for key in ["memory_error_mean_pct"] if part == "memory" else ["time_error_max_pct", "throughput_over_1f1b"]:
            result[key] = None

    def save(part, figures):
        result[part] = figures
        result.update({key: figures[key] for key in figures if key in result and not isinstance(figures[key], dict)})
        with open(PATH + ".tmp", "w") as out:
            json.dump(result, out, indent=1)
        os.replace(PATH + ".tmp", PATH)

    if "time" in parts:
        print("step times on paced devices")
        times(lambda figures: save("time", figures))
    if "memory" in parts:
        print("peak memory")
        memory(lambda figures: save("memory", figures))
    for key, value in result.items():
        if not isinstance(value, dict):
            print(f"{key:24} {value if value is None else format(value, '.4g')}")


main()
