"""When the parts of a step ended in this process, and the profile that follows from those of all."""
from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Sequence

import torch

from . import _profile
from ._gradients import Averager
from ._marks import Mark
from ._state import sizes
from ._worker import Worker

_STEPS_TO_MEASURE = 12  # of which a profile needs a few


class Measuring:
    def __init__(self, averager: Averager, gpu: Optional[torch.device], wanted: bool = True) -> None:
        """gpu: as in Mark. wanted: there is a launcher to tell."""
        self._averager, self._gpu, self._wanted = averager, gpu, wanted
        self._began, self._optimizer, self._ended = Mark(gpu), Mark(gpu), Mark(gpu)
        self._samples, self._steps = _profile.Samples(), 0
        self._late = self._said = False  # the optimizer's step() came after report(); why nothing is measured has been said
        self.optimizing = False  # the optimizer's step() has begun

    def begin(self) -> None:
        self.optimizing = False
        self._averager.last_bucket = None
        # On a GPU a mark waits for its work, so no more steps are marked than a profile needs.
        self._averager.marks = self._marks = self._wanted and (self._gpu is None or _profile.near(self._steps + 1))
        if self._marks:
            self._began.now()

    def optimizes(self, reported: bool) -> None:
        """reported: the step's report() was before."""
        self._late = reported
        if not self.optimizing:
            self.optimizing = True
            if self._marks:
                self._optimizer.now()

    def reports(self) -> None:
        if not self.optimizing or not self._marks:
            return
        ended, ready = self._ended.now(), self._averager.last_bucket
        self._samples.add((ready or self._optimizer).ms_since(self._began),
                          None if ready is None else max(0.0, self._optimizer.ms_since(ready)),
                          max(0.0, ended.ms_since(self._optimizer)))

    def is_due(self) -> bool:
        """One step more. Whether a profile is told after it: the same in all processes."""
        self._steps += 1
        return self._wanted and _profile.due(self._steps)

    def told(self) -> List[float]:
        """What this process tells all others for a profile, which is due."""
        told = self._samples.told()
        if self._samples.enough():
            self._samples = _profile.Samples()
        return told

    def tell(self, worker: Worker, step: int, reported: bool, ranks: Sequence[List[float]], objects: Dict[str, Any]) -> None:
        """Rank 0 tells. All processes call it where the state is divided, as a state_dict() may be an exchange of all then. ranks: what all have told."""
        replicas = _profile.of_replicas(list(ranks), worker.unit)  # there are some in all processes, or in none
        bytes_of = sizes(objects) if replicas else (0, 0, 0)
        if worker.rank > 0:
            return
        if not replicas:
            self._say_why_not(reported)
            return
        _, _, _, steps, spread = next(one for one in ranks if one[3] > 0)
        peak = 0 if self._gpu is None else torch.cuda.max_memory_reserved(self._gpu)  # what torch keeps nobody else can have
        worker.control.send("profile", flat=_profile.flat(step, round(steps), replicas, bytes_of, peak, spread))

    def _say_why_not(self, reported: bool) -> None:
        """Once, and when there was time to measure: the job is not given more GPUs then, and nothing else tells why. Where the optimizer steps
        only now and then, some steps have been measured, and a profile follows when there are enough."""
        if self._said or self._steps < _STEPS_TO_MEASURE or self._samples.compute:
            return
        self._said = True
        why = ("run.report() is not called in each step" if not reported else
               "run.report() comes before the optimizer's step(); call it after" if self._late else
               "no registered optimizer makes a step; name it in run.register()")
        print(f"espalier: {self._steps} steps could not be measured, so this job will not grow: {why}", file=sys.stderr, flush=True)
