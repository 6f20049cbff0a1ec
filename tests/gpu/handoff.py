"""handoff.py FOLDER PROGRAM STATE_BYTES [METHOD...]: one rank trains, and a second process takes its state over on the
same GPU, by each method of handoff.method. Sums are relaxed: their gradients take a third of the memory. Prints a table,
the pauses' phases in ms, and the steps' slowdown while the next generation starts; the same goes to FOLDER/handoff.json
after each method. PROGRAM is espalier-train-cuda, or espalier-train (memory is then the node's). A pause is from the last
step's end until the next generation may train: what goes through the disk is written in it, and by checkpoint processes
start in it. Twice per method; once through the disk, which holds 21 GB of state at most (or DISK_STATE_BYTES), and must
hold them twice. All methods together have HANDOFF_SECONDS (540), each an equal share of what is left. A method fails when
its play does or trains on the processor in place of a GPU, when a step is lost or done twice, or what should be adopted
was copied; the others are played all the same. Ends with 1 then."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / os.environ.get("BUILD", "build")
METHODS = ("adopt", "device", "overlap", "checkpoint")  # of Suika's Figure 14b, the last first
THROUGH_DISK, MOST_THROUGH_DISK = ("overlap", "checkpoint"), int(os.environ.get("DISK_STATE_BYTES", 21_000_000_000))
SECONDS = int(os.environ.get("HANDOFF_SECONDS", 540))
FIRST_STEPS, ALONE = 40, 30  # the last of the first ones tell how long a step takes alone
LAYERS, HEADS, VOCABULARY = 12, 16, 256
PLAN = {"global_batch": 4, "micro_batches": 4,
        "stages": [{"layers": LAYERS, "tp": 1, "replicas": [{"share": 1, "gpus": ["a/0"]}]}]}


class Failure(Exception):
    pass


def state(hidden):
    """Bytes: parameters and both moments in float32, of about 12 h^2 parameters a layer."""
    return 12 * hidden * (12 * LAYERS * hidden + VOCABULARY)


def width(state_bytes):
    return next(hidden for hidden in range(128, 1 << 16, 128) if state(hidden) >= state_bytes)


def play(folder, program, state_bytes, method, limit):
    folder.mkdir(parents=True, exist_ok=True)
    for left in ("summary.json", "elastic.jsonl"):
        (folder / left).unlink(missing_ok=True)
    shutil.rmtree(folder / "kept", ignore_errors=True)
    (folder / "text").write_bytes(pathlib.Path(__file__).read_bytes() * 4)
    (folder / "train.toml").write_text(f"""
