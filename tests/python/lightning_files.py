"""lightning_files.py RUN [SAVED [again]]: whether what Lightning has written of RUN.jsonl into RUN.jsonl.files is that of one training: one folder of logs,
in metrics.csv the loss of every tenth step once and the epochs counted, in RUN.jsonl.validated each validation once; and, with SAVED, a
checkpoint every SAVED steps, the newest with the counters of its step. again: steps may have been done twice, and written twice."""
import csv
import glob
import json
import os
import sys

run, saved = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
again = sys.argv[3:] == ["again"]
problems = []


def each_once(steps, every):
    """Whether they are the multiples of `every` from the first on."""
    found = sorted(set(steps)) if again else steps
    return bool(found) and found == list(range(every, every * len(found) + 1, every))


def step_of(name):
    """Lightning writes STEP-v1.ckpt where there is a STEP.ckpt."""
    return int(os.path.basename(name).split(".")[0].split("-")[0])


folders = os.listdir(f"{run}.files/lightning_logs")
if folders != ["version_0"]:
    problems.append(f"folders of logs {folders}")
with open(f"{run}.files/lightning_logs/version_0/metrics.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
# Lightning counts steps from 0.
losses = [int(row["step"]) + 1 for row in rows if row["train_loss"]]
if not each_once(losses, 10):
    problems.append(f"train_loss is logged of the steps {losses}")
epochs = [round(float(row["epochs"])) for row in rows if row.get("epochs")]
if not each_once(epochs, 1):
    problems.append(f"epochs are logged as {epochs}")
with open(f"{run}.validated", encoding="utf-8") as lines:
    validated = [one["step"] for one in map(json.loads, lines)]
if not each_once(validated, 10):
    problems.append(f"validated after the steps {validated}")
if saved:
    import torch

    files = glob.glob(f"{run}.files/lightning_logs/version_0/checkpoints/*")
    steps = sorted(map(step_of, files))
    if not each_once(steps, saved):
        problems.append(f"checkpoints {sorted(files)}")
    else:
        newest = max(files, key=step_of)
        kept = torch.load(newest, weights_only=False)
        kept_steps = kept["loops"]["fit_loop"]["epoch_loop.automatic_optimization.optim_progress"]["optimizer"]["step"]["total"]["completed"]
        moments = {int(one["step"]) for one in kept["optimizer_states"][0]["state"].values()}
        if (kept["global_step"], kept_steps, moments) != (steps[-1], steps[-1], {steps[-1]}):
            problems.append(f"{newest} is of step {kept['global_step']}, {kept_steps}, {moments}")
    print(f"# {len(steps)} checkpoints", file=sys.stderr)
print(f"# {len(losses)} logs, {len(epochs)} epochs, {len(validated)} validations", file=sys.stderr)
print(*problems, sep="\n", end="\n" if problems else "")
sys.exit(1 if problems else 0)
