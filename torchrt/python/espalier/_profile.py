"""What a step takes, measured while the job trains: the flat profile that the planner predicts other numbers of GPUs with."""
from __future__ import annotations

import math
from statistics import median
from typing import Dict, List, Optional

LEAST_STEPS = 4
MEASURED = 16  # steps before a profile, where measuring them costs time
TOLD = 5  # numbers of a process


def spread_of(work: List[float]) -> float:
    """How well the median is known, as a share of it: the larger of half the width of its confidence interval, from order
    statistics, and half the difference of the medians of the older and the newer half (planner/core/model/
    step_statistics.hpp says why)."""
    count, middle = len(work), median(work) if work else 0.0
    if count < LEAST_STEPS or middle <= 0:
        return 1.0
    ordered = sorted(work)
    low = max(0, math.floor((count - 1.53 * math.sqrt(count)) / 2)) if count >= 8 else 0
    width = (ordered[count - 1 - low] - ordered[low]) / 2
    drift = abs(median(work[: count // 2]) - median(work[(count + 1) // 2:])) / 2
    return max(width, drift) / middle


class Samples:
    """The steps since the last profile, on this rank."""

    def __init__(self) -> None:
        self.compute: List[float] = []
        self.sync: List[float] = []
        self.rest: List[float] = []

    def add(self, compute: float, sync: Optional[float], rest: float) -> None:
        self.compute.append(compute)
        self.rest.append(rest)
        if sync is not None:
            self.sync.append(sync)

    def enough(self) -> bool:
        return len(self.compute) >= LEAST_STEPS

    def told(self) -> List[float]:
        """TOLD numbers for a profile: medians of compute, sync and rest in ms, the steps, and how well they are known. A sync of -1: not
        measured. Steps of 0: nothing was measured, as on a process that steps no optimizer."""
        if not self.enough():
            return [0.0] * TOLD
        return [median(self.compute), median(self.sync) if self.sync else -1.0, median(self.rest), len(self.compute), spread_of(self.work())]

    def work(self) -> List[float]:
        sync = self.sync if len(self.sync) == len(self.compute) else [0.0] * len(self.compute)
        return [sum(one) for one in zip(self.compute, sync, self.rest)]


def of_replicas(ranks: List[List[float]], unit: int) -> List[List[float]]:
    """What the processes of each replica have told, together: a replica is as slow as its slowest process, and has waited for others
    as long as the process that waited least. Empty where nobody of some replica has measured anything."""
    groups = [[one for one in ranks[first:first + unit] if one[3] > 0] for first in range(0, len(ranks), unit)]
    if not all(groups):
        return []
    return [[max(one[0] for one in group), min(one[1] for one in group), max(one[2] for one in group)] for group in groups]


def due(steps: int) -> bool:
    """Whether a profile is due after so many steps of a generation. The same on all ranks, whatever they have measured."""
    return steps in (6, 12) or steps > 0 and steps % 25 == 0


def near(steps: int) -> bool:
    """Whether a step is one of the last before a profile, which are enough for it."""
    return steps <= 12 or -steps % 25 < MEASURED


def flat(step: int, steps: int, replicas: List[List[float]], bytes_of: "tuple[int, int, int]", peak: int,
         spread: float) -> Dict[str, object]:
    """replicas: of of_replicas()."""
    made: Dict[str, object] = {
        "step": step, "steps": steps, "compute_ms": [max(one[0], 1e-6) for one in replicas],
        "rest_ms": max(one[2] for one in replicas), "gradient_bytes": bytes_of[0], "weight_bytes": bytes_of[1],
        "state_bytes": bytes_of[2], "peak_bytes": peak, "spread": spread}
    if len(replicas) > 1 and all(one[1] >= 0 for one in replicas):
        made["sync_ms"] = min(one[1] for one in replicas)
    return made
