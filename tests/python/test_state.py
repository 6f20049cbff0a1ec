"""Unit tests of the Python package: the training's state, and how it goes from process to process. Run by
tests/torchrt/python.bats."""
import mmap
import os
import pickle
import tempfile
import threading
import time
import unittest
import unittest.mock

import stand_in
from espalier import _handover, _memory, _vault


class Memory(unittest.TestCase):
    def test_a_private_map_is_not_changed_by_others_and_changes_nobody(self):
        memory = _memory.SharedMemory(4096)
        memory.map[:3] = b"abc"
        private = _memory.private_map(memory.fd)
        private[:3] = b"xyz"
        self.assertEqual(memory.map[:3], b"abc")
        with self.assertRaises(OSError):
            os.ftruncate(memory.fd, 1)
        memory.close()

    def test_the_vaults_packets_are_as_large_as_its_structs(self):
        self.assertEqual((_vault._REQUEST.size, _vault._REPLY.size, _vault._ITEM.size), (48, 128, 32))

    def test_nobody_at_an_address_is_an_error(self):
        with self.assertRaises(OSError):
            _memory.connect("espalier-test-nobody", 1)
        self.assertEqual(_vault.inventory("espalier-test-nobody", 0, 1), [])
        self.assertIsNone(_vault.own_vault("espalier-test-nobody", "1"))


class Offers(unittest.TestCase):
    def test_a_name_is_free_again_when_its_offer_is_closed(self):
        for _ in range(200):
            _handover.Offer(f"espalier-test-{os.getpid()}").close()

    def test_an_offer_gives_its_memory_to_those_who_asked_before_it_had_any(self):
        name = f"espalier-test-{os.getpid()}-late"
        offer = _handover.Offer(name)
        memory = _memory.SharedMemory(4096)
        taken = []
        asking = threading.Thread(target=lambda: taken.append(_handover.take(name)))
        asking.start()
        offer.provide(7, memory.fd)
        asking.join(60)
        offer.close()
        self.assertEqual(taken[0][0], 7)
        os.close(taken[0][1])


