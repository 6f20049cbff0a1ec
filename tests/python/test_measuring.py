"""Unit tests of the Python package: what a training tells of its steps, and what it says where they cannot be measured. Run by
tests/torchrt/python.bats."""
import contextlib
import io
import math
import unittest
import unittest.mock

import stand_in


def trained(how, steps=30):
    """What the launcher was told, and what the script's user was."""
    import torch
    control, error = stand_in.Control(), io.StringIO()
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = stand_in.join(control, global_batch=2, steps=steps)
    run.register(model=model, optimizer=None if how == "unregistered" else optimizer)
    means = []
    with contextlib.redirect_stderr(error):
        for step in run.steps():
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4)).square().mean()
            loss.backward()
            if how == "before":
                means.append(run.report(loss))
            if how != "seldom" or step % 4 == 0:
                optimizer.step()
            if how in ("after", "unregistered", "seldom"):
                means.append(run.report(loss))
            if how == "no loss":
                means.append(run.report())
    return control, error.getvalue(), means


class WholeAverage:
    """Of a divided parameter: it gathers what the processes have, as scripts do that keep whole tensors."""

    def __init__(self, parameter):
        self.parameter = parameter

    def state_dict(self):
        return {"mean": self.parameter.detach().full_tensor()}

    def load_state_dict(self, state):
        pass


def divided(rank, world):
    """The profile that a process tells, with an object whose state_dict() is an exchange of all."""
    import torch
    from torch.distributed.fsdp import fully_shard
    control = stand_in.Control()
    run = stand_in.join(control, rank, world, global_batch=2, steps=7)
    model = fully_shard(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run.register(model=model, optimizer=optimizer, average=WholeAverage(model.weight))
    for step in run.steps():
        optimizer.zero_grad()
        loss = model(torch.ones(1, 4)).square().mean()
        loss.backward()
        optimizer.step()
        run.report(loss)
    return [one["flat"]["state_bytes"] for one in control.told if one["type"] == "profile"]


class Event:
    """Of a GPU that is not there."""

    made = waited = 0
    on = set()  # streams

    def __init__(self, enable_timing):
        Event.made += 1

    def record(self, stream):
        Event.on.add(stream)

    def synchronize(self):
        Event.waited += 1

    def elapsed_time(self, other):
        return 1.0


class Measuring(unittest.TestCase):
    def test_a_training_that_cannot_be_measured_says_once_why_it_will_not_grow(self):
        for how, why in (("before", "run.report() comes before the optimizer's step(); call it after"),
                         ("never", "run.report() is not called in each step"),
                         ("unregistered", "no registered optimizer makes a step; name it in run.register()")):
            control, said, _ = trained(how)
            self.assertEqual(said, f"espalier: 12 steps could not be measured, so this job will not grow: {why}\n")
            self.assertNotIn("profile", control.kinds())
        control, said, _ = trained("seldom")
        self.assertEqual((said, control.kinds().count("profile")), ("", 1))
        control, said, _ = trained("after")
        self.assertEqual((said, control.kinds().count("profile")), ("", 3))

    def test_a_loss_that_nobody_tells_is_no_number(self):
        control, said, means = trained("no loss", 7)
        self.assertTrue(all(map(math.isnan, means)))
        self.assertEqual([one["loss"] for one in control.told if one["type"] == "step"], [None] * 7)
        self.assertEqual((said, control.kinds().count("profile")), ("", 1))

    def test_all_processes_of_a_divided_state_measure_its_size_as_to_ask_for_it_may_be_an_exchange_of_all(self):
        import torch.distributed.fsdp  # noqa: F401 for all that are forked
        self.assertEqual(stand_in.processes(2, divided), [[4 * (8 + 2 + 8)], []])

    def test_on_a_gpu_events_are_used_again_and_only_steps_before_a_profile_are_waited_for(self):
        import torch
        from espalier import _gradients, _measuring, _profile
        gpu = torch.device("cuda", 1)
        with unittest.mock.patch.object(torch.cuda, "Event", Event), unittest.mock.patch.object(torch.cuda, "current_stream", str):
            averager = _gradients.Averager([], 1, gpu)
            measuring = _measuring.Measuring(averager, gpu)
            marked, told = [], []
            for step in range(1, 76):
                measuring.begin()
                averager.last_bucket = averager._mark.now() if averager.marks else None
                measuring.optimizes(False)
                waited = Event.waited
                measuring.reports()
                marked += [step] if Event.waited > waited else []
                if measuring.is_due():
                    told.append((step, measuring.told()[3]))
        self.assertEqual((Event.made, Event.on), (4, {"cuda:1"}))  # the model's, which need not be the current one
        self.assertEqual(marked, [*range(1, 26), *range(35, 51), *range(60, 76)])
        self.assertEqual(told, [(6, 6), (12, 6), (25, 13), (50, 16), (75, 16)])
        self.assertTrue(all(_profile.near(step) for step in range(1, 200) if _profile.due(step)))


if __name__ == "__main__":
    unittest.main()
