"""Unit tests of the Python package: what must be the same in all processes when a training begins. Run by tests/torchrt/python.bats."""
import os
import tempfile
import unittest
import unittest.mock

import stand_in
from test_ending import step_of, training


def written(path, global_batch=4):
    """A checkpoint after two steps of one process."""
    run, model, optimizer = training(0, 1, path, stand_in.Control(), "plain", global_batch=global_batch)
    for step in run.steps():
        step_of(model, optimizer, run)
        if step == 2:
            break


def begins(rank, world, paths, kind, begun, holds=None):
    """The first step of each process, or the error."""
    import torch.distributed as dist
    control = stand_in.Control()
    run, _, _ = training(rank, world, paths[rank], control, kind)
    try:
        found = run.start(begun[rank], holds and holds[rank])
    except RuntimeError as error:
        found = str(error)
    dist.destroy_process_group()
    return found


def begun_by(run):
    """The first step of the run, or the error. The process groups are gone then."""
    import torch.distributed as dist
    try:
        found = run.start()
    except RuntimeError as error:
        found = str(error)
    dist.destroy_process_group()
    return found


def of_another_world(rank, world, told_rank, told_world):
    run, _, _ = training(told_rank, told_world, None, stand_in.Control(), "plain")
    return begun_by(run)


def on_a_default_device(rank, world, path):
    """Whether a training whose script has set a default device, of which nothing can be read, does what it does without."""
    import torch
    import torch.distributed as dist
    from espalier import Data, _exchange, _memory, _partners
    found = []
    for device in ("cpu", "meta"):
        run, model, optimizer = training(rank, world, path + device, stand_in.Control())
        again, _, _ = training(rank, world, path + device, stand_in.Control())
        torch.set_default_device(device)
        data, samples = Data(range(7), seed=1, collate=list), []
        for step in run.steps():
            samples += data.batch(run.slice(step))
            with torch.device("cpu"):  # what torch's optimizer makes
                step_of(model, optimizer, run, report=False)
            run.report(1.0)
        done = again.start()
        memory, received = _memory.SharedMemory(8), _memory.SharedMemory(8)
        memory.map[:] = bytes([rank + 1] * 8)
        _partners.Partners(["a", "b"], rank, dist.group.WORLD).exchange(memory, 8, lambda ward, size: received)
        found.append((samples, done, bytes(received.map), _exchange.told_by(1, rank, dist.group.WORLD),
                      [one.to_local().tolist() for one in again._objects["model"].parameters()]))
    torch.set_default_device("cpu")
    dist.destroy_process_group()
    return found


def divided_here(rank, world, unit, who):
    """The first step of a process whose model is divided where `who` names the process, or the error."""
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import Shard, distribute_tensor
    weight = distribute_tensor(torch.ones(4, 2), dist.device_mesh.init_device_mesh("cpu", (world,)), [Shard(0)])
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(weight if rank in who else torch.ones(4, 2), requires_grad=False)
    run = stand_in.join(stand_in.Control(), rank, world, global_batch=4, steps=2, unit=unit)
    run.register(model=model)
    return begun_by(run)