class State(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch
        cls.torch = torch

    def training(self, width=4, seed=1):
        torch = self.torch
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        return objects

    def train(self, objects, steps):
        torch = self.torch
        torch.manual_seed(7)
        for _ in range(steps):
            objects["optimizer"].zero_grad()
            objects["model"](torch.randn(5, 3)).square().mean().backward()
            objects["optimizer"].step()
            objects["scheduler"].step()

    def packed(self, objects, step):
        from espalier import _state
        packed = _state.Packed(step, objects)
        memory = mmap.mmap(-1, packed.size)
        packed.write(memory)
        return memory

    def test_a_training_goes_on_from_its_state_as_if_nothing_had_happened(self):
        from espalier import _state
        one, other = self.training(), self.training(seed=2)
        self.train(one, 5)
        memory = self.packed(one, 5)
        step, state = _state.read(memory)
        self.assertEqual(step, 5)
        _state.apply(other, state, "the state")
        self.train(one, 5)
        self.train(other, 5)
        for a, b in zip(one["model"].state_dict().values(), other["model"].state_dict().values()):
            self.assertTrue(self.torch.equal(a, b))
        self.assertEqual(one["scheduler"].state_dict(), other["scheduler"].state_dict())

    def test_tensors_of_other_objects_come_back_to_the_kind_of_device_that_they_were_on(self):
        from espalier import _shards, _state
        torch = self.torch

        class Shadow:
            """A moving average of the script's own."""

            def __init__(self):
                self.state = {"weight": [torch.ones(3)], "updates": torch.zeros(()), "rate": 0.9}
                self.state_dict = lambda: self.state

            def load_state_dict(self, state):
                self.state = state

        objects = self.training()
        self.train(objects, 1)
        # The tests have no GPU; "meta" stands for one, and "hpu" for one that this process has not.
        for device, wanted in (("meta", "meta"), ("hpu", "cpu"), ("", "cpu")):
            objects["ema"] = Shadow()
            with unittest.mock.patch.object(_state, "_kind_of", lambda tensor: device):
                packed = _state.Packed(1, objects)
            memory = _memory.SharedMemory(packed.size)
            packed.write(memory.map)
            for read in (lambda: _state.read(memory.map, objects=objects)[1],
                         lambda: _shards.assemble(objects, [_shards.Shelf(memory.fd)], lambda _: None)[0]):
                state = read()
                self.assertEqual({one.device.type for one in (*state["ema"]["weight"], state["ema"]["updates"])}, {wanted})
                self.assertEqual({one.device.type for one in state["model"].values()}, {"cpu"})
                self.assertEqual({one["exp_avg"].device.type for one in state["optimizer"]["state"].values()}, {"cpu"})
                _state.apply(objects, state, "the state")

    def test_a_state_from_before_devices_were_kept_is_read(self):
        from espalier import _state

        class Older:
            __reduce__ = lambda _: (_state.Place, (0, self.torch.float32, (2,)))

        older = pickle.dumps((1, {"ema": {"w": Older()}}, None), protocol=4)
        head = b"ESPSTATE" + len(older).to_bytes(8, "little") + older
        memory = bytearray(_state._aligned(len(head)) + 8)
        memory[:len(head)] = head
        self.assertEqual(_state.read(memory, objects={"ema": object()})[1]["ema"]["w"].device.type, "cpu")

    def test_the_versions_of_a_modules_parts_come_back_with_its_state(self):
        from espalier import _shards, _state
        objects = self.training()
        packed = _state.Packed(1, objects)
        memory = _memory.SharedMemory(packed.size)
        packed.write(memory.map)
        wanted = objects["model"].state_dict()._metadata
        self.assertEqual(wanted["1"]["version"], 2)
        self.assertEqual(_state.read(memory.map)[1]["model"]._metadata, wanted)
        self.assertEqual(_shards.assemble(objects, [_shards.Shelf(memory.fd)], lambda _: None)[0]["model"]._metadata, wanted)

    def test_the_newest_state_is_one_of_which_every_place_of_a_replica_has_its_part(self):
        from espalier._whole import newest_of_all
        self.assertEqual(newest_of_all([[(20, 1), (10, 1)], [(10, 1)], [], [(20, 0)]], 1), (20, 1))
        self.assertEqual(newest_of_all([[(20, 1), (10, 1)], [(10, 1)], [], [(20, 0)]], 2), (10, 1))
        self.assertEqual(newest_of_all([[(20, 1)], [(10, 1)], [(10, 1)], [(20, 1)]], 2), (20, 1))
        self.assertIsNone(newest_of_all([[(20, 1)], []], 2))
        self.assertIsNone(newest_of_all([[], []], 1))

    def test_a_checkpoint_is_written_when_the_minutes_without_one_have_passed(self):
        import espalier
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")

            def run(steps, minutes):
                """Up to so many steps, and leaves the loop before the training ends."""
                run = espalier.join(global_batch=5, steps=100, checkpoint=path, checkpoint_minutes=minutes)
                objects = self.training()
                run.register(**objects)
                done = []
                for step in run.steps():
                    self.train(objects, 1)
                    run.report(0.0)
                    done.append(step)
                    if step == steps:
                        break
                return done

            self.assertEqual(run(2, 0), [1, 2])
            self.assertFalse(os.path.exists(path))
            self.assertEqual(run(2, 30), [1, 2])
            self.assertFalse(os.path.exists(path))
            self.assertEqual(run(3, 1e-9), [1, 2, 3])  # the loop was left before the end of step 3
            self.assertEqual(run(4, 30), [3, 4])
            os.utime(path, (time.time() - 1860,) * 2)  # 31 minutes old
            self.assertEqual(run(5, 30), [3, 4, 5])
            self.assertEqual(run(6, 0), [4, 5, 6])

    def test_a_generation_that_goes_on_and_finds_no_checkpoint_writes_one_after_its_first_step(self):
        """However few minutes each generation has: none of them would live as long as the time without one may be."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")

            def generation(source, minutes=30):
                """The steps that it does, and after which of them the file was written."""
                run = stand_in.join(stand_in.Control(), global_batch=5, steps=100, checkpoint=path, checkpoint_minutes=minutes)
                run._worker.source = source
                objects = self.training()
                run.register(**objects)
                done, written, before = [], [], os.path.exists(path) and os.stat(path).st_mtime_ns
                for step in run.steps():
                    now = os.path.exists(path) and os.stat(path).st_mtime_ns
                    written += [step - 1] if now != before else []
                    before = now
                    self.train(objects, 1)
                    run.report(0.0)
                    done.append(step)
                    if len(done) == 3:
                        break
                return done, written

            goes_on = {"generation": 0, "recovery": True}
            self.assertEqual(generation(None), ([1, 2, 3], []))
            self.assertEqual(generation(goes_on, 0), ([1, 2, 3], []))
            self.assertEqual(generation(goes_on), ([1, 2, 3], [1]))
            self.assertEqual(generation(goes_on), ([2, 3, 4], []))

    def test_a_checkpoint_removes_what_processes_that_were_killed_have_left(self):
        from espalier import _checkpoint
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c+1")  # as a pattern it would match other names
            gone = 1 << 23  # more than any process's number
            left = [f"c+1.{gone}.part", f"c+1.40.0.{gone}.part", f"c+1.40.1.{gone + 1}.part"]
            old = ["c+1.40.0", "c+1.40.2"]
            others = ["c+1.40.2.copy", "c+1.part", "c+1.x.part", f"c+2.{gone}.part", "c+1.40.12", f"cc1.{gone}.part", f"c+1.{gone + 2}.part"]
            # Another job's whole checkpoint, one's that writes now, and one's on this node that is slow.
            strangers = ["c+1.3.1", f"c+1.{gone + 3}.part", f"c+1.{os.getppid()}.part"]
            with open(path, "wb") as file:
                file.write(b'ESPPARTS{"step": 40, "world": 3}')
            for name in left + old + others + strangers:
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(b"the user's" if name in others else b"ESPSTATE and more")
                if name != strangers[1]:
                    os.utime(os.path.join(folder, name), (time.time() - 1000,) * 2)
            others += strangers
            write = lambda step, **more: _checkpoint.write(path, step, self.training(), 0, 1, maximum=lambda _: None, **more)
            write(50, divided=True)
            self.assertEqual(sorted(os.listdir(folder)), sorted(["c+1", "c+1.50.0", *others]))
            for name in left:
                open(os.path.join(folder, name), "wb").close()
                os.utime(os.path.join(folder, name), (time.time() - 1000,) * 2)
            write(60, divided=True)
            self.assertEqual(sorted(os.listdir(folder)), sorted(["c+1", "c+1.60.0", *others]))
            for again in (".again", "", ".again"):  # the same step once more
                write(60, divided=True)
                self.assertEqual(sorted(os.listdir(folder)), sorted(["c+1", "c+1.60.0" + again, *others]))
            write(70, divided=False)  # whole again: no part is needed
            self.assertEqual(sorted(os.listdir(folder)), sorted(["c+1", *others]))
            with open(os.path.join(folder, "c+1.70.0"), "wb") as file:
                file.write(b"ESPSTATE of another job")
            others.append("c+1.70.0")
            write(75, divided=False)  # a whole one had no parts
            self.assertEqual(sorted(os.listdir(folder)), sorted(["c+1", *others]))
            here = os.getcwd()
            try:
                os.chdir(folder)
                _checkpoint.write("c+1", 80, self.training(), 0, 1, True, lambda _: None)
            finally:
                os.chdir(here)
            self.assertEqual(sorted(os.listdir(folder)), sorted(["c+1", "c+1.80.0", *others]))

    def test_a_checkpoint_of_the_same_step_that_is_not_completed_leaves_the_one_of_before(self):
        """Whichever of its files cannot be written, also where another number of processes writes it, or the process ends there."""
        from espalier import _checkpoint, _shards
        write_file, torch = _checkpoint._write_file, self.torch

        def write(worlds, value, fails_at=None, ends=False):
            """The processes of a world one after the other, rank 0 last: it names the parts."""
            written = []

            def file(path, data, *_):
                if len(written) == fails_at:
                    raise KeyboardInterrupt if ends else OSError(28, "No space left on device")
                written.append(path)
                write_file(path, data)

            with unittest.mock.patch.object(_checkpoint, "_write_file", file):
                for rank in reversed(range(worlds)):
                    model = torch.nn.Linear(2, 2)
                    torch.nn.init.constant_(model.weight, value + rank)
                    _checkpoint.write(path, 7, {"model": model}, rank, worlds, True, lambda _: None)

        def read():
            model = torch.nn.Linear(2, 2)
            self.assertEqual(_checkpoint.load(path, {"model": model}, True), 7)
            return model.weight[0, 0].item()

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            for before in (3, 2):
                for after in (2, 3, 4):
                    for ends in (False, True):
                        write(before, 10.0)
                        kept = sorted(os.listdir(folder))
                        for fails_at in range(after + 1):
                            with self.assertRaises(KeyboardInterrupt if ends else OSError):
                                write(after, 20.0, fails_at, ends)
                            self.assertTrue(set(kept) <= set(os.listdir(folder)))
                            self.assertEqual(read(), 10.0)
                        write(after, 30.0)
                        self.assertEqual(read(), 30.0)
                        self.assertEqual(len(os.listdir(folder)), after + 1)

    def test_processes_that_see_different_checkpoints_of_before_write_none(self):
        from espalier import _checkpoint
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            _checkpoint.write(path, 7, self.training(), 0, 1, True, lambda _: None)
            with self.assertRaisesRegex(OSError, "the processes do not all see the same checkpoint of before there"):
                _checkpoint.write(path, 7, self.training(), 0, 2, True, lambda told: told.fill_(1 if told[0] else 0).add_(self.torch.tensor([0, 1, 1], dtype=told.dtype)))
            self.assertEqual(sorted(os.listdir(folder)), ["c", "c.7.0"])

    def test_state_that_does_not_fit_is_refused_in_words(self):
        from espalier import _state
        _, state = _state.read(self.packed(self.training(), 1))
        with self.assertRaisesRegex(_state.StateError, "model: .*size mismatch"):
            _state.apply(self.training(width=5), state, "the state")
        more = dict(self.training(), ema=self.torch.nn.Linear(1, 1))
        with self.assertRaisesRegex(_state.StateError, "register the same objects"):
            _state.apply(more, state, "the state")

    def test_what_is_no_state_is_refused(self):
        from espalier import _state
        for bytes_ in (b"x" * 64, b"ESPSTATE" + (8).to_bytes(8, "little") + b"notpickl" + b"x" * 64):
            with self.assertRaises(_state.StateError):
                _state.read(bytearray(bytes_))

    def test_sizes_count_parameters_gradients_and_moments(self):
        from espalier import _state
        objects = self.training()
        objects["model"][0].weight.requires_grad_(False)
        gradients, weights, whole = _state.sizes(objects)
        self.assertEqual(weights - gradients, 4 * 12)
        self.train(objects, 1)
        self.assertGreater(_state.sizes(objects)[2], whole)


if __name__ == "__main__":
    unittest.main()
