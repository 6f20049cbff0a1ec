"""Unit tests of the Python package: the training's state, and how it goes from process to process. Run by
tests/torchrt/python.bats."""
import mmap
import os
import pickle
import socket
import tempfile
import threading
import time
import unittest
import unittest.mock

from espalier import _handover, _keys, _memory, _vault

TOKEN = "0123456789abcdef"


class Runs:
    """Whose pickle makes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


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

            def file(path, data):
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

    def test_data_uses_each_sample_once_an_epoch_in_an_order_of_its_own(self):
        import espalier
        data = espalier.Data(list(range(10)), seed=3)
        first, second = [data.index(n) for n in range(10)], [data.index(n) for n in range(10, 20)]
        self.assertEqual((sorted(first), sorted(second)), (list(range(10)), list(range(10))))
        self.assertNotEqual(first, second)
        self.assertEqual([data.index(n) for n in (3, 13, 3)], [first[3], second[3], first[3]])
        with self.assertRaisesRegex(ValueError, "another one than before"):
            data.load_state_dict({"length": 11, "shuffle": True, "seed": 3})

    def test_neighbours_are_looked_up_at_once_also_across_epochs(self):
        import espalier
        for shuffle in (True, False):
            data = espalier.Data(list(range(10)), seed=3, shuffle=shuffle)
            for numbers in (range(0), range(3, 7), range(8, 12), range(10, 20), range(5, 41), range(2, 30, 3), [29, 2, 15]):
                self.assertEqual(data.indices(numbers), [data.index(number) for number in numbers])


    def test_a_loader_of_several_batches_a_step_is_refused_where_each_would_count_as_one(self):
        import espalier
        run = espalier.join(global_batch=12, steps=2)
        dataset = self.torch.utils.data.TensorDataset(self.torch.arange(24))
        loader = lambda **more: self.torch.utils.data.DataLoader(dataset, batch_sampler=espalier.Batches(run, dataset, **more))
        for given in (loader(most=8), unittest.mock.Mock(batch_sampler=unittest.mock.Mock(batch_sampler=espalier.Batches(run, dataset, most=8)))):
            with self.assertRaisesRegex(espalier.RunError, r"espalier.Batches\(most=8\) may give several batches a step"):
                run.batches(given)
        run.register(**self.training())
        self.assertEqual([len(batch[0]) for _, batch in run.batches(loader(most=12))], [12, 12])


class Augmented(unittest.TestCase):
    """What a dataset draws at random follows from the sample's number, whatever the number of processes."""

    @classmethod
    def setUpClass(cls):
        import random
        import numpy
        import torch

        class Noise(torch.utils.data.Dataset):
            def __len__(self):
                return 12

            def __getitem__(self, index):
                return torch.tensor([index, torch.rand(()).item(), random.random(), numpy.random.rand(), torch.rand(()).item()])

        cls.torch, cls.noise = torch, Noise()
        cls.generators = staticmethod(lambda: (torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist()))
        cls.draw = staticmethod(lambda: (torch.rand(7), random.random(), numpy.random.rand()))

    def samples(self, world, steps, read):
        """Of a global batch of 9: rows by the order of the samples. `read` is given the rank and its slices."""
        from espalier import _slices
        shares, rows = _slices.even_shares(9, world), {}
        for rank in range(world):
            slices = [_slices.slice_of(step, 9, shares, rank) for step in range(1, steps + 1)]
            for numbers, batch in zip(slices, read(rank, slices)):
                rows.update(zip(numbers, batch))
        return self.torch.stack([rows[number] for number in range(9 * steps)])

    def test_data_draws_the_same_on_one_two_and_three_processes_and_other_numbers_in_each_epoch(self):
        import espalier

        def read(rank, slices):
            data = espalier.Data(self.noise, seed=5)
            for _ in range(rank):
                self.draw()  # processes are not in the same state
            return [data.batch(numbers) for numbers in slices]

        alone = self.samples(1, 4, read)
        for world in (2, 3):
            self.assertTrue(self.torch.equal(alone, self.samples(world, 4, read)))
        self.assertEqual(len(set(alone[:, 1:].flatten().tolist())), 36 * 4)
        self.assertFalse(self.torch.equal(alone[:12].sort(0)[0][:, 1], alone[12:24].sort(0)[0][:, 1]))

    def test_a_data_loader_draws_the_same_too_also_in_worker_processes(self):
        import espalier

        def read(workers):
            def batches(rank, slices):
                dataset = espalier.Seeded(self.noise, seed=5)
                run = unittest.mock.Mock(done=0, total_steps=len(slices), slice=lambda step: slices[step - 1])
                loader = self.torch.utils.data.DataLoader(dataset, batch_sampler=espalier.Batches(run, dataset, seed=5), num_workers=workers)
                return list(loader)
            return batches

        alone = self.samples(1, 3, lambda rank, slices: [espalier.Data(self.noise, seed=5).batch(one) for one in slices])
        for world, workers in ((1, 0), (3, 0), (2, 2)):
            self.assertTrue(self.torch.equal(alone, self.samples(world, 3, read(workers))))

    def test_the_scripts_own_random_numbers_are_not_changed_also_where_the_dataset_fails(self):
        import espalier

        class Broken:
            def __len__(self):
                return 3

            def __getitem__(self, index):
                raise KeyError(index)

        self.draw()
        before = self.generators()
        espalier.Data(self.noise).batch(range(5))
        espalier.Data(espalier.Seeded(self.noise)).batch([7, 3])
        with self.assertRaises(KeyError):
            espalier.Data(Broken()).batch(range(2))
        self.assertEqual(self.generators(), before)

    def test_an_index_without_a_number_is_refused_in_words(self):
        import espalier
        with self.assertRaisesRegex(ValueError, "give the same object to espalier.Batches"):
            espalier.Seeded(self.noise)[3]


