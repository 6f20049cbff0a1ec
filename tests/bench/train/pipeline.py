"""A pipeline of two: its bubble against its schedule's own, and what measuring costs."""
import os
import statistics

from espalier import Run, WARM_UP, models, plan
from ratio import random_tokens

MODEL = {"family": "gpt2", "layers": 8, "hidden": 256, "heads": 8, "sequence": 128, "vocabulary": 2048}
GLOBAL_BATCH, MICRO_BATCHES = 16, 8


def config(data, steps, every):
    return {"model": MODEL,
            "training": {"steps": steps, "global_batch": GLOBAL_BATCH, "micro_batches": MICRO_BATCHES,
                         "learning_rate": 1e-4, "accuracy": "relaxed", "threads": 1},
            "data": {"path": data}, "profile": {"every": every}}


def tokens(folder):
    os.makedirs(folder, exist_ok=True)
    data = os.path.abspath(f"{folder}/tokens.bin")
    random_tokens(data, 300_000, MODEL["vocabulary"])
    return data


def bubble(folder, steps):
    share = GLOBAL_BATCH // MICRO_BATCHES
    one = plan([(4, 1, [share]), (4, 1, [share])], GLOBAL_BATCH, MICRO_BATCHES)
    run = Run(f"{folder}/run", config(tokens(folder), steps, 4), one, trace=True)
    said = models("bubble", "--plan", f"{run.folder}/plan.json", "--trace", f"{run.folder}/trace",
                  "--tied-rows", MODEL["vocabulary"])
    return {**said, "step_seconds": run.median()}


def overhead(folder, steps):
    """Of every eight steps four are measured, in turn: their times against the others' of the same run."""
    every, window = 8, 4
    share = GLOBAL_BATCH // MICRO_BATCHES
    one = plan([(8, 1, [share])], GLOBAL_BATCH, MICRO_BATCHES)
    run = Run(f"{folder}/run", config(tokens(folder), steps, every), one)
    measured, others = [], []
    for line in run.lines[max(every, WARM_UP):]:
        (measured if (line["step"] - 1) % every >= every - window else others).append(line["seconds"])
    of_measured = (statistics.median(measured) / statistics.median(others) - 1) * 100
    return {"of_measured_steps_pct": of_measured, "steps": len(run.lines), "step_seconds": run.median()}