[model]
layers = {LAYERS}
hidden = {width(state_bytes)}
heads = {HEADS}
sequence = 64
[training]
steps = 1000000
global_batch = 4
micro_batches = 4
warmup_steps = 0
learning_rate = 1e-5
minimum_learning_rate = 1e-5
[data]
path = "text"
[handoff]
method = "{method}"
[checkpoint]
directory = "kept"
every = 0
keep = 1
[metrics]
path = "elastic.jsonl"
progress_every = 0
""")
    act = {"after": FIRST_STEPS, "plan": PLAN, "abort": None, "restart": method == "checkpoint"}
    acts = [act] if method in THROUGH_DISK else [act, act]
    (folder / "script.json").write_text(json.dumps({"first": PLAN, "acts": acts, "accuracy": "relaxed"}))
    with open(folder / "play.log", "w", encoding="utf-8") as log:
        done = subprocess.run(
            ["timeout", "-k", "5", str(limit + 5), str(ROOT / "tests/torchrt/with_munge.sh"), str(BUILD / "test/stage_director"),
             "script.json", "summary.json", "--", program, "train.toml"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False,
            env=os.environ | {"STAGE_DIRECTOR_SECONDS": str(limit), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                              "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    shutil.rmtree(folder / "kept", ignore_errors=True)
    said = (folder / "play.log").read_text(errors="replace")
    if "training on the processor" in said:
        raise Failure(f"no GPU was visible; see {folder}/play.log")
    if done.returncode != 0:
        raise Failure(f"see {folder}/play.log\n{said[-2000:]}")
    return {"method": method, "state_bytes": state(width(state_bytes)), **figures(folder, method)}


def figures(folder, method):
    acts = json.loads((folder / "summary.json").read_text())["acts"]
    lines = [json.loads(line) for line in (folder / "elastic.jsonl").read_text().splitlines()]
    if [line["step"] for line in lines] != list(range(1, len(lines) + 1)):
        raise Failure(f"a step was lost or done twice; see {folder}/elastic.jsonl")
    if method == "adopt" and any(act["bytes_copied"] or act["bytes_sent"] for act in acts):
        raise Failure(f"state was copied that should be adopted; see {folder}/summary.json")
    restarts = method == "checkpoint"
    alone = statistics.median(line["seconds"] for line in lines[FIRST_STEPS - ALONE:FIRST_STEPS])
    beside = [] if restarts else [line["seconds"] for line in lines[FIRST_STEPS:acts[0]["step"]]]
    pauses, phases = [], []
    for act in acts:
        pauses.append(act["stand_ms"] + act["pause_ms"])
        phases.append({"stand": act["stand_ms"], **({"start": act["ready_ms"]} if restarts else act["phases_ms"])})
    return {"bytes_adopted": acts[0]["bytes_adopted"], "bytes_copied": acts[0]["bytes_copied"],
            "pause_ms": statistics.mean(pauses), "pauses_ms": pauses,
            "phases_ms": {name: statistics.mean(phase[name] for phase in phases) for name in phases[0]},
            "ready_ms": statistics.mean(act["ready_ms"] for act in acts), "step_ms": alone * 1000, "steps_alone": ALONE,
            "slowdown_while_starting": statistics.mean(beside) / alone if beside else None,
            "steps_while_starting": len(beside)}


def row(one):
    slow = f"{one['slowdown_while_starting']:.2f} of {one['steps_while_starting']}" if one["steps_while_starting"] else "-"
    phases = ", ".join(f"{name} {ms:.1f}" for name, ms in one["phases_ms"].items() if ms >= 0.05)
    return (f"{one['method']:12}{one['state_bytes'] / 1e9:7.2f} GB{one['pause_ms']:9.1f} ms{one['ready_ms'] / 1000:8.1f} s"
            f"{one['step_ms']:6.0f} ms{slow:>13}  {phases}")


def main():
    folder, program, state_bytes = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3])
    methods, end = sys.argv[4:] or METHODS, time.monotonic() + SECONDS
    results, failed = [], False
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'method':12}{'state':>10}{'pause':>12}{'ready':>10}{'step':>9}{'slowdown':>13}  phases")
    for index, method in enumerate(methods):
        most = min(state_bytes, MOST_THROUGH_DISK) if method in THROUGH_DISK else state_bytes
        limit = int((end - time.monotonic()) / (len(methods) - index)) - 10  # a play that is killed takes some time, too
        try:
            results.append(play(folder / method, str(pathlib.Path(program).resolve()), most, method, limit))
            print(row(results[-1]))
        except Exception as problem:  # of whatever kind: the others may do
            failed = True
            results.append({"method": method, "failed": str(problem)})
            print(f"{method:12}FAILED: {problem}")
        (folder / "handoff.json").write_text(json.dumps(results, indent=2) + "\n")
    if state_bytes > MOST_THROUGH_DISK:
        print(f"{' and '.join(THROUGH_DISK)} go through the disk: with {MOST_THROUGH_DISK / 1e9:.0f} GB of state only")
    print(", ".join(f"{one['method']} " + ("failed" if "failed" in one else f"{one['pause_ms']:.0f} ms") for one in results))
    sys.exit(failed)


main()