class Shards(unittest.TestCase):
    """A tensor of 11 x 6 and one that all have, divided among three, taken over by five and by one."""

    @classmethod
    def setUpClass(cls):
        import torch
        from espalier import _shards, _state
        cls.torch, cls.shards, cls.state = torch, _shards, _state
        cls.whole = torch.arange(66, dtype=torch.float64).view(11, 6)

    def blocks(self, ranks, dimension):
        """Of each rank: start and shape."""
        length, at, made = self.whole.shape[dimension], 0, []
        for rank in range(ranks):
            size = -(-length // ranks)
            size = max(0, min(size, length - at))
            start, shape = [0, 0], list(self.whole.shape)
            start[dimension], shape[dimension] = at, size
            made.append((tuple(start), tuple(shape)))
            at += size
        return made

    def shelf(self, box, token=None):
        """A memory with this block of the tensor, sealed where there is a token."""
        block = self.whole[self.shards._within(box, ((0, 0), tuple(self.whole.shape)))].contiguous()
        part = self.state.Part(0, block.dtype, box[1], box[0], tuple(self.whole.shape))
        head = pickle.dumps((7, {"x": {"w": part}}, "note"), protocol=4)
        seal = _keys.seal_of(token) if token else b""
        if token:
            head = _keys.tag_of(seal, head) + head
        head = (b"ESPSEAL1" if token else b"ESPSTATE") + len(head).to_bytes(8, "little") + head
        memory = _memory.SharedMemory(self.state._aligned(len(head)) + block.numel() * 8 + 1)
        memory.map[:len(head)] = head
        first = self.state._aligned(len(head))
        memory.map[first:first + block.numel() * 8] = block.numpy().tobytes()
        shelf = self.shards.Shelf(memory.fd, seal)
        shelf.memory = memory
        return shelf

    def taken(self, shelves, box):
        reading = self.shards.Reading(shelves)
        places = [(index, shelf.head.tree["x"]["w"]) for index, shelf in enumerate(shelves)]
        made = reading.block(places, box, self.torch.float64, "x.w")
        reading.run()
        return made, reading.near_bytes + reading.far_bytes

    def test_each_rank_gets_its_block_and_reads_no_byte_more(self):
        for dimension in (0, 1):
            shelves = [self.shelf(box) for box in self.blocks(3, dimension)]
            for ranks in (1, 2, 5, 13):
                read = 0
                for box in self.blocks(ranks, 0):
                    made, count = self.taken(shelves, box)
                    self.assertTrue(self.torch.equal(made, self.whole[box[0][0]:box[0][0] + box[1][0]]))
                    read += count
                self.assertEqual(read, 66 * 8)
            for box in self.blocks(4, 1):
                made, _ = self.taken(shelves, box)
                self.assertTrue(self.torch.equal(made, self.whole[:, box[0][1]:box[0][1] + box[1][1]]))

    def test_what_nobody_has_is_an_error_and_what_two_have_is_read_once(self):
        shelves = [self.shelf(box) for box in self.blocks(3, 0)]
        with self.assertRaisesRegex(self.state.StateError, "x.w: 66 elements are needed, and 48 of them are there"):
            self.taken(shelves[:2], ((0, 0), (11, 6)))
        made, count = self.taken(shelves + shelves, ((0, 0), (11, 6)))
        self.assertTrue(self.torch.equal(made, self.whole))
        self.assertEqual(count, 66 * 8)

    def test_what_a_module_keeps_besides_its_tensors_may_change_its_size_and_differ(self):
        torch, state = self.torch, self.state

        class Scaled(torch.nn.Linear):
            def __init__(self, kept):
                super().__init__(2, 2)
                self.kept = kept

            def get_extra_state(self):
                return self.kept

            def set_extra_state(self, kept):
                self.kept = kept

        def shelf(kept):
            packed = state.Packed(7, {"model": torch.nn.Sequential(Scaled(kept))})
            memory = _memory.SharedMemory(packed.size)
            packed.write(memory.map)
            return self.shards.Shelf(memory.fd)

        for kept, other, now in ((torch.arange(3.0), torch.arange(5.0), torch.zeros(4)),
                                 ({"history": [torch.arange(3.0)], "here": 1}, {"history": [torch.arange(5.0)] * 2, "there": torch.ones(2)}, None)):
            for named in (False, True):
                model = torch.nn.Sequential(Scaled(now))
                objects = {"model": model}
                if named:
                    from espalier._named import by_name
                    objects = by_name(objects)
                made, _, _ = self.shards.assemble(objects, [shelf(kept), shelf(other)], lambda _: None)
                state.apply(objects, made, "the state")
                if isinstance(kept, dict):
                    self.assertEqual(list(model[0].kept), ["history", "here"])
                    self.assertEqual(len(model[0].kept["history"]), 1)
                    self.assertTrue(torch.equal(model[0].kept["history"][0], kept["history"][0]))
                else:
                    self.assertTrue(torch.equal(model[0].kept, kept))

    def test_copies_are_on_another_node_and_evenly_many_on_each_rank(self):
        from espalier import _partners
        self.assertEqual(_partners.partners_of(["a", "a"]), [None, None])
        self.assertEqual(_partners.keepers_of(["a", "b"], ["7", "7"]), ["a", "b"])
        self.assertEqual(_partners.partners_of(_partners.keepers_of(["a"] * 4, ["7", "7", "8", "8"])), [2, 3, 0, 1])
        self.assertEqual(_partners.partners_of(["a", "a", "b", "b", "b", "b"]), [2, 3, 0, 1, 0, 1])
        for nodes in (["a", "b", "c"], ["a", "b", "a", "c", "c"], ["a"] * 7 + ["b"] * 2):
            partners = _partners.partners_of(nodes)
            self.assertTrue(all(nodes[rank] != nodes[partner] for rank, partner in enumerate(partners)))
            most = max(map(nodes.count, nodes))
            self.assertLessEqual(max(map(partners.count, partners)), -(-most // min(map(nodes.count, nodes))))

    def test_the_same_over_tcp_and_strangers_are_hung_up_on(self):
        from espalier import _transfer
        shelves, server = [self.shelf(box, TOKEN) for box in self.blocks(3, 0)], _transfer.Server(TOKEN)
        for index, shelf in enumerate(shelves):
            server.provide(f"0.{index}", shelf.memory.fd)
        far = [_transfer.Far(server.address, f"0.{index}", TOKEN) for index in range(3)]
        for one, shelf in zip(far, shelves):
            self.assertEqual(one.head, shelf.head)
        self.assertTrue(self.torch.equal(self.taken(far, ((2, 1), (7, 4)))[0], self.whole[2:9, 1:5]))
        with self.assertRaises(self.state.StateError):
            _transfer.Far(server.address, "0.0", "another token")
        with self.assertRaises(self.state.StateError):
            far[0].fetch([(shelves[0].memory.size - 8, self.torch.empty(2, dtype=self.torch.float64))])
        for one in far:
            one.close()

    def test_a_connection_that_is_passed_on_to_another_server_is_refused(self):
        from espalier import _transfer
        server, shelf = _transfer.Server(TOKEN), self.shelf(self.blocks(1, 0)[0], TOKEN)
        server.provide("0.0", shelf.memory.fd)

        def pass_on(given, taken):
            try:
                while data := given.recv(4096):
                    taken.sendall(data)
                taken.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def between():
            client, _ = listener.accept()
            with client, socket.create_connection(server.address, 60) as other:
                back = threading.Thread(target=pass_on, args=(other, client))
                back.start()
                pass_on(client, other)
                back.join(60)

        with socket.create_server(("127.0.0.1", 0)) as listener:
            relay = threading.Thread(target=between)
            relay.start()
            with self.assertRaisesRegex(self.state.StateError, "the other side has ended"):
                _transfer.Far(("127.0.0.1", listener.getsockname()[1]), "0.0", TOKEN)
            relay.join(60)
        far = _transfer.Far(server.address, "0.0", TOKEN)  # the memory was there
        far.close()

    def test_a_head_that_this_job_has_not_sealed_is_refused_before_anything_in_it_runs(self):
        from espalier import _transfer
        with tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "ran")
            evil = pickle.dumps((7, Runs(mark), None, None))
            for key in (b"", _keys.seal_of("another token"), None):
                # key None: the seal of another head of this job
                tag = _keys.tag_of(_keys.seal_of(TOKEN), b"another head") if key is None else _keys.tag_of(key, evil) if key else b""
                head = (b"ESPSEAL1" if tag else b"ESPSTATE") + len(tag + evil).to_bytes(8, "little") + tag + evil
                memory = _memory.SharedMemory(4096)
                memory.map[:len(head)] = head
                with self.assertRaisesRegex(self.state.StateError, "is not sealed by this job"):
                    self.state.read(memory.map, _keys.seal_of(TOKEN))
                with self.assertRaisesRegex(self.state.StateError, "is not sealed by this job"):
                    self.shards.Shelf(memory.fd, _keys.seal_of(TOKEN))
                server = _transfer.Server(TOKEN)
                server.provide("0.0", memory.fd)
                with self.assertRaisesRegex(self.state.StateError, "is not sealed by this job"):
                    _transfer.Far(server.address, "0.0", TOKEN)
                self.assertFalse(os.path.exists(mark))
            pickle.loads(evil)
            self.assertTrue(os.path.exists(mark))  # it would have

    def test_a_head_of_more_bytes_than_any_has_is_refused(self):
        for magic in (b"ESPSTATE", b"ESPSEAL1"):
            with self.assertRaisesRegex(self.state.StateError, "a head of 1099511627776 bytes"):
                self.state.head_bytes(magic + (1 << 40).to_bytes(8, "little"))

    def test_strangers_who_say_nothing_are_bounded_and_keep_nobody_out(self):
        from espalier import _transfer
        server, shelf, most = _transfer.Server(TOKEN), self.shelf(self.blocks(1, 0)[0], TOKEN), 32
        server.provide("0.0", shelf.memory.fd)
        threads = lambda: sum(one.name == "espalier-shards" for one in threading.enumerate())
        before, silent = threads(), []
        with unittest.mock.patch.object(_transfer, "_MOST_STRANGERS", most):
            for _ in range(3):
                silent += [socket.create_connection(server.address, 60) for _ in range(most)]
                far = _transfer.Far(server.address, "0.0", TOKEN)
                self.assertEqual(far.head, shelf.head)
                far.close()
        # All but the newest are hung up on long before their ten seconds are over.
        for one in silent[:-most]:
            one.settimeout(5)
            while one.recv(64):
                pass
        until = time.monotonic() + 60
        while threads() - before > most and time.monotonic() < until:
            time.sleep(0.01)
        self.assertLessEqual(threads() - before, most)
        self.assertLessEqual(len(server._strangers), most)
        for one in silent:
            one.close()


if __name__ == "__main__":
    unittest.main()
