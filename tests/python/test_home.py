"""Unit tests of the Python package: which tensors of a state move into shared memory, and when. Run by tests/torchrt/python.bats."""
import array
import contextlib
import copy
import gc
import importlib.util
import io
import itertools
import os
import struct
import tempfile
import unittest
import unittest.mock

import torch

import stand_in
from homes import SEAL, flat, in_child, live_maps, moved, packing, peak_mb, read_into, train, training
from espalier import _home, _memory, _state


class Homes(unittest.TestCase):
    def same(self, one, other):
        self.assertTrue(torch.equal(flat(one), flat(other)))

    def test_a_state_that_has_moved_trains_as_before_and_is_handed_over_without_a_copy_of_it(self):
        one, alone = training(), training()
        for objects in (one, alone):
            train(objects, 3)
        home = moved(one)
        for objects in (one, alone):
            train(objects, 3)
        self.same(one, alone)
        packed = home.pack(6)
        self.assertLess(packed.copied, 2 << 20)  # the head and what is small
        self.assertGreater(_state.Packed(6, one).copied, 11 << 20)
        fd, other = home.give(packed), training(seed=2)
        self.assertEqual(read_into(other, fd), 6)
        self.same(other, one)
        train(other, 3)
        train(alone, 3)
        self.same(other, alone)

    def test_what_is_given_never_changes_whoever_goes_on(self):
        one, alone = training(), training()
        for objects in (one, alone):
            train(objects, 3)
        home = moved(one)
        fd = home.give(home.pack(3))
        kept = os.pread(fd, os.fstat(fd).st_size, 0)
        other = training(seed=2)
        read_into(other, fd)
        train(other, 2, seed=9)  # the next generation, which is given up
        train(one, 2)            # the one that goes on
        train(alone, 2)
        self.same(one, alone)
        self.assertEqual(os.pread(fd, len(kept), 0), kept)
        home.leave()
        home.between_steps()  # it can be handed over once more
        fd = home.give(home.pack(5))
        read_into(other, fd)
        self.same(other, alone)

    def test_a_script_says_whether_the_state_moves(self):
        for settings, wanted in (({}, True), ({"hand_over_pages": False}, False)):
            run = stand_in.join(stand_in.Control(), global_batch=4, steps=4, **settings)
            one = training()
            run.register(**one)
            with unittest.mock.patch.object(torch.distributed, "new_group"), unittest.mock.patch.object(torch.distributed, "barrier"):
                run.start()
            for _ in range(3):
                run.begin()
                train(one, 1)
                run.report(0.5)
                run.end()
            self.assertEqual(run._trainer._hand._home.pack(3) is not None, wanted)

    def test_a_state_that_cannot_be_packed_or_moved_trains_on_where_it_is_and_it_is_said_once(self):
        class Sparse:
            def __init__(self, value):
                self.value = value

            def state_dict(self):
                if isinstance(self.value, Exception):
                    raise self.value
                return {"it": self.value}

            def load_state_dict(self, state):
                pass

        for value, word in ((torch.eye(3).to_sparse(), "only dense tensors"), (lambda: 0, "cannot be packed"), (KeyError("no such key"), "no such key"),
                            (MemoryError(), "MemoryError")):
            one, said = training(other=Sparse(value)), io.StringIO()
            train(one, 2)
            with contextlib.redirect_stderr(said):
                home = moved(one)
                home.between_steps()
            self.assertIsNone(home.pack(2))
            self.assertEqual(said.getvalue().count("espalier: worker: rank 0: the state cannot move"), 1, said.getvalue())
            self.assertIn(word, said.getvalue())
            train(one, 1)
        one, alone, said, count = training(), training(), io.StringIO(), live_maps()
        for objects in (one, alone):
            train(objects, 2)
        put, calls = _home._put, itertools.count()
        with contextlib.redirect_stderr(said), unittest.mock.patch.object(
                _home, "_put", lambda *them: put(*them) if next(calls) < 2 else exec("raise RuntimeError('not enough memory')")):
            home = moved(one)  # some of it
        self.assertIn("not enough memory", said.getvalue())
        home.between_steps()
        self.assertEqual(live_maps(), count)  # and back
        for objects in (one, alone):
            train(objects, 2)
        self.same(one, alone)

    def test_tensors_that_share_their_memory_with_others_stay_there_and_with_them(self):
        one = training()
        first, last = one["model"][0], one["model"][2]
        last.weight = first.weight  # tied: one tensor
        one["optimizer"] = torch.optim.AdamW(one["model"].parameters(), lr=0.01)
        train(one, 2)
        whole = torch.zeros(2 * 700 * 700)  # a flat buffer of the script's own, of which tensors are parts
        one["model"].register_buffer("part", whole[:700 * 700].view(700, 700))
        one["model"].register_buffer("row", torch.zeros(700 * 700))
        one["model"].register_buffer("columns", torch.zeros(700, 700).t())
        alias, numbers = one["model"].row.detach(), one["model"].row.numpy()
        for state in one["optimizer"].state.values():
            state["other"] = torch.zeros(900, 900)  # what makes it worth a move
        home = moved(one)
        self.assertIsNotNone(home.offset(first.weight))
        self.assertIs(last.weight, first.weight)
        for name in ("part", "row", "columns"):
            self.assertIsNone(home.offset(getattr(one["model"], name)), name)
        whole.fill_(3)
        numbers[0] = 5
        self.assertEqual((one["model"].part[0, 0], alias[0], one["model"].row[0]), (3, 5, 5))
        train(one, 2)
        fd = home.give(home.pack(4))
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            _, state = _state.read(_memory.private_map(file.fileno()), SEAL)
        self.assertTrue(torch.equal(state["model"]["2.weight"], first.weight))
        self.assertTrue(torch.equal(state["model"]["part"], one["model"].part))
        self.assertEqual(state["model"]["row"][0], 5)

    def test_memory_that_others_look_into_or_that_no_state_has_stays_where_it_is(self):
        one = training()
        big = array.array("f", bytes(4 * 700 * 700))  # as of NumPy, whose arrays torch.from_numpy() looks into
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(4 * 700 * 700)
            for name, value, kept in (("shared", torch.zeros(700, 700).share_memory_(), True), ("file", torch.from_file(
                    file.name, shared=True, size=700 * 700), True), ("array", torch.frombuffer(big, dtype=torch.float32), True),
                    ("unkept", torch.zeros(700, 700), False), ("pinned", torch.zeros(701, 700), True), ("plain", torch.zeros(700, 700), True)):
                one["model"].register_buffer(name, value, persistent=kept)
            train(one, 2)
            pinned = torch.Tensor.is_pinned
            with unittest.mock.patch.object(torch.Tensor, "is_pinned", lambda one: one.shape == (701, 700) or pinned(one)):  # no GPU pins here
                home = moved(one)
            self.assertIsNotNone(home.offset(one["model"].plain))
            for name in ("shared", "file", "array", "unkept", "pinned"):
                self.assertIsNone(home.offset(getattr(one["model"], name)), name)
            one["model"].array[0] = 5
            one["model"].file[0] = 6
            self.assertEqual(big[0], 5)
            self.assertEqual(struct.unpack("f", file.read(4)), (6,))
            self.assertTrue(one["model"].shared.is_shared())
            self.assertIsNotNone(home.pack(2))

    def test_tensors_of_other_classes_which_may_have_no_address_are_copied(self):
        class Odd(torch.Tensor):
            def data_ptr(self):
                raise RuntimeError("no storage")

        one, count = training(), live_maps()
        train(one, 2)
        next(iter(one["optimizer"].state.values()))["odd"] = torch.ones(9).as_subclass(Odd)
        home, other = moved(one), training(seed=2)
        read_into(other, home.give(home.pack(2)))
        self.assertEqual(next(iter(other["optimizer"].state.values()))["odd"].sum(), 9)
        home.leave()
        in_child(lambda: 0)
        home.between_steps()
        del other
        self.assertEqual(live_maps(), count)

    def test_a_tensor_that_something_looks_into_since_the_move_began_stays_there(self):
        one, kept = training(), []
        train(one, 2)

        def pack(step, home):
            kept.append(one["model"][0].weight.detach())  # as another thread might
            return packing(one)(step, home)

        home = moved(one, pack)
        self.assertIsNone(home.offset(one["model"][0].weight))
        self.assertIsNotNone(home.offset(one["model"][2].weight))
        with torch.no_grad():
            one["model"][0].weight.fill_(3)
        self.assertEqual(kept[0][0, 0], 3)
        self.assertIsNone(home.pack(2))  # it has no room there, so all is copied

    def test_where_the_script_has_replaced_most_tensors_they_are_copied_and_move_again(self):
        one, count = training(), live_maps()
        train(one, 2)
        home = moved(one)
        one["optimizer"].load_state_dict(copy.deepcopy(one["optimizer"].state_dict()))
        self.assertIsNone(home.pack(2))
        home.leave()
        home.between_steps()
        self.assertLess(home.pack(2).copied, 2 << 20)
        self.assertEqual(live_maps(), count + 1)

    def test_tensors_that_lie_in_the_memory_once_are_read_as_two(self):
        class Kept:
            def __init__(self, value):
                self.value = value

            def state_dict(self):
                return {"it": self.value}

            def load_state_dict(self, state):
                self.value = state["it"]

        one = training()
        train(one, 2)
        one["kept"] = Kept(one["model"][0].weight)
        home, other = moved(one), training(seed=2, kept=Kept(None))
        other["more"] = Kept(None)
        one["more"] = Kept(one["model"][0].weight)
        read_into(other, home.give(home.pack(2)))
        other["kept"].value.zero_()
        self.assertTrue(torch.equal(other["more"].value, one["model"][0].weight))

    @unittest.skipUnless(importlib.util.find_spec("networkx"), "torch.compile() needs networkx, which the tests' torch has not")
    def test_a_compiled_module_trains_on_where_its_parameters_have_moved(self):
        one, alone = training(), training()
        compiled = [{**objects, "model": torch.compile(objects["model"], backend="aot_eager")} for objects in (one, alone)]
        for objects in compiled:
            train(objects, 3)
        self.assertIsNotNone(moved(one).pack(3))
        for objects in compiled:
            train(objects, 3)
        self.same(one, alone)

    def test_what_outgrows_its_room_is_copied_as_a_whole(self):
        class Log:
            kept = ""

            def state_dict(self):
                return {"kept": self.kept}

            def load_state_dict(self, state):
                self.kept = state["kept"]

        for grow in (lambda one: setattr(one["log"], "kept", "x" * (3 << 20)),
                     lambda one: [state.update(more=torch.ones(1000, 1000)) for state in one["optimizer"].state.values()]):
            one = training(log=Log())
            train(one, 2)
            home = moved(one)
            self.assertIsNotNone(home.pack(2))
            grow(one)
            self.assertIsNone(home.pack(3))

    def test_a_state_of_which_little_could_move_stays_and_one_without_memory_for_it_too(self):
        small = training(width=8)
        train(small, 2)
        self.assertIsNone(moved(small).pack(2))
        one, alone = training(), training()
        for objects in (one, alone):
            train(objects, 2)
        with unittest.mock.patch.object(_home, "SharedMemory", side_effect=OSError(12, "Cannot allocate memory")), \
                contextlib.redirect_stderr(io.StringIO()):
            home = moved(one)
        self.assertIsNone(home.pack(2))
        train(one, 2)
        train(alone, 2)
        self.same(one, alone)

    def test_a_move_needs_room_for_one_tensor_and_what_nobody_has_any_more_is_given_back(self):
        count = live_maps()
        torch.manual_seed(1)
        model = torch.nn.Sequential(*[torch.nn.Linear(1400, 1400) for _ in range(12)])  # 94 MB, in tensors of 8
        objects = {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}
        gc.collect()
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # the peak begins anew
        before = peak_mb()
        home = moved(objects)
        self.assertIsNotNone(home.pack(0))
        self.assertLess(peak_mb() - before, 40)
        self.assertEqual(live_maps(), count + 1)
        del model, objects, home
        self.assertEqual(live_maps(), count)


if __name__ == "__main__":
    unittest.main()
