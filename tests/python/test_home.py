"""Unit tests of the Python package: the memory in which a state lives, and that its pages are handed over. Run by tests/torchrt/python.bats."""
import array
import contextlib
import copy
import faulthandler
import gc
import importlib.util
import io
import itertools
import os
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
import unittest
import unittest.mock

import torch

import stand_in
from espalier import _checkpoint, _forks, _home, _memory, _state, _whole

torch.set_num_threads(1)
SEAL, TOKEN = b"k" * 32, f"test-home-{os.getpid()}"


def training(width=700, seed=1, **more):
    """Some 17 MB with the optimizer's moments."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.BatchNorm1d(width))
    return {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=0.01), **more}


def train(objects, steps, seed=7):
    torch.manual_seed(seed)
    model, optimizer = objects["model"], objects["optimizer"]
    width = next(model.parameters()).shape[1]
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, width)).square().mean().backward()
        optimizer.step()


def packing(objects):
    return lambda step, home: _state.Packed(step, objects, seal=SEAL, home=home)


def moved(objects, pack=None, **more):
    """As in a process that has joined just now."""
    _forks.begin()
    home = _home.Home(objects, pack or packing(objects), **more)
    home.between_steps()
    home.between_steps()
    return home


def flat(objects):
    """All tensors of the state, one after the other."""
    found = []
    _state.mapped({name: one.state_dict() for name, one in objects.items()}, lambda one: found.append(one) if isinstance(one, torch.Tensor) else None)
    return torch.cat([one.detach().double().reshape(-1) for one in found])


def read_into(objects, fd):
    step, state = _state.read(_memory.private_map(fd), SEAL, objects)
    _state.apply(objects, state, "the state")
    return step


def live_maps():
    gc.collect()
    with open("/proc/self/maps", encoding="ascii") as lines:
        return sum("memfd:espalier-live" in line for line in lines)


def peak_mb():
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def in_child(what):
    """The status of a forked process that does it and returns one."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True, file=sys.__stderr__)
        status = 9
        try:
            status = what()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
