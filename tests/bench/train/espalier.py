"""Runs espalier-train and reads what it measured."""
import json
import os
import resource
import shutil
import statistics
import subprocess

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
WARM_UP = 2  # steps at the start of a run that no figure includes


def toml(tables):
    def value(v):
        return json.dumps(v)  # strings, numbers and booleans of JSON are TOML's

    return "".join(f"[{name}]\n" + "".join(f"{key} = {value(v)}\n" for key, v in table.items()) for name, table in tables.items())


def plan(stages, global_batch, micro_batches):
    """stages: [(layers, tp, [share, ...])]; ranks are GPUs of one node."""
    gpu, result = 0, []
    for layers, tp, shares in stages:
        replicas = []
        for share in shares:
            replicas.append({"share": share, "gpus": [f"node/{gpu + i}" for i in range(tp)]})
            gpu += tp
        result.append({"layers": layers, "tp": tp, "replicas": replicas})
    return {"global_batch": global_batch, "micro_batches": micro_batches, "stages": result}


def ranks(one):
    return sum(len(replica["gpus"]) for stage in one["stages"] for replica in stage["replicas"])


class Run:
    """One run of espalier-train in `folder`: seconds of its steps, its profiles, and a folder of traces."""

    def __init__(self, folder, config, plan, program="espalier-train", trace=False, options=()):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        config = {name: dict(table) for name, table in config.items()}
        config["metrics"] = {"path": "metrics.jsonl", "progress_every": 0, **config.get("metrics", {})}
        if config.get("profile", {}).get("every", 0) > 0:
            config["profile"]["path"] = "profiles.jsonl"
            if trace:
                config["profile"]["trace"] = "trace"
        with open(f"{folder}/config.toml", "w") as out:
            out.write(toml(config))
        with open(f"{folder}/plan.json", "w") as out:
            json.dump(plan, out)
        command = [f"{BUILD}/bin/{program}", "config.toml", "--plan", "plan.json", *options]
        if ranks(plan) > 1:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks(plan)), *command]
        environment = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PYTHONPATH")}
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} in {folder}: {done.stderr[-2000:]}")
        if "training on the processor" in done.stderr:
            raise RuntimeError(f"{' '.join(command)} in {folder}: no GPU was visible")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime  # with its start
        self.folder = folder
        self.lines = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
        self.seconds = [line["seconds"] for line in self.lines][WARM_UP:]
        self.profiles = []
        if os.path.exists(f"{folder}/profiles.jsonl"):
            self.profiles = [json.loads(line) for line in open(f"{folder}/profiles.jsonl")]

    def median(self):
        return statistics.median(self.seconds)


def models(*arguments):
    """What espalier-bench-train says."""
    command = [f"{BUILD}/bin/espalier-bench-train", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)
