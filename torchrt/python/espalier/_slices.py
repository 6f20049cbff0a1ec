"""Which samples of a step a replica computes. Pure.

Samples have global numbers: step s (from 1) of a global batch of B has the samples (s-1)*B to s*B-1, whatever the number of
replicas. Each of them belongs to exactly one replica.
"""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple


def even_shares(global_batch: int, replicas: int) -> List[int]:
    """As even as integers allow; the first replicas have one more."""
    if global_batch < replicas:
        raise ValueError(f"the global batch of {global_batch} samples is smaller than the {replicas} processes that share "
                         "it; use fewer processes or a larger global_batch")
    least, more = divmod(global_batch, replicas)
    return [least + (replica < more) for replica in range(replicas)]


def shares_of(plan: Dict[str, Any], global_batch: int, units: Sequence[int] = (1,)) -> "Tuple[List[int], int]":
    """Of the replicas of a launcher's plan, and the processes of each. Raises ValueError where the plan is not one of data
    parallelism with one of `units` processes in all replicas."""
    stages = plan.get("stages")
    if not isinstance(stages, list) or len(stages) != 1:
        raise ValueError("the launcher's plan has several pipeline stages, and this program is data-parallel only; "
                         "launcher and package are of different versions")
    shares, unit = [], len(stages[0]["replicas"][0]["gpus"])
    for replica in stages[0]["replicas"]:
        if len(replica["gpus"]) not in units:
            raise ValueError(f"the launcher's plan has a replica of {len(replica['gpus'])} GPUs, and this program's replicas have "
                             f"{' or '.join(map(str, units))} processes each")
        if len(replica["gpus"]) != unit:
            raise ValueError(f"the launcher's plan has replicas of {unit} and of {len(replica['gpus'])} GPUs; all must have the same "
                             "number; launcher and package are of different versions")
        shares.append(int(replica["share"]) * int(plan.get("micro_batches", 1)))
    if sum(shares) != global_batch or min(shares) < 1:
        raise ValueError(f"the launcher's plan divides {sum(shares)} samples, the global batch is {global_batch}")
    return shares, unit


def nodes_of(plan: Dict[str, Any]) -> List[str]:
    """By rank."""
    return [gpu.rpartition("/")[0] if isinstance(gpu, str) else str(gpu["node"]) for gpu in _gpus_of(plan)]


def jobs_of(plan: Dict[str, Any], jobs: Dict[str, Any]) -> List[str]:
    """By rank: the Slurm job of its GPU; "" where `jobs` ("NODE/INDEX" to job) does not say it."""
    return [str(jobs.get(gpu if isinstance(gpu, str) else f"{gpu['node']}/{gpu['index']}", "")) for gpu in _gpus_of(plan)]


def _gpus_of(plan: Dict[str, Any]) -> List[Any]:
    return [gpu for stage in plan["stages"] for replica in stage["replicas"] for gpu in replica["gpus"]]


def slice_of(step: int, global_batch: int, shares: Sequence[int], replica: int) -> range:
    first = (step - 1) * global_batch + sum(shares[:replica])
    return range(first, first + shares[replica])


def count_of(shares: Sequence[int], most: int) -> int:
    """Parts of at most `most` samples that the largest share needs."""
    return -(-max(shares) // most)


def parts_of(samples: range, most: int, shares: Sequence[int] = ()) -> List[range]:
    """At most `most` samples each, as even as integers allow, in order. shares: of all replicas. Then as many parts as the largest one
    needs, or one for each sample: forward passes may be exchanges, as FSDP2's are, and each needs its like in all processes."""
    if most < 1:
        raise ValueError(f"a part of at most {most} samples: must be at least 1")
    if not samples:
        return []
    sizes = even_shares(len(samples), min(len(samples), count_of((len(samples), *shares), most)))
    parts, first = [], samples.start
    for size in sizes:
        parts.append(range(first, first + size))
        first += size
    return parts
