"""figures.py FOLDER OUT: the figures of `make bench-pytorch` from what its parts left in FOLDER, as JSON to OUT and to standard output.
A figure whose part was not measured is null."""
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys

folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
here = pathlib.Path(__file__).resolve().parent
examples = here.parents[2] / "examples" / "pytorch"


def steps(name):
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def figures_of(name):
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def lines_changed(plain, elastic):
    """Titles and indentation aside, and lines that moved, as tests/torchrt/python.bats counts them."""
    before, after = ([line.strip() for line in (examples / name).read_text().splitlines()[1:]] for name in (plain, elastic))
    for line in before:
        if line in after:
            after.remove(line)
    return len(after)


def pauses(run):
    """Seconds between a generation's last step and the beginning of the next one's first."""
    return [b["at"] - b["seconds"] - a["at"] for a, b in itertools.pairwise(run) if b["generation"] != a["generation"]]


def restart_pause(run):
    """From the last step of one torchrun to the first of the next one."""
    return max(b["at"] - b["seconds"] - a["at"] for a, b in itertools.pairwise(run))


def median(values):
    return statistics.median(values) if values else None


def shards(ranks):
    """What each rank of FSDP2 holds of a state of length 1."""
    return [(rank / ranks, (rank + 1) / ranks) for rank in range(ranks)]


def moved(before, after, size):
    """Bytes that change their GPU. before, after: GPUs by rank."""
    stay = 0.0
    old = {gpu: part for gpu, part in zip(before, shards(len(before)))}
    for gpu, (low, high) in zip(after, shards(len(after))):
        if gpu in old:
            stay += max(0.0, min(high, old[gpu][1]) - max(low, old[gpu][0]))
    return size * (1 - stay)


def gpus(plan):
    return [gpu for stage in plan["stages"] for replica in stage["replicas"] for gpu in replica["gpus"]]


def fsdp_over_bound():
    """Bytes that were moved beyond the least that any order of the new ranks on their GPUs needs, as a share of that least."""
    path = folder / "fsdp_grow.decisions.json"
    out_path = folder / "fsdp_grow.out"
    if not path.exists() or not out_path.exists():
        return None
    decisions = json.loads(path.read_text())
    decisions = decisions["decisions"] if isinstance(decisions, dict) else decisions
    plans = [gpus(d["plan"]) for d in sorted(decisions, key=lambda d: d["id"]) if d["outcome"].startswith("committed")]
    read = [(int(c), int(g)) for c, g in re.findall(r"copied (\d+), and got (\d+) from other nodes", out_path.read_text())]
    grown = [(a, b, bytes_) for (a, b), bytes_ in zip(itertools.pairwise(plans), read) if len(b) > len(a)]
    if not grown:
        return None
    before, after, (copied, got) = grown[-1]
    size = copied + got  # each byte of the state is read once
    least = min(moved(before, list(order), size) for order in itertools.permutations(after))
    return {"state_bytes": size, "read_on_node": copied, "read_from_other_nodes": got,
            "between_gpus": round(moved(before, after, size)), "least_between_gpus": round(least),
            "over": round(moved(before, after, size) / least - 1, 4) if least > 0 else None}


def fsdp_over_checkpoint():
    """The pause of the growth from 3 to 5 processes, against saving and loading the same state by torch.distributed.checkpoint."""
    elastic, by_disk = pauses(steps("fsdp_grow")), steps("dcp")
    if not elastic or not by_disk:
        return None
    saved, loaded = (median([one["seconds"] for one in by_disk if one["what"] == what]) for what in ("save", "load"))
    return {"pause_s": round(elastic[-1], 3), "dcp_save_s": round(saved, 3), "dcp_load_s": round(loaded, 3),
            "ratio": round((saved + loaded) / elastic[-1], 1)}


def prediction_errors():
    decisions = figures_of("predict")
    if decisions is None:
        return []
    decisions = decisions["decisions"] if isinstance(decisions, dict) else decisions
    return [(d["predicted_step_seconds"], d["measured_step_seconds"], len(gpus(d["plan"]))) for d in decisions
            if d["kind"] == "grow" and d["outcome"].startswith("committed") and d["predicted_step_seconds"] > 0
            and d["measured_step_seconds"] > 0]


def conformance(name):
    path = folder / f"conform-{name}.log"
    counts = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", path.read_text(), re.M) if path.exists() else []
    return dict(zip(("passed", "failed", "skipped"), map(int, counts[-1]))) if counts else None


kinds = {kind: figures_of(kind) for kind in ("ddp", "fsdp")}
measured = [one for one in kinds.values() if one]
elastic, restarts = pauses(steps("pause")), [restart_pause(run) for run in (steps("restart1"), steps("restart2")) if run]
errors = prediction_errors()
suites = {name: conformance(name) for name in ("python", "trainer", "c")}
cpu = [one["cpu_ms"] for kind in kinds for one in steps(kind)]
figures = {
    "lines_changed": {"ddp": lines_changed("plain.py", "ddp.py"), "fsdp2": lines_changed("plain_fsdp.py", "fsdp.py"),
                      "trainer": lines_changed("plain_trainer.py", "trainer.py")},
    "changes": {kind: max((one["generation"] for one in steps(kind)), default=0) if figures else None for kind, figures in kinds.items()},
    "steps_lost": sum(one["steps_lost"] for one in measured) if measured else None,
    "samples_wrong": sum(one["steps_with_wrong_samples"] for one in measured) if measured else None,
    "max_relative_difference": max((one["max_relative_difference"] for one in measured), default=None),
    "pause_ms": {"elastic": [round(1000 * one, 1) for one in elastic], "restart": [round(1000 * one) for one in restarts]},
    "pause_ratio_to_restart": round(median(restarts) / median(elastic), 1) if elastic and restarts and median(elastic) > 0 else None,
    "fsdp_bytes_over_bound": fsdp_over_bound(),
    "fsdp_pause_to_checkpoint": fsdp_over_checkpoint(),
    "cpu_ms_per_step": round(median(cpu), 3) if cpu else None,
    "predictions": [{"gpus": n, "predicted": round(p, 4), "measured": round(m, 4)} for p, m, n in errors],
    "prediction_error_pct": round(100 * statistics.mean(abs(p - m) / m for p, m, _ in errors), 1) if errors else None,
    "conformance_cases": suites,
}
out.write_text(json.dumps(figures, indent=1) + "\n")
print(json.dumps(figures))
