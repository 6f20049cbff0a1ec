"""Whether gradients wait for a later step of the optimizer. A script may accumulate them over several steps of the run. They are in no
registered object's state, so the state between such steps is whole only after the optimizer has used them."""
from __future__ import annotations

import sys

from ._groups import Groups
from ._numbers import SharedNumbers

_MOST_STEPS = 64  # beyond, the registered optimizers may be none that step


class Accumulated:
    def __init__(self, optimizers: bool, tells: bool) -> None:
        """optimizers: whether some are registered. tells: whether this process says what the script's user should know."""
        self._optimizers, self._tells = optimizers, tells
        self._steps = 0  # since an optimizer has made one
        self._told, self._said = SharedNumbers(2), False

    def step_ends(self, optimized: bool) -> None:
        self._steps = 0 if optimized else self._steps + 1

    def wait(self, groups: Groups) -> bool:
        """Whether an optimizer has to make a step before the state is whole. All processes call it. Where one's has made its step, it is whole on
        those too whose optimizer has nothing to do, as that of a stage whose parameters are all frozen."""
        told = self._told.values  # processes whose optimizer has made no step lately, and those whose has just made one
        told[0], told[1] = self._optimizers and 0 < self._steps <= _MOST_STEPS, self._optimizers and self._steps == 0
        groups.sum(self._told)
        if told[1] > 0:
            return False
        if self._tells and self._optimizers and self._steps > _MOST_STEPS and not self._said:
            self._said = True
            print(f"espalier: no registered optimizer has made a step in {_MOST_STEPS} steps of the run, and nothing waits for one any longer: "
                  "gradients that are accumulated are lost at a change, a loss and a restart; accumulate them inside a step, with run.parts()",
                  file=sys.stderr, flush=True)
        return told[0] > 0
