"""logs.py RUN REFERENCE: whether RUN.jsonl.logs, which Hugging Face's Trainer has logged, has every tenth step once and in order,
with the mean loss of the ten steps of REFERENCE.jsonl, and whether the newest checkpoint beside it holds the same logs."""
import glob
import json
import sys

run = sys.argv[1]
with open(f"{run}.logs", encoding="utf-8") as lines:
    logs = [one for one in map(json.loads, lines) if "loss" in one]
with open(sys.argv[2], encoding="utf-8") as lines:
    reference = {one["step"]: one["loss"] for one in map(json.loads, lines)}
problems = []
if [one["step"] for one in logs] != list(range(10, 10 * len(logs) + 1, 10)):
    problems.append(f"logged steps {[one['step'] for one in logs]}")
for one in logs:
    wanted = sum(reference[step] for step in range(one["step"] - 9, one["step"] + 1)) / 10
    if abs(one["loss"] - wanted) > 1e-5 * abs(wanted):
        problems.append(f"step {one['step']}: logged {one['loss']}, should be {wanted}")
checkpoints = sorted(glob.glob(f"{run}.files/checkpoint-*/trainer_state.json"), key=lambda name: int(name.split("-")[-1].split("/")[0]))
kept = []
if checkpoints:
    with open(checkpoints[-1], encoding="utf-8") as file:
        kept = [one["step"] for one in json.load(file)["log_history"]]
if kept != list(range(10, 10 * len(kept) + 1, 10)):
    problems.append(f"{checkpoints[-1]} has the logs of steps {kept}")
print(f"# {len(logs)} logs, {len(checkpoints)} checkpoints, the newest with {len(kept)} logs", file=sys.stderr)
print(*problems, sep="\n", end="\n" if problems else "")
sys.exit(1 if problems or not logs or not kept else 0)
