"""handoff.py FOLDER PROGRAM STATE_BYTES [METHOD...]: one rank trains, and a second process takes its state over on the
same GPU, twice for each method of handoff.method. Prints a table, the pauses' phases in ms, and the steps' slowdown while
the next generation starts; the same goes to FOLDER/handoff.json. PROGRAM is espalier-train-cuda, or espalier-train (memory
is then the node's). What goes through the disk has at most 4 GB of state, three times which the disk must hold. Ends with 1
when a play fails or trains on the processor in place of a GPU, a step is lost or done twice, or what should be adopted was
copied."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / os.environ.get("BUILD", "build")
METHODS = ("adopt", "device", "overlap", "checkpoint")  # of Suika's Figure 14b, the last first
THROUGH_DISK, MOST_THROUGH_DISK = ("overlap", "checkpoint"), 4_000_000_000
LIMIT_S = 500  # of a play
FIRST_STEPS, LAYERS, HEADS, VOCABULARY = 6, 12, 16, 256
PLAN = {"global_batch": 4, "micro_batches": 4,
        "stages": [{"layers": LAYERS, "tp": 1, "replicas": [{"share": 1, "gpus": ["a/0"]}]}]}


def state(hidden):
    """Bytes: parameters and both moments in float32, of about 12 h^2 parameters a layer."""
    return 12 * hidden * (12 * LAYERS * hidden + VOCABULARY)


def width(state_bytes):
    return next(hidden for hidden in range(128, 1 << 16, 128) if state(hidden) >= state_bytes)


def play(folder, program, state_bytes, method):
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
    act = {"after": FIRST_STEPS, "plan": PLAN, "abort": None}
    (folder / "script.json").write_text(json.dumps({"first": PLAN, "acts": [act, act]}))
    with open(folder / "play.log", "w", encoding="utf-8") as log:
        done = subprocess.run(
            ["timeout", "-k", "5", str(LIMIT_S + 10), str(ROOT / "tests/torchrt/with_munge.sh"), str(BUILD / "test/stage_director"),
             "script.json", "summary.json", "--", program, "train.toml"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False,
            env=os.environ | {"STAGE_DIRECTOR_SECONDS": str(LIMIT_S), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                              "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    shutil.rmtree(folder / "kept", ignore_errors=True)
    if "training on the processor" in (folder / "play.log").read_text(errors="replace"):
        sys.exit(f"handoff.py: no GPU was visible in the play of {method}; see {folder}/play.log")
    if done.returncode != 0:
        sys.exit(f"handoff.py: the play of {method} failed; see {folder}/play.log\n" + (folder / "play.log").read_text()[-2000:])
    return {"method": method, "state_bytes": state(width(state_bytes)), **figures(folder, method)}


def figures(folder, method):
    acts = json.loads((folder / "summary.json").read_text())["acts"]
    lines = [json.loads(line) for line in (folder / "elastic.jsonl").read_text().splitlines()]
    if [line["step"] for line in lines] != list(range(1, len(lines) + 1)):
        sys.exit(f"handoff.py: {method}: a step was lost or done twice; see {folder}/elastic.jsonl")
    if method == "adopt" and any(act["bytes_copied"] or act["bytes_sent"] for act in acts):
        sys.exit(f"handoff.py: state was copied that should be adopted; see {folder}/summary.json")
    alone = statistics.median(line["seconds"] for line in lines[2:FIRST_STEPS])
    beside = [line["seconds"] for line in lines[FIRST_STEPS:acts[0]["step"]]]
    return {"bytes_adopted": acts[0]["bytes_adopted"], "bytes_copied": acts[0]["bytes_copied"],
            "pause_ms": statistics.mean(act["pause_ms"] for act in acts), "pauses_ms": [act["pause_ms"] for act in acts],
            "phases_ms": {name: statistics.mean(act["phases_ms"][name] for act in acts) for name in acts[0]["phases_ms"]},
            "ready_ms": statistics.mean(act["ready_ms"] for act in acts), "step_ms": alone * 1000,
            "slowdown_while_starting": statistics.mean(beside) / alone if beside else None}


def main():
    folder, program, state_bytes = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3])
    results = []
    print(f"{'method':12}{'state':>10}{'pause':>12}{'ready':>10}{'step':>9}{'slowdown':>10}  phases")
    for method in sys.argv[4:] or METHODS:
        most = min(state_bytes, MOST_THROUGH_DISK) if method in THROUGH_DISK else state_bytes
        one = play(folder / method, str(pathlib.Path(program).resolve()), most, method)
        results.append(one)
        slow = f"{one['slowdown_while_starting']:.2f}" if one["slowdown_while_starting"] else "-"
        phases = ", ".join(f"{name} {ms:.1f}" for name, ms in one["phases_ms"].items() if ms >= 0.05)
        print(f"{method:12}{one['state_bytes'] / 1e9:7.2f} GB{one['pause_ms']:9.1f} ms{one['ready_ms'] / 1000:8.1f} s"
              f"{one['step_ms']:6.0f} ms{slow:>10}  {phases}", flush=True)
    if state_bytes > MOST_THROUGH_DISK:
        print(f"{' and '.join(THROUGH_DISK)} go through the disk: with {MOST_THROUGH_DISK / 1e9:.0f} GB of state only")
    (folder / "handoff.json").write_text(json.dumps(results, indent=2) + "\n")
    print(", ".join(f"{one['method']} {one['pause_ms']:.0f} ms" for one in results))


main()