class Beginning(unittest.TestCase):
    def test_a_process_group_that_is_another_than_the_runs_is_refused_in_words(self):
        for told, words in (((0, 1), "process 0 of 1 of the run, and torch.distributed's group has 2 processes, of which it is"),
                            ((1, 3), "process 1 of 3 of the run, and torch.distributed's group has 2 processes, of which it is")):
            for rank, found in enumerate(stand_in.processes(2, of_another_world, *told)):
                self.assertIn(f"{words} {rank}", found)

    def test_a_default_device_of_the_scripts_is_nothing_to_the_packages_own_tensors(self):
        import torch.distributed.fsdp  # noqa: F401 for all that are forked
        with tempfile.TemporaryDirectory() as folder:
            for one in stand_in.processes(2, on_a_default_device, os.path.join(folder, "c")):
                self.assertIsInstance(one, list, one)
                self.assertEqual(*one)

    def test_a_model_that_only_some_processes_divide_is_refused_in_words_by_all(self):
        import torch.distributed.tensor  # noqa: F401 for all that are forked
        for unit in (1, 2):
            self.assertEqual(stand_in.processes(2, divided_here, unit, [0, 1]), [0, 0])
            self.assertEqual(stand_in.processes(2, divided_here, unit, []), [0, 0])
            for found in stand_in.processes(2, divided_here, unit, [1]):
                self.assertIn("the processes [1] of 2 register modules with divided tensors (DTensor), and the others register none", str(found))

    def both(self, paths, kind="ddp", begun=(0, 0), holds=None):
        return stand_in.processes(2, begins, paths, kind, begun, holds)

    def test_a_checkpoint_that_some_processes_do_not_see_is_refused_in_words(self):
        import torch.distributed.fsdp  # noqa: F401 for all that are forked
        with tempfile.TemporaryDirectory() as folder:
            there, elsewhere = os.path.join(folder, "c"), os.path.join(folder, "none")
            written(there)
            for kind in ("ddp", "fsdp"):
                self.assertEqual(self.both([there, there], kind), [2, 2])
                for found in self.both([there, elsewhere], kind):
                    self.assertIn("processes [0] of 2 find it, and the others do not; all must see the same file", found)

    def test_a_checkpoint_of_another_global_batch_is_refused_in_words_and_one_that_says_none_is_not(self):
        import torch.distributed.fsdp  # noqa: F401 for all that are forked
        from espalier import _checkpoint
        with tempfile.TemporaryDirectory() as folder:
            one = os.path.join(folder, "one")
            written(one, 2)  # two processes have steps of four samples
            for kind in ("ddp", "fsdp"):
                for found in self.both([one, one], kind):
                    self.assertIn("is of a training with global_batch=2, and espalier.join() was told 4; the steps that are done would be other samples", found)
                    self.assertIn("join with global_batch=2, or give this run a path of its own", found)
            run, _, _ = training(0, 1, one, stand_in.Control(), "plain")
            self.assertEqual(run.start(), 2)
            # As versions before have written it.
            real = _checkpoint.Packed
            with unittest.mock.patch.object(_checkpoint, "Packed", lambda step, objects, note, *more: real(step, objects, None, *more)):
                written(os.path.join(folder, "old"), 2)
            self.assertEqual(self.both([os.path.join(folder, "old")] * 2), [2, 2])

    def test_processes_that_would_begin_at_different_steps_are_refused_in_words(self):
        with tempfile.TemporaryDirectory() as folder:
            one, other = os.path.join(folder, "one"), os.path.join(folder, "other")
            written(one)
            written(other)
            run, model, optimizer = training(0, 1, other, stand_in.Control(), "plain", global_batch=4)
            for step in run.steps():
                step_of(model, optimizer, run)
                if step == 4:
                    break
            for found in self.both([one, other]):
                self.assertIn("the processes would go on after the steps [2, 4], by rank", found)
        self.assertEqual(self.both([None, None], begun=(3, 3)), [3, 3])
        for found in self.both([None, None], begun=(3, 0)):
            self.assertIn("the processes would go on after the steps [3, 0], by rank", found)

    def test_of_the_checkpoint_and_what_the_program_has_read_by_itself_the_newer_one_counts(self):
        import torch.distributed.fsdp  # noqa: F401 for all that are forked
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            written(path)
            for begun, done in (((5, 5), [5, 5]), ((2, 2), [2, 2]), ((1, 1), [2, 2]),
                                ((5, 3), [2, 2])):  # all have the checkpoint, and nothing else
                for kind in ("ddp", "fsdp"):
                    self.assertEqual(self.both([path, path], kind, begun), done)

    def test_what_the_program_has_read_by_itself_counts_only_where_it_holds_all_that_is_registered(self):
        import torch.distributed.fsdp  # noqa: F401 for all that are forked
        with tempfile.TemporaryDirectory() as folder:
            path, some, more = os.path.join(folder, "c"), ["model"], ["model", "optimizer", "other"]
            written(path)
            for kind in ("ddp", "fsdp"):
                for holds, done in (([more, more], 5), ([some, some], 2), ([some, more], 2)):
                    self.assertEqual(self.both([path, path], kind, (5, 5), holds), [done, done])
            self.assertEqual(self.both([None, None], begun=(5, 5), holds=[some, some]), [5, 5])  # there is nothing else

    def test_a_checkpoint_that_is_passed_over_is_refused_where_it_is_of_another_global_batch(self):
        import torch
        from espalier import _checkpoint
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            for divided, unit in ((False, 1), (True, 1), (False, 2)):
                _checkpoint.write(path, 7, {"model": torch.nn.Linear(2, 2)}, 0, 1, divided, lambda _: None, unit, global_batch=2)
                _checkpoint.check_batch(path, 2)
                with self.assertRaisesRegex(RuntimeError, "global_batch=2, and espalier.join.* was told 4"):
                    _checkpoint.check_batch(path, 4)
            os.remove(f"{path}.7.0.again")
            _checkpoint.check_batch(path, 4)  # a part that is gone says nothing

    def test_the_step_of_a_checkpoint_is_known_before_its_state_is_read(self):
        from espalier import _checkpoint
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            written(path)
            self.assertEqual(_checkpoint.step_of(path), 2)
            _, model, _ = training(0, 1, None, stand_in.Control(), "plain")
            for divided, unit in ((True, 1), (False, 2)):  # a file that names parts
                _checkpoint.write(path, 7, {"model": model}, 0, unit, divided, lambda _: None, unit)
                self.assertEqual(_checkpoint.step_of(path), 7)


if __name__ == "__main__":
    unittest.main()
