"""grows.py DECISIONS.json: what the committed grows took, phase by phase, as a Markdown table (milliseconds)."""
import json
import statistics
import sys

with open(sys.argv[1], encoding="utf-8") as source:
    decisions = json.load(source)
decisions = decisions["decisions"] if isinstance(decisions, dict) else decisions
grows = [d for d in decisions if d["kind"] == "grow" and d["outcome"].startswith("committed")]


def between(decision, start, end):
    moments = decision["moments"]
    return (moments[end] - moments[start]) * 1000 if start in moments and end in moments else None


rows = {
    "GPUs released → planner sees them free": [between(d, "event", "seen") for d in grows],
    "seen → decided": [between(d, "seen", "decided") for d in grows],
    "decided → proposed to the launcher": [between(d, "decided", "proposed") for d in grows],
    "proposed → extensions granted": [d["phases_ms"].get("acquire") for d in grows],
    "granted → next generation ready (beside training)": [d["phases_ms"].get("start") for d in grows],
    "ready → iteration boundary (training)": [d["phases_ms"].get("boundary") for d in grows],
    "pause": [d["pause_ms"] for d in grows],
    "of it: state moved, committed": [d["phases_ms"].get("load") for d in grows],
    "commit → first step done": [d["phases_ms"].get("first_step") for d in grows],
}
print(f"| {len(grows)} grows | median ms | max ms |\n|---|---|---|")
for name, values in rows.items():
    values = [v for v in values if v is not None]
    if values:
        print(f"| {name} | {statistics.median(values):.1f} | {max(values):.1f} |")
