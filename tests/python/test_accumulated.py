"""Unit tests of the Python package: gradients that a script accumulates over several steps of the run are in no state, so nothing of it is kept
or handed over before the optimizer has used them. Run by tests/torchrt/python.bats."""
import contextlib
import io
import os
import tempfile
import unittest
import unittest.mock

import stand_in


def trained(control, every, until=12, path=None, checkpoint_every=0, rank=0, world=1, late=False, steps=12, seconds=1e9, one=False):
    """The weight after a training whose optimizer steps every so many steps, and only of rank 0 where `one` says so; and its first step."""
    import torch
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1, bias=False).double()
    ddp = model if world == 1 else torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run = stand_in.join(control, rank, world, global_batch=2, steps=steps, checkpoint=path, checkpoint_every=checkpoint_every,
                        snapshot_seconds=seconds)
    run.register(model=ddp, optimizer=optimizer)
    numbers = torch.arange(6.0 * steps, dtype=torch.float64).reshape(2 * steps, 3).sin()
    first = 0
    with contextlib.suppress(ValueError):
        for step in run.steps():
            first = first or step
            if step > until:
                raise ValueError  # nothing is written then
            at = run.slice(step)
            loss = ddp(numbers[at.start:at.stop]).square().mean()
            loss.backward()
            if late:
                run.report(loss)
            if every and step % every == 0 and (not one or rank == 0):
                optimizer.step()
                optimizer.zero_grad()
            if not late:
                run.report(loss)
    return model.weight.detach().clone(), first


def in_parts(rank, world):
    """The weights after steps in parts of one sample, whose optimizer makes a step in every third one."""
    import torch
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1, bias=False).double()
    ddp = torch.nn.parallel.DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run = stand_in.join(stand_in.Control(), rank, world, global_batch=5, steps=9)
    run.register(model=ddp, optimizer=optimizer)
    numbers, losses = torch.arange(9 * 5 * 3, dtype=torch.float64).reshape(-1, 3).sin(), []
    for step in run.steps():
        for part in run.parts(step, 1):
            run.backward(ddp(numbers[list(part)]).square().mean(), part)
        if step % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(run.report())
    return model.weight.flatten().tolist() + losses


def on_two(rank, world, one):
    control = stand_in.Control([(3, "switch"), (3, "resume")])
    trained(control, 2, rank=rank, world=world, one=one)
    return [told["step"] for told in control.told if told["type"] == "switched"]


class Accumulated(unittest.TestCase):
    def switched(self, every, says, **settings):
        control = stand_in.Control(says)
        trained(control, every, **settings)
        return [told["step"] for told in control.told if told["type"] == "switched"]

    def test_a_change_waits_for_the_optimizer_on_all_processes(self):
        for late in (False, True):
            self.assertEqual(self.switched(1, [(3, "switch"), (3, "resume")], late=late), [4])
            self.assertEqual(self.switched(3, [(3, "switch"), (3, "resume")], late=late), [6])
            self.assertEqual(self.switched(4, [(0, "switch"), (0, "resume")], late=late), [4])
        import torch.distributed  # noqa: F401 for all that are forked
        self.assertEqual(stand_in.processes(2, on_two, False), [[4], [4]])
        self.assertEqual(stand_in.processes(2, on_two, True), [[4], [4]])  # the other has nothing to do

    def test_gradients_of_earlier_steps_are_not_summed_once_more_over_the_processes(self):
        import torch.distributed  # noqa: F401 for all that are forked
        alone = in_parts(0, 1)
        for world in (2, 3):
            for found in stand_in.processes(world, in_parts):
                self.assertIsInstance(found, list, found)
                for one, other in zip(found, alone):
                    self.assertAlmostEqual(one, other, 12)

    def test_a_training_that_is_started_again_loses_no_gradient(self):
        whole, _ = trained(stand_in.Control(), 2)
        for every, kept in ((1, 6), (3, 6), (5, 6), (2, 6), (7, 0)):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "c")
                trained(stand_in.Control(), 2, 7, path, every)
                again, first = trained(stand_in.Control(), 2, path=path)
                self.assertEqual(first, kept + 1)
                self.assertTrue(bool((again == whole).all()), (every, again, whole))

    def test_a_snapshot_waits_too(self):
        from espalier import _snapshots
        made = []
        with unittest.mock.patch.object(_snapshots.Snapshots, "due", lambda _: True), \
                unittest.mock.patch.object(_snapshots.Snapshots, "make", lambda _, step, elsewhere=True: made.append(step)):
            trained(stand_in.Control(), 3, seconds=0.0)
        self.assertEqual(made, [0, 3, 6, 9, 12])

    def test_an_optimizer_that_never_steps_holds_nothing_up_for_ever_and_it_is_said_once(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            steps = self.switched(0, [(2, "switch"), (2, "resume")], steps=80, until=80)
        self.assertEqual(steps, [65])
        self.assertEqual(said.getvalue().count("no registered optimizer has made a step in 64 steps"), 1, said.getvalue())


if __name__ == "__main__":
    unittest.main()
