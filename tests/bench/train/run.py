"""`make bench-train`: what training reaches on this machine, into build/bench/train.json. With an argument only the parts it
names (of cpu, gpu, llama, compiled, pipeline, accuracy, comma-separated), the others keep what the file says. Without a GPU its
parts, gpu, llama and compiled, are left out, unless one is named: then it fails. compiled is against what gpu and llama measured.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import accuracy  # noqa: E402
import pipeline  # noqa: E402
import ratio  # noqa: E402
from espalier import BUILD  # noqa: E402

ROUNDS, STEPS = int(os.environ.get("TRAIN_ROUNDS", 3)), int(os.environ.get("TRAIN_STEPS", 10))  # of the parts gpu and llama
FOLDER = f"{BUILD}/bench/train"
PATH = f"{BUILD}/bench/train.json"

# On CPU one thread for both sides: ranks share the cores.
CPU = {"device": "cpu", "layers": 6, "hidden": 512, "heads": 8, "sequence": 256, "vocabulary": 8192, "global_batch": 4,
       "micro_batches": 1, "dtype": "float32", "threads": 1}
# 1.3 billion parameters (GPT-3 XL's sizes).
GPU = {"device": "cuda", "layers": 24, "hidden": 2048, "heads": 16, "sequence": 1024, "vocabulary": 50304, "global_batch": 32,
       "micro_batches": 4, "dtype": "bfloat16", "threads": 1}
# Layers of LLaMA 3 8B, as many as a GPU of 80 GB keeps twice with their optimizers, and a smaller vocabulary.
LLAMA = {"device": "cuda", "family": "llama", "layers": 6, "hidden": 4096, "heads": 32, "key_value_heads": 8,
         "intermediate": 14336, "sequence": 2048, "vocabulary": 32768, "global_batch": 16, "micro_batches": 8,
         "dtype": "bfloat16", "threads": 1}
# Steps between two profiles that a configuration has unless it says otherwise, and how many of them are measured.
DEFAULT_EVERY, WINDOW = 100, 4


def has_gpu():
    return shutil.which("nvidia-smi") is not None and os.path.exists(f"{BUILD}/bin/espalier-train-cuda") and \
        subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode == 0


def machine():
    name = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"cores": os.cpu_count(), "cpu": name, "load_before": os.getloadavg()[0]}


def main():
    parts = sys.argv[1].split(",") if len(sys.argv) > 1 else ["cpu", "gpu", "llama", "compiled", "pipeline", "accuracy"]
    if {"gpu", "llama", "compiled"} & set(parts) and len(sys.argv) > 1 and not has_gpu():
        sys.exit(f"run.py: no GPU: nvidia-smi finds none, or {BUILD}/bin/espalier-train-cuda is not built")
    os.makedirs(FOLDER, exist_ok=True)
    result = {"cpu_ratio_to_pytorch": None, "gpu_ratio_to_pytorch": None, "gpu_ratio_to_compiled": None, "mfu": None,
              "llama_ratio_to_pytorch": None, "llama_ratio_to_compiled": None, "llama_mfu": None, "profiler_overhead_pct": None,
              "bubble_error_pct": None, "time_error_pct": None, "memory_error_pct": None, "bitwise_cost": None}
    if os.path.exists(PATH) and len(sys.argv) > 1:
        result.update(json.load(open(PATH)))
    for part in {"gpu", "llama"} & set(parts):  # a part that fails leaves no figure of an earlier run
        result.update({key: None for key in result if key.startswith(part) or (part == "gpu" and key == "mfu")})
    with open(PATH, "w") as out:
        json.dump(result, out)
    result["machine"] = machine()
    if "cpu" in parts:
        print("one rank against PyTorch, CPU")
        said = ratio.measure(f"{FOLDER}/cpu", CPU, rounds=3, steps=5)
        result.update(cpu_ratio_to_pytorch=said["ratio"], bitwise_cost=said["bitwise_cost"], cpu=said)
    if "gpu" in parts and has_gpu():
        print("one rank against PyTorch, GPU")
        said = ratio.measure(f"{FOLDER}/gpu", GPU, rounds=ROUNDS, steps=STEPS, program="espalier-train-cuda")
        result.update(gpu_ratio_to_pytorch=said["ratio"], mfu=said["mfu"], gpu=said)
    if "llama" in parts and has_gpu():
        print("layers of LLaMA 8B against PyTorch, GPU")
        said = ratio.measure(f"{FOLDER}/llama", LLAMA, rounds=ROUNDS, steps=STEPS, program="espalier-train-cuda")
        result.update(llama_ratio_to_pytorch=said["ratio"], llama_mfu=said["mfu"], llama=said)
    if "compiled" in parts and has_gpu():
        for name, setting in (("gpu", GPU), ("llama", LLAMA)):
            if not result.get(name):
                sys.exit(f"run.py: compiled: there is no figure of the part {name} to compare with; run it first")
            seconds = ratio.compiled(f"{FOLDER}/{name}", setting, ROUNDS, STEPS)
            result[f"{name}_ratio_to_compiled"] = seconds / statistics.median(result[name]["step_seconds"]["espalier"])
            print(f"{name}: a step compiled by torch.compile takes {seconds:.3f} s")
    if "pipeline" in parts:
        print("a pipeline of two, and the profiler")
        bubble = pipeline.bubble(f"{FOLDER}/bubble", steps=24)
        overhead = pipeline.overhead(f"{FOLDER}/overhead", steps=96)
        result.update(bubble_error_pct=bubble["error_pct"], bubble=bubble, profiler=overhead,
                      profiler_overhead_pct=overhead["of_measured_steps_pct"] * WINDOW / DEFAULT_EVERY)
    if "accuracy" in parts:
        print("the performance model against this machine")
        said = accuracy.measure(f"{FOLDER}/accuracy", rounds=2, steps=8)
        result.update(time_error_pct=said["time_error_pct"]["mean"], memory_error_pct=said["memory_error_pct"]["mean"],
                      accuracy=said)
    result["machine"]["load_after"] = os.getloadavg()[0]
    with open(PATH + ".tmp", "w") as out:
        json.dump(result, out, indent=1)
    os.replace(PATH + ".tmp", PATH)
    for key, value in result.items():
        if not isinstance(value, dict):
            print(f"{key:24} {value if value is None else format(value, '.4g')}")


main()
