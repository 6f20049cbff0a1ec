"""Tokens per second on one rank against PyTorch, and what bit-identical sums cost."""
import json
import os
import statistics
import subprocess
import sys

from espalier import Run, WARM_UP, plan


def random_tokens(path, count, vocabulary, seed=1):
    import torch
    generator = torch.Generator().manual_seed(seed)
    torch.randint(vocabulary, (count,), generator=generator, dtype=torch.int32).to(torch.uint16).numpy().tofile(path)


class PyTorch:
    """Sleeps between its turns."""

    def __init__(self, setting):
        script = os.path.join(os.path.dirname(__file__), "pytorch_loop.py")
        self.process = subprocess.Popen([sys.executable, script, json.dumps(setting)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.run(WARM_UP)  # the first steps allocate and choose kernels

    def run(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the PyTorch side ended")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


SIZES = ("layers", "hidden", "heads", "sequence", "vocabulary", "key_value_heads", "intermediate")


def measure(folder, setting, rounds, steps, program="espalier-train", log=print):
    """Both sides in turn, `rounds` times: the machine's mood is the same for both. The ratio is the median of the rounds'."""
    os.makedirs(folder, exist_ok=True)
    data = os.path.abspath(f"{folder}/tokens.bin")
    random_tokens(data, 300_000, setting["vocabulary"])
    sizes = {key: setting[key] for key in SIZES if key in setting}
    other = PyTorch({**setting, "data": data})
    one = plan([(setting["layers"], 1, [setting["global_batch"] // setting["micro_batches"]])],
               setting["global_batch"], setting["micro_batches"])

    def train(accuracy, count):
        config = {"model": {"family": setting.get("family", "gpt2"), **sizes},
                  "training": {"steps": count + WARM_UP, "global_batch": setting["global_batch"],
                               "micro_batches": setting["micro_batches"], "learning_rate": 1e-4, "accuracy": accuracy,
                               "dtype": setting["dtype"], "threads": setting["threads"]},
                  "data": {"path": data}, "profile": {"every": 0}}
        return Run(f"{folder}/run", config, one, program)

    wall = {"espalier": [], "pytorch": [], "bitwise": []}
    cpu = {"espalier": [], "pytorch": [], "bitwise": []}
    start, mfu = {}, []
    for name, accuracy in (("espalier", "relaxed"), ("bitwise", "bitwise")):
        # What is not of the steps. On a GPU it is not asked for: a start takes long there, and the GPU does the work.
        start[name] = statistics.median(train(accuracy, 0).cpu_seconds for _ in range(2)) if setting["device"] == "cpu" else 0
    for index in range(rounds):
        for name, accuracy in (("espalier", "relaxed"), ("bitwise", "bitwise")):
            run = train(accuracy, steps)
            wall[name].append(run.median())
            cpu[name].append((run.cpu_seconds - start[name]) / steps)
            if name == "espalier":
                mfu += [line["mfu"] for line in run.lines[WARM_UP:] if line["mfu"] is not None]
                theirs = other.run(steps)
                wall["pytorch"].append(statistics.median(theirs["seconds"]))
                cpu["pytorch"].append(theirs["cpu_seconds"] / steps)
        log(f"  round {index + 1}: " + ", ".join(f"{name} {wall[name][-1]:.3f} s, {cpu[name][-1]:.3f} s of CPU" for name in wall))
    other.close()

    def ratio(times, of, to):
        return statistics.median(a / b for a, b in zip(times[of], times[to]))

    tokens = setting["global_batch"] * setting["sequence"]
    return {"ratio": ratio(wall, "pytorch", "espalier"), "ratio_of_cpu_time": ratio(cpu, "pytorch", "espalier"),
            "bitwise_cost": ratio(wall, "bitwise", "espalier"), "bitwise_cost_in_cpu_time": ratio(cpu, "bitwise", "espalier"),
            "espalier_tokens_per_second": tokens / statistics.median(wall["espalier"]),
            "pytorch_tokens_per_second": tokens / statistics.median(wall["pytorch"]),
            "mfu": statistics.median(mfu) if mfu else None, "step_seconds": wall, "step_cpu_seconds": cpu, "setting": setting}


def compiled(folder, setting, rounds, steps):
    """Seconds of a step of PyTorch with each layer compiled. In a folder that `measure` has written."""
    other = PyTorch({**setting, "data": os.path.abspath(f"{folder}/tokens.bin"), "compile": True})
    seconds = statistics.median(statistics.median(other.run(steps)["seconds"]) for _ in range(rounds))
    other.close()
    return seconds
