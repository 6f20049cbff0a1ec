"""report.py FOLDER SURVIVORS: reads what the story left in FOLDER, prints it, and writes FOLDER/summary.json.

SURVIVORS is the number of processes found in the box's namespaces after its end. Exit status 1, with the reasons, when the
story did not keep its promises.
"""
import json
import pathlib
import sys

folder, survivors = pathlib.Path(sys.argv[1]), int(sys.argv[2])


def text(name):
    return (folder / name).read_text()


def lines(name):
    return [line for line in text(name).splitlines() if line.strip()]


def metrics(name):
    return [json.loads(line) for line in lines(f"{name}.jsonl")]


def generations(steps):
    """Consecutive steps of one generation, in the order they were done."""
    groups = []
    for step in steps:
        if not groups or groups[-1][-1]["generation"] != step["generation"]:
            groups.append([])
        groups[-1].append(step)
    return groups


def difference(steps, reference):
    """Largest relative difference of a loss to the one of the same step in the reference."""
    expected = {s["step"]: s["loss"] for s in reference}
    return max(abs(s["loss"] - expected[s["step"]]) / abs(expected[s["step"]]) for s in steps)


def table(groups, pauses):
    rows = [("steps", "GPUs", "plan", "tokens/s", "pause ms")]
    for group in groups:
        seconds = sum(s["seconds"] for s in group)
        tokens = sum(s["seconds"] * s["tokens_per_second"] for s in group)
        pause = pauses.get(group[0]["generation"])
        first, last = group[0], group[-1]
        rows.append((f"{first['step']}-{last['step']}", str(first["gpus"]), first["plan"], f"{tokens / seconds:.0f}",
                     "-" if pause is None else f"{pause:.0f}"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


total = int(text("steps"))
run, baseline, relaxed = metrics("A"), metrics("baseline"), metrics("R")
job = json.loads(text("job.json"))
decisions = json.loads(text("decisions.json"))
decisions = decisions["decisions"]
of_a = [d for d in decisions if d["outcome"].startswith("committed")]
done = [s["step"] for s in run]
lost = sorted(set(range(1, total + 1)) - set(done))
repeated = len(done) - len(set(done))
bitwise = [s["loss"] for s in run] == [s["loss"] for s in baseline] and not lost
groups = generations(run)
timeline = [line.split("\t", 1) for line in lines("timeline")]

summary = {
    "grown": sum(d["kind"] == "grow" for d in of_a),
    "shrunk": sum(d["kind"] == "shrink" for d in of_a),
    "preempted": len(lines("preempted")),
    "planner_restarts": sum("espalierd is started again" in what for _, what in timeline),
    "steps_total": len(set(done)),
    "steps_lost": len(lost),
    "steps_repeated": repeated,
    "loss_bitwise_equal": bitwise,
    "max_pause_ms": max((round(d["pause_ms"], 1) for d in of_a), default=None),
    "leaked_jobs": len(lines("leaked_jobs")),
    "leaked_processes": len(lines("leaked_processes")) + survivors,
    "relaxed_max_relative_difference": difference(relaxed, baseline),
}
(folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")

print("\nTime line (seconds):")
for at, what in timeline:
    print(f"  {at:>6}  {what}")
print("\n$ espalier show decisions\n" + text("show-decisions"))
print("$ espalier show job A -o      # before its end\n" + text("show-job"))
print("A's training:")
table(groups, {d["generation"]: d["pause_ms"] for d in of_a})
print("\nR's training, with data parallelism:")
table(generations(relaxed), {})
print(f"  largest relative difference of a loss: {summary['relaxed_max_relative_difference']:.1e}\n")
print(json.dumps(summary, indent=2))

problems = []


def demand(holds, problem):
    if not holds:
        problems.append(problem)


demand(not lost, f"{len(lost)} steps are lost, the first is {lost[0] if lost else 0}")
demand(not repeated, f"{repeated} steps were done twice")
demand(bitwise, "the losses differ from those of the run without elasticity")
demand(summary["grown"] >= 2, f"A grew {summary['grown']} times, not twice")
demand(summary["shrunk"] >= 2, f"A shrank {summary['shrunk']} times, not twice")
demand(summary["preempted"] >= 1, "Slurm preempted nothing")
demand(summary["planner_restarts"] >= 1, "espalierd was not started again")
demand("n1" in text("extension_nodes").split(), "no extension was on A's own node")
demand(summary["leaked_jobs"] == 0, "jobs were left: " + text("leaked_jobs"))
demand(summary["leaked_processes"] == 0, "left behind: " + text("leaked_processes") + f"and {survivors} processes of the box")
demand(any(" dp1 " not in s["plan"] for s in relaxed), "R did not use data parallelism")
demand(summary["relaxed_max_relative_difference"] <= 1e-5, "R's losses differ by more than 1e-5")
for problem in problems:
    print(f"espalier: demo: {problem}", file=sys.stderr)
sys.exit(1 if problems else 0)
