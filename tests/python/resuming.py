"""A training that goes on: from the state that a generation takes over, and from checkpoints. What the Trainer's and Lightning's tests of it share."""
import contextlib
import os
import unittest.mock

import stand_in

STEPS = 12  # three epochs of 16 samples


class Control(stand_in.Control):
    """It says of which step the state is that a generation takes over."""

    def __init__(self, step):
        super().__init__()
        self._step = step

    def expect(self, *kinds, timeout=0.0):
        return {**super().expect(*kinds, timeout=timeout), "step": self._step}


def step_in(path):
    from espalier._memory import private_map
    from espalier._state import head_of
    with open(path, "rb") as file:
        return head_of(private_map(file.fileno())).step


def joined(source, state, checkpoint, every, batch=4):
    """A run. source: "": the first generation; "recovery" or "live": one that takes over `state`, a file that checkpoint= has written; None: there is none."""
    run = stand_in.join(Control(step_in(state) if state else 0), global_batch=batch, steps=STEPS, checkpoint=checkpoint, checkpoint_every=every)
    if source:
        run._worker.source = {"generation": 0, "recovery": source == "recovery"}
    return run


@contextlib.contextmanager
def taking_over(state):
    """What a generation takes over is the state in that file."""
    from espalier import _whole
    from espalier._memory import private_map
    from espalier._state import apply, read

    def take(hand, _):
        if state is None:
            return None
        with open(state, "rb") as file:
            step, found = read(private_map(file.fileno()), objects=hand._objects)
        apply(hand._objects, found, "the test's state")
        return _whole.Taken(step, 0, 0)

    with unittest.mock.patch.object(_whole.Whole, "recover", take), unittest.mock.patch.object(_whole.Whole, "take_over", take):
        yield


@contextlib.contextmanager
def keeping_the_first_snapshot(path):
    """Of a run that goes on from a checkpoint it is made before the run's first step, and before the Trainer or Lightning has its own state."""
    from espalier import _snapshots
    from espalier._memory import SharedMemory

    def make(snapshots, step, elsewhere=True):
        if os.path.exists(path):
            return
        packed = snapshots._pack(step)
        memory = SharedMemory(packed.size)
        packed.write(memory.map)
        with open(path, "wb") as file:
            file.write(memory.map)
        memory.close()

    with unittest.mock.patch.object(_snapshots.Snapshots, "make", make):
        yield


def weights_of(model):
    return [one.tolist() for one in model.state_dict().values()]
