"""run.py [BUILD]: what snapshots in memory (recovery.snapshot_steps) cost a training on CPU. A pipeline of two ranks, as if on two
nodes, a state of some 100 MB each: wall time of a step without snapshots, with one every tenth step and one every step, in turn,
three rounds; medians. Prints one JSON object. Needs root (a private munged).
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

repository = pathlib.Path(__file__).resolve().parents[3]
build = (repository / (sys.argv[1] if len(sys.argv) > 1 else "build")).resolve()
ROUNDS, FIRST, STEPS = 3, 5, 20  # the steps from FIRST on are measured
LIMIT = 300  # seconds for one play
CONFIG = """[model]
layers = 8
hidden = 512
heads = 8
sequence = 32
[training]
global_batch = 8
micro_batches = 4
[data]
path = "text"
[metrics]
progress_every = 0
"""


def plan():
    stages = [{"layers": 4, "tp": 1, "replicas": [{"share": 2, "gpus": [f"{node}/0"]}]} for node in "ab"]
    return {"global_batch": 8, "micro_batches": 4, "stages": stages}


def lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def step_ms(folder, every):
    """Wall time of a step, in ms."""
    metrics = folder / "steps.jsonl"
    metrics.unlink(missing_ok=True)
    with open(folder / "play.log", "w") as log:
        play = subprocess.Popen(
            [repository / "tests/torchrt/with_munge.sh", build / "test/stage_director", "script.json", "summary.json", "--",
             build / "bin/espalier-train", "config.toml", "--steps", str(STEPS), "--metrics", metrics, "--set",
             f"recovery.snapshot_steps={every}"],
            cwd=folder, env=os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
    seen, deadline = {}, time.monotonic() + LIMIT
    try:
        while play.poll() is None and time.monotonic() < deadline:
            seen.setdefault(lines(metrics), time.monotonic())
            time.sleep(0.002)
    finally:
        play.kill()  # and with it all of its namespace
    if play.wait() != 0:
        sys.exit(f"snapshots: the play failed, or took more than {LIMIT} s:\n{(folder / 'play.log').read_text()}")
    moments = sorted((count, at) for count, at in seen.items() if FIRST <= count <= STEPS)
    (first, begin), (last, end) = moments[0], moments[-1]
    return 1000 * (end - begin) / (last - first)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "text").write_text("".join(path.read_text() for path in sorted((repository / "torchrt").glob("*.cpp"))))
    (folder / "config.toml").write_text(CONFIG)
    (folder / "script.json").write_text(json.dumps({"first": plan(), "acts": []}))
    figures = {every: [] for every in (0, 10, 1)}
    for _ in range(ROUNDS):
        for every in figures:
            figures[every].append(step_ms(folder, every))
none = statistics.median(figures[0])
print(json.dumps({"step_ms": {str(every): round(statistics.median(ms), 1) for every, ms in figures.items()},
                  "slowdown_every_10": round(statistics.median(figures[10]) / none - 1, 4),
                  "slowdown_every_1": round(statistics.median(figures[1]) / none - 1, 4),
                  "all_ms": {str(every): [round(one, 1) for one in ms] for every, ms in figures.items()}}))
