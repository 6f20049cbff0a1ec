"""Unit tests of the Python package: the pages of a state go from one generation to the next. Run by tests/torchrt/python.bats."""
import faulthandler
import os
import signal
import tempfile
import time
import traceback
import unittest
import unittest.mock

import torch

import stand_in
from homes import TOKEN, flat, live_maps, moved, read_into, train, training
from espalier import _checkpoint, _forks, _home, _memory, _state, _whole


def divided(rank, world):
    """FSDP2: bytes that a process copies of its part with and without a home, and whether it trains and is read as without one."""
    from torch.distributed.fsdp import fully_shard
    from espalier import _divided, _shards

    def made():
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(1200, 1200), torch.nn.Tanh(), torch.nn.Linear(1200, 1200))
        for layer in (model[0], model[2], model):
            fully_shard(layer)
        return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=0.01)}

    def local(objects):
        state = {name: one.state_dict() for name, one in objects.items()}
        found = []
        _state.mapped(state, lambda one: found.append(one) if isinstance(one, torch.Tensor) else None)
        return torch.cat([(one.to_local() if _state.is_divided(one) else one).detach().reshape(-1) for one in found])

    one, alone = made(), made()
    for objects in (one, alone):
        train(objects, 2)
    worker = stand_in.Worker(rank, world, 4, stand_in.Control())
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="9")
    hand = _divided.Divided(worker, one, None)
    hand.between_steps()
    hand.between_steps()
    for objects in (one, alone):
        train(objects, 2)
    same = torch.equal(local(one), local(alone))
    copied = hand._home.pack(4).copied, hand.pack(4).copied
    hand.provide(4)
    shelf = _shards.Shelf(hand._home._memory.fd, worker.seal)
    train(one, 1)
    train(alone, 1)
    step, parts = shelf.head.step, sum(isinstance(leaf, _state.Part) for leaf in _shards._leaves(shelf.head.tree).values())
    same = same and torch.equal(local(one), local(alone))
    if world == 1:  # the next generation's state moves too
        state, other = _shards.assemble(one, [shelf], lambda _: None)[0], made()
        train(other, 1)
        _state.apply(other, state, "the state")
        home = moved(other)
        return same, (home.pack(4) is not None and home.pack(4).copied, hand.pack(4).copied), step, parts
    return same, copied, step, parts


def of_two_nodes(rank, world, token):
    """Rank 0 is on the node where the state is handed over. Returns bytes that were read here and from there, of the state's memory, and the state."""
    def hand(objects, generation, own, nodes):
        worker = stand_in.Worker(own, len(nodes), 4, stand_in.Control())
        worker.token, worker.generation, worker.nodes = token, generation, nodes
        return _whole.Whole(worker, objects, None)

    one, other = training(), training(seed=2)
    train(one, 3)
    if rank == 0:
        old = hand(one, 0, 0, ["n"])
        old.between_steps()
        old.between_steps()
        old.provide(3)
    new = hand(other, 1, rank, ["n", "m"])
    taken = new.take_over(Generations.source)
    torch.distributed.barrier()
    return taken.step, taken.near_bytes, taken.far_bytes, _memory.written_bytes(taken.fd), torch.equal(flat(one), flat(other))


class Divided(unittest.TestCase):
    def test_of_a_state_that_is_divided_the_moments_are_handed_over_and_the_parameters_copied(self):
        import torch.distributed.fsdp  # noqa: F401 for all that are forked
        for world in (2, 1):
            for found in stand_in.processes(world, divided):
                self.assertEqual((found[0], *found[2:]), (True, 4, 12), found)
                within, whole = found[1]
                self.assertTrue(0 < within < whole / 2, found)
                self.assertGreater(whole, 16 << 20)


