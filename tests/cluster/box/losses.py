"""losses.py RUN REFERENCE [STEPS]: whether RUN.jsonl did each step once, in order, with REFERENCE.jsonl's losses bit for bit.

With STEPS, all of 1..STEPS must be there. Prints what differs; exit status 1 then.
"""
import json
import sys


def read(name):
    with open(name, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


run, reference = read(sys.argv[1]), {s["step"]: s["loss"] for s in read(sys.argv[2])}
problems = []
for position, record in enumerate(run, start=1):
    if record["step"] != position:
        problems.append(f"line {position} is step {record['step']}")
        break
    if record["loss"] != reference[position]:
        problems.append(f"step {position}: loss {record['loss']!r}, reference {reference[position]!r}")
        break
if len(sys.argv) > 3 and len(run) != int(sys.argv[3]):
    problems.append(f"{len(run)} steps were done, not {sys.argv[3]}")
for problem in problems:
    print(problem)
sys.exit(1 if problems or not run else 0)
