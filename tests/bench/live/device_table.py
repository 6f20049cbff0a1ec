"""The times of an imitated device, by operation and shape, for device.times of espalier-train(1). The planner sees none of it.

A real device is not a constant number of FLOPs a second: small products use it badly, some operations are bound by memory,
and tensor parallelism does not divide those that every rank repeats. The table has all three, and differences of some
percent between shapes, drawn by seed, as kernels have them.
"""
import json
import random

SAMPLES = (1, 2, 3, 4, 6, 8, 12, 16)
DEGREES = (1, 2, 4, 8)


def shape(family, model):
    """Weights that a block multiplies, and how many matrix products it makes of them."""
    hidden = model["hidden"]
    feed_forward = model.get("intermediate", 4 * hidden)
    if family == "gpt2":
        return {"qkv": 3 * hidden * hidden, "out": hidden * hidden, "up": hidden * feed_forward,
                "down": hidden * feed_forward}
    return {"qkv": 3 * hidden * hidden, "out": hidden * hidden, "gate": hidden * feed_forward,
            "up": hidden * feed_forward, "down": hidden * feed_forward}


def make(family, model, flops_per_second, seed):
    """The table of a model: rows for every degree and number of samples. `flops_per_second` is what a large product reaches."""
    luck = random.Random(f"{seed} {family} {sorted(model.items())}")
    tokens, hidden = model["sequence"], model["hidden"]

    def product(weights, count):
        """Efficiency rises with the work of one product; each shape has a few percent of its own."""
        work = 2.0 * weights * count
        efficiency = work / (work + 0.15 * 2.0 * hidden * hidden * tokens) * (1 + luck.uniform(-0.06, 0.06))
        return work / (flops_per_second * efficiency)

    rows = []
    for tp in DEGREES:
        for samples in SAMPLES:
            count = tokens * samples
            forward = backward = weight = 0.0
            for weights in shape(family, model).values():
                forward += product(weights / tp, count)
                backward += product(weights / tp, count)
                weight += product(weights / tp, count)
            attention = 4.0 * hidden / tp * tokens * count / (0.4 * flops_per_second)
            # Norms and residuals are bound by memory, and every rank of a replica repeats them.
            memory = 12.0 * hidden * count * 16 / flops_per_second
            parameters = sum(shape(family, model).values()) / tp
            rows.append(("block", tp, samples, forward + attention + memory, backward + 2 * attention + memory, weight,
                         24 * parameters / flops_per_second))
            table = model["vocabulary"] * hidden
            rows.append(("embedding", tp, samples, 2 * hidden * count * 16 / flops_per_second, 0.0,
                         2 * hidden * count * 32 / flops_per_second, 24 * table / tp / flops_per_second))
            rows.append(("head", tp, samples, product(table / tp, count), product(table / tp, count),
                         product(table / tp, count), 24 * table / tp / flops_per_second))
    keys = ("unit", "tp", "samples", "forward_ms", "backward_ms", "weight_gradient_ms", "update_ms")
    return {"rows": [dict(zip(keys, row[:3] + tuple(1000 * t for t in row[3:]))) for row in rows]}


def device_seconds(table, plan, layers):
    """A step of the plan on this device if communication took no time: 1F1B over its stages, and the update."""
    by_key = {(r["unit"], r["tp"], r["samples"]): r for r in table["rows"]}
    micro_batches, stages = plan["micro_batches"], plan["stages"]
    per_micro_batch = plan["global_batch"] // micro_batches
    forward, backward, update = [], [], []
    for number, stage in enumerate(stages):
        units = ["block"] * stage["layers"]
        units += ["embedding"] * (number == 0) + ["head"] * (number == len(stages) - 1)
        samples = max(replica["share"] for replica in stage["replicas"])
        assert samples <= per_micro_batch
        rows = [by_key[(unit, stage["tp"], samples)] for unit in units]
        forward.append(sum(r["forward_ms"] for r in rows))
        backward.append(sum(r["backward_ms"] + r["weight_gradient_ms"] for r in rows))
        update.append(sum(r["update_ms"] for r in rows))
    assert sum(stage["layers"] for stage in stages) == layers
    return (one_forward_one_backward(forward, backward, micro_batches) + max(update)) / 1000


def one_forward_one_backward(forward, backward, micro_batches):
    stages = len(forward)
    orders = []
    for stage in range(stages):
        warm = min(stages - stage, micro_batches)
        order = [("f", i) for i in range(warm)]
        for i in range(micro_batches):
            order.append(("b", i))
            if warm + i < micro_batches:
                order.append(("f", warm + i))
        orders.append(order)
    done, free, place = {}, [0.0] * stages, [0] * stages
    while any(place[s] < len(orders[s]) for s in range(stages)):
        for s in range(stages):
            while place[s] < len(orders[s]):
                kind, i = orders[s][place[s]]
                needs = (kind, s - 1, i) if kind == "f" else (kind, s + 1, i)
                inside = 0 <= needs[1] < stages
                if inside and needs not in done:
                    break
                start = max(free[s], done.get(needs, 0.0))
                free[s] = start + (forward[s] if kind == "f" else backward[s])
                done[(kind, s, i)] = free[s]
                place[s] += 1
    return max(free)


if __name__ == "__main__":
    import sys
    print(json.dumps(make(sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))))
