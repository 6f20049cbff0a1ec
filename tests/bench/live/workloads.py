"""Trainings and devices of the benchmark, drawn by seed."""
import random

import device_table

FAMILIES = ("gpt2", "llama", "qwen2")


def draw(seed, count):
    """`count` trainings; the families take turns. A step on one device takes 2.5 to 4 seconds."""
    luck = random.Random(seed)
    drawn = []
    for number in range(count):
        family = FAMILIES[number % len(FAMILIES)]
        hidden = luck.choice((96, 128, 160))
        model = {"family": family, "layers": luck.choice((6, 8, 10, 12)), "hidden": hidden, "heads": 8,
                 "sequence": luck.choice((32, 64)), "vocabulary": 256}
        if family != "gpt2":
            model |= {"intermediate": 8 * (hidden // 3), "key_value_heads": 8}
        batch = luck.choice((8, 16))
        table = device_table.make(family, model, 1.0, luck.randrange(1 << 30))
        whole = {"global_batch": batch, "micro_batches": batch // 2,
                 "stages": [{"layers": model["layers"], "tp": 1, "replicas": [{"share": 2}]}]}
        seconds = luck.uniform(2.5, 4.0)
        scale = seconds / device_table.device_seconds(table, whole, model["layers"])
        for row in table["rows"]:
            for key in row:
                if key.endswith("_ms"):
                    row[key] *= scale
        drawn.append({"name": f"{family}{number}", "model": model, "batch": batch, "table": table,
                      "accuracy": "bitwise" if luck.random() < 0.3 else "relaxed", "first_gpus": luck.choice((1, 2, 3, 4))})
    return drawn
