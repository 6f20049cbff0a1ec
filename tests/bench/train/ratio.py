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
        self.run(WARM_UP)

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


def measure(folder, setting, rounds, steps, program="espalier-train", log=print):
    """Both sides in turn, `rounds` times: the machine's mood is the same for both. The ratio is the median of the rounds'."""
    os.makedirs(folder, exist_ok=True)
    data = os.path.abspath(f"{folder}/tokens.bin")
    random_tokens(data, 300_000, setting["vocabulary"])
    sizes = {key: setting[key] for key in ("layers", "hidden", "heads", "sequence", "vocabulary")}
    other = PyTorch({**setting, "data": data})
    one = plan([(setting["layers"], 1, [setting["global_batch"] // setting["micro_batches"]])],
               setting["global_batch"], setting["micro_batches"])

    def train(accuracy):
        config = {"model": {"family": "gpt2", **sizes},
                  "training": {"steps": steps + WARM_UP, "global_batch": setting["global_batch"],
                               "micro_batches": setting["micro_batches"], "learning_rate": 1e-4, "accuracy": accuracy,
                               "dtype": setting["dtype"], "threads": setting["threads"]},
                  "data": {"path": data}, "profile": {"every": 0}}
        return Run(f"{folder}/run", config, one, program)

    ours, theirs, bitwise, mfu = [], [], [], []
    for index in range(rounds):
        run = train("relaxed")
        ours.append(run.median())
        mfu += [line["mfu"] for line in run.lines[WARM_UP:] if line["mfu"] is not None]
        theirs.append(statistics.median(other.run(steps)))
        bitwise.append(train("bitwise").median())
        log(f"  round {index + 1}: espalier {ours[-1]:.4f} s, PyTorch {theirs[-1]:.4f} s, bitwise {bitwise[-1]:.4f} s a step")
    other.close()
    tokens = setting["global_batch"] * setting["sequence"]
    return {"ratio": statistics.median(b / a for a, b in zip(ours, theirs)),
            "bitwise_cost": statistics.median(b / a for a, b in zip(ours, bitwise)),
            "espalier_tokens_per_second": tokens / statistics.median(ours),
            "pytorch_tokens_per_second": tokens / statistics.median(theirs),
            "mfu": statistics.median(mfu) if mfu else None,
            "espalier_seconds": ours, "pytorch_seconds": theirs, "bitwise_seconds": bitwise, "setting": setting}