class Generations(unittest.TestCase):
    """Two generations on one node, the parts of the package that a launcher leads."""

    def hand(self, objects, worker):
        return _whole.Whole(worker, objects, None)

    def worker(self, generation, source=None):
        worker = stand_in.Worker(0, 1, 4, stand_in.Control())
        worker.token, worker.generation, worker.source = TOKEN, generation, source
        return worker

    source = {"generation": 0, "plan": {"stages": [{"replicas": [{"gpus": ["n/0"]}]}]}}

    def old(self, steps=3, resumes=False):
        """A process that trains, hands its state over after `steps`, and stands. Returns its number, and what it says when it goes on."""
        told, go = os.pipe(), os.pipe()
        child = os.fork()
        if child:
            os.close(told[1])
            os.close(go[0])
            self.assertEqual(os.read(told[0], 1), b"x")
            return child, told[0], go[1]
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            one = training()
            train(one, steps)
            hand = self.hand(one, self.worker(0))
            hand.between_steps()
            hand.between_steps()
            train(one, steps)
            with unittest.mock.patch.object(_whole, "SharedMemory", side_effect=AssertionError("a copy was made")):
                hand.provide(2 * steps)
            os.write(told[1], b"x")
            os.read(go[0], 1)
            hand.withdraw()
            train(one, steps)
            os.write(told[1], b"%.17g" % flat(one).sum().item())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def alone(self, steps):
        one = training()
        for _ in range(steps // 3):
            train(one, 3)
        return one

    def test_an_old_process_that_is_killed_leaves_its_state_to_the_new_one(self):
        pid, told, go = self.old()
        other = training(seed=2)
        hand = self.hand(other, self.worker(1))
        taken = hand.take_over(self.source)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.assertEqual(taken.step, 6)
        os.close(taken.fd)
        self.assertTrue(torch.equal(flat(other), flat(self.alone(6))))
        train(other, 3)
        self.assertTrue(torch.equal(flat(other), flat(self.alone(9))))
        self.moves(hand, other, 9)

    def test_another_node_gets_no_room_that_nobody_has_written(self):
        import torch.distributed  # noqa: F401 for all that are forked
        (step, near, _, written, same), (far_step, _, far, there, far_same) = stand_in.processes(2, of_two_nodes, TOKEN + "-two")
        self.assertEqual((step, far_step, same, far_same), (3, 3, True, True))
        self.assertEqual((far, there), (written, written))
        self.assertLess(written, near - (1 << 20))

    def moves(self, hand, objects, step):
        """The moments too: no view keeps the memory that they came in, and nobody here maps it any more."""
        _forks.begin()
        hand.between_steps()
        hand.between_steps()
        packed = hand._home.pack(step)
        self.assertLess(packed.copied, 2 << 20)
        self.assertEqual(live_maps(), 1)
        other = training(seed=3)
        read_into(other, hand._home.give(packed))
        self.assertTrue(torch.equal(flat(other), flat(objects)))
        del other, packed
        self.assertEqual(live_maps(), 1)

    def test_the_moments_of_a_checkpoint_move_too(self):
        one, other = training(), training(seed=2)
        train(one, 3)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            _checkpoint.write(path, 3, one, 0, 1, False, lambda _: None)
            self.assertEqual(_checkpoint.load(path, other, False), 3)
        hand = self.hand(other, self.worker(2))
        self.moves(hand, other, 3)

    def test_a_new_process_that_is_killed_after_it_has_written_leaves_the_old_one_as_it_was(self):
        pid, told, go = self.old()
        ready = os.pipe()
        new = os.fork()
        if new == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            try:
                other = training(seed=2)
                self.hand(other, self.worker(1)).take_over(self.source)
                train(other, 2, seed=11)
                os.write(ready[1], b"x")
                time.sleep(100)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(ready[1])
        self.assertEqual(os.read(ready[0], 1), b"x")
        os.kill(new, signal.SIGKILL)
        os.waitpid(new, 0)
        os.write(go, b"x")
        self.assertEqual(float(os.read(told, 100)), flat(self.alone(9)).sum().item())
        os.waitpid(pid, 0)


if __name__ == "__main__":
    unittest.main()
