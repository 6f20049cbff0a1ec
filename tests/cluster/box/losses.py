"""losses.py RUN REFERENCE [STEPS]: whether RUN.jsonl did each step once, in order, with REFERENCE.jsonl's losses bit for bit.

Steps beyond the reference's end are only counted. With STEPS, the run must have done exactly that many. Prints what is wrong;
exit status 1 then.
"""
import json
import sys


def read(name):
    with open(name, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


run, reference = read(sys.argv[1]), {s["step"]: s["loss"] for s in read(sys.argv[2])}
problems = [] if run else ["no step was done"]
for position, record in enumerate(run, start=1):
    if record["step"] != position:
        problems.append(f"line {position} is step {record['step']}")
        break
    expected = reference.get(position, record["loss"])
    if record["loss"] != expected:
        problems.append(f"step {position}: loss {record['loss']!r}, reference {expected!r}")
        break
if len(sys.argv) > 3 and len(run) != int(sys.argv[3]):
    problems.append(f"{len(run)} steps were done, not {sys.argv[3]}")
print(*problems, sep="\n", end="\n" if problems else "")
sys.exit(1 if problems else 0)
