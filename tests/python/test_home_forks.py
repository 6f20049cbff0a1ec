"""Unit tests of the Python package: a process whose state lives in shared memory forks, or cannot freeze it. Run by tests/torchrt/python.bats."""
import contextlib
import faulthandler
import io
import os
import threading
import unittest
import unittest.mock

import torch

import stand_in
from homes import flat, in_child, live_maps, moved, packing, read_into, train, training
from espalier import _forks, _home, _memory, _whole


class Forks(unittest.TestCase):
    def same(self, one, other):
        self.assertTrue(torch.equal(flat(one), flat(other)))

    def test_a_child_sees_the_state_of_its_moment_and_writes_nothing_into_its_parents(self):
        one = training()
        train(one, 3)
        home = moved(one)
        before, told = flat(one), os.pipe()
        go = os.pipe()
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            status = 1
            try:
                os.read(go[0], 1)  # the parent has trained on
                status = 0 if torch.equal(flat(one), before) else 2
                with torch.no_grad():
                    for parameter in one["model"].parameters():
                        parameter.zero_()
            finally:
                os.write(told[1], b"x")
                os._exit(status)
        os.close(told[1])
        train(one, 2)
        after = flat(one)
        os.write(go[1], b"x")
        os.read(told[0], 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(torch.equal(flat(one), after))
        self.assertFalse(torch.equal(before, after))
        self.assertIsNone(home.pack(5))

    def test_after_a_fork_the_state_goes_back_to_torchs_memory_and_stays_there(self):
        count, one, alone = live_maps(), training(), training()
        for objects in (one, alone):
            train(objects, 3)
        home = moved(one)
        self.assertEqual(live_maps(), count + 1)
        alias = one["model"][0].weight.detach()  # since the move
        self.assertEqual(in_child(lambda: 0), 0)
        for objects in (one, alone):
            train(objects, 1)
        home.between_steps()
        for objects in (one, alone):
            train(objects, 2)
        self.same(one, alone)
        self.assertTrue(torch.equal(alias, alone["model"][0].weight))  # a tensor that is looked into stays with who does so
        self.assertFalse(one["model"][0].weight.untyped_storage().resizable())
        del alias
        others = [one["model"][2].weight, *(value for state in one["optimizer"].state.values() for value in state.values())]
        self.assertTrue(all(value.untyped_storage().resizable() for value in others))
        one["model"][0].weight.data = one["model"][0].weight.clone().detach()
        self.assertEqual(live_maps(), count)
        home.between_steps()
        self.assertIsNone(home.pack(6))
        self.assertEqual(live_maps(), count)

    def test_where_the_process_has_forked_before_or_the_script_says_so_the_state_never_moves(self):
        one = training()
        train(one, 1)
        home = _home.Home(one, packing(one))
        _forks.begin()
        home.between_steps()
        in_child(lambda: 0)  # as the first epoch's DataLoader forks
        home.between_steps()
        self.assertIsNone(home.pack(2))
        self.assertIsNone(moved(one, able=False).pack(2))
        self.assertIsNotNone(moved(one).pack(2))

    def test_memory_that_cannot_be_frozen_is_not_given_and_a_child_of_it_writes_nothing_into_its_parents(self):
        one, alone, said, frozen = training(), training(), io.StringIO(), _home._private_in_place
        for objects in (one, alone):
            train(objects, 2)
        home, parent = moved(one), os.getpid()

        def zero():
            for value in one["model"].parameters():
                value.data.zero_()
            return 0

        def refuses(*where, ours=True):
            if os.getpid() == parent or not ours:
                raise OSError(12, "Cannot allocate memory")
            return frozen(*where)

        with contextlib.redirect_stderr(said):
            with unittest.mock.patch.object(_home, "_private_in_place", refuses):
                self.assertEqual(in_child(zero), 0)
                self.assertIsNone(home.give(home.pack(2)))
                home.leave()
                home.between_steps()
            with unittest.mock.patch.object(_home, "_private_in_place", lambda *where: refuses(ours=False)):
                self.assertEqual(in_child(zero), 1)
        self.assertEqual(said.getvalue().count("cannot be frozen: [Errno 12]"), 1)  # in this process
        self.same(one, alone)
        for objects in (one, alone):
            train(objects, 1)
        self.same(one, alone)
        home.between_steps()  # now it can
        self.assertIsNone(home.pack(3))
        self.same(one, alone)

    def test_two_threads_that_fork_at_once_freeze_the_state_once(self):
        one, alone, frozen, counted = training(), training(), _home._private_in_place, []
        for objects in (one, alone):
            train(objects, 2)
        home, other = moved(one), None

        def slowly(*where):
            counted.append(other.start())  # the second fork begins while the first one's memory is being frozen
            other.join(0.3)
            frozen(*where)

        other = threading.Thread(target=in_child, args=(lambda: 0,))
        with unittest.mock.patch.object(_home, "_private_in_place", slowly):
            self.assertEqual(in_child(lambda: 0), 0)
            train(one, 1)
            other.join(60)
        train(alone, 1)
        self.assertEqual(len(counted), 1)

        def forks():
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)

        def from_a_thread():
            thread = threading.Thread(target=forks, daemon=True)
            thread.start()
            thread.join(30)
            return int(thread.is_alive())

        self.assertEqual(in_child(from_a_thread), 0)  # a child may fork too, whichever of its threads
        self.same(one, alone)
        home.between_steps()
        self.same(one, alone)

    def test_memory_that_a_fork_has_frozen_before_its_head_was_written_is_not_given(self):
        one = training()
        train(one, 2)
        home = moved(one)
        packed = home.pack(2)
        in_child(lambda: 0)  # of another thread
        self.assertIsNone(home.give(packed))
        one = training()
        train(one, 2)
        home = moved(one)
        packed = home.pack(2)
        write = packed.write
        packed.write = lambda memory: (write(memory), in_child(lambda: 0))  # of a signal's handler
        self.assertIsNone(home.give(packed))
        one = training()
        train(one, 2)
        hand = _whole.Whole(stand_in.Worker(0, 1, 4, stand_in.Control()), one, None)
        hand._home = moved(one, pack=hand.pack)
        with unittest.mock.patch.object(_home.Home, "give", lambda *_: None):
            hand.provide(2)  # a copy
        other = training(seed=2)
        self.assertEqual(read_into(other, hand._memory.fd), 2)
        self.same(other, one)
        hand.withdraw()


if __name__ == "__main__":
    unittest.main()
