"""losses.py RUN REFERENCE [BATCH [FIGURES]]: whether RUN.jsonl has every step from 1 on, with REFERENCE.jsonl's losses within 1e-12 of
them, and whether RUN.jsonl.samples has every sample of every step once. Of a step that was done again after a loss the last
one counts. Prints the largest difference; exit status 1 when something is wrong."""
import json
import sys


def read(name):
    with open(name, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


run, reference = read(sys.argv[1]), {one["step"]: one["loss"] for one in read(sys.argv[2])}
batch = int(sys.argv[3]) if len(sys.argv) > 3 else 24
last = {one["step"]: one for one in run}
problems = [] if run else ["no step was done"]
missing = [step for step in range(1, max(last, default=0) + 1) if step not in last]
if missing:
    problems.append(f"steps {missing[:5]} are missing")
differences = [abs(one["loss"] - reference[step]) / abs(reference[step]) for step, one in last.items() if step in reference]
if not differences:
    problems.append("no step can be compared")
elif max(differences) > 1e-12:
    problems.append(f"losses differ by up to {max(differences):.2e}")
# Of each step the newest generation that finished it counts.
samples, wrong = {}, 0
with open(sys.argv[1] + ".samples", encoding="utf-8") as lines:
    for line in lines:
        if not line.endswith("\n"):
            continue
        generation, step, first, end = map(int, line.split())
        samples.setdefault(step, {}).setdefault(generation, []).append((first, end))
for step in last:
    used = sorted(samples.get(step, {}).get(last[step]["generation"], []))
    at = (step - 1) * batch
    for first, end in used:
        if first != at:
            break
        at = end
    if at != step * batch and step != max(last):  # of the newest step others may not have written theirs yet
        if not wrong:
            problems.append(f"step {step}: the samples used are {used}")
        wrong += 1
print(f"# {len(last)} steps, {len(differences)} compared, largest relative difference {max(differences, default=0):.1e}, "
      f"{len(run) - len(last)} done again, worlds {sorted({one['gpus'] for one in run})}", file=sys.stderr)
if len(sys.argv) > 4:
    with open(sys.argv[4], "w", encoding="utf-8") as file:
        json.dump({"steps": len(last), "compared": len(differences), "steps_lost": len(missing), "steps_with_wrong_samples": wrong,
                   "max_relative_difference": max(differences, default=None)}, file)
print(*problems, sep="\n", end="\n" if problems else "")
sys.exit(1 if problems else 0)
