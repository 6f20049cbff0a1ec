"""Unit tests of the Python package: slices, frames, state, and bad input of each. Run by tests/torchrt/python.bats."""
import hashlib
import hmac
import json
import mmap
import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

from espalier import _channel, _handover, _memory, _profile, _slices, _vault


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


class Slices(unittest.TestCase):
    def test_every_sample_belongs_to_one_replica_and_each_step_follows_the_last(self):
        for batch in (1, 7, 24, 100):
            for replicas in range(1, min(batch, 9) + 1):
                shares = _slices.even_shares(batch, replicas)
                used = [n for step in (1, 2, 3) for r in range(replicas) for n in _slices.slice_of(step, batch, shares, r)]
                self.assertEqual(used, list(range(3 * batch)))
                self.assertLessEqual(max(shares) - min(shares), 1)

    def test_a_batch_smaller_than_the_world_is_refused_in_words(self):
        with self.assertRaisesRegex(ValueError, "global batch of 3 samples is smaller than the 4 processes"):
            _slices.even_shares(3, 4)

    def test_a_replica_of_several_processes_has_one_share(self):
        plan = {"micro_batches": 1, "stages": [{"replicas": [{"share": 5, "gpus": ["a/0", "a/1"]}, {"share": 3, "gpus": ["b/0", "b/1"]}]}]}
        self.assertEqual(_slices.shares_of(plan, 8, 2), [5, 3])
        self.assertEqual(_slices.nodes_of(plan), ["a", "a", "b", "b"])
        with self.assertRaisesRegex(ValueError, "replica of 2 GPUs, and this program's replicas have 4 processes"):
            _slices.shares_of(plan, 8, 4)

    def test_shares_come_from_the_plan_also_uneven_ones(self):
        plan = {"micro_batches": 1, "stages": [{"replicas": [{"share": 5, "gpus": ["n1/0"]}, {"share": 3, "gpus": ["n-a/b/1"]}]}]}
        self.assertEqual(_slices.shares_of(plan, 8), [5, 3])
        self.assertEqual(_slices.nodes_of(plan), ["n1", "n-a/b"])

    def test_a_plan_of_another_kind_is_refused_in_words(self):
        stage = {"replicas": [{"share": 8, "gpus": ["n1/0"]}]}
        with self.assertRaisesRegex(ValueError, "pipeline stages"):
            _slices.shares_of({"stages": [stage, stage]}, 8)
        with self.assertRaisesRegex(ValueError, "a replica of 2 GPUs"):
            _slices.shares_of({"stages": [{"replicas": [{"share": 8, "gpus": ["n1/0", "n1/1"]}]}]}, 8)
        with self.assertRaisesRegex(ValueError, "divides 8 samples, the global batch is 9"):
            _slices.shares_of({"stages": [stage]}, 9)

    def test_parts_cover_a_slice_in_order(self):
        for length in range(1, 12):
            for most in range(1, 13):
                parts = _slices.parts_of(range(5, 5 + length), most)
                self.assertEqual([n for part in parts for n in part], list(range(5, 5 + length)))
                self.assertLessEqual(max(map(len, parts)), most)
        with self.assertRaises(ValueError):
            _slices.parts_of(range(3), 0)


class Frames(unittest.TestCase):
    def test_a_frame_comes_back_and_more_bytes_stay(self):
        data = _channel.encode({"type": "step", "loss": None, "text": "ä"})
        for cut in range(8):
            self.assertIsNone(_channel.frame_size(data[:cut]))
        self.assertEqual(_channel.frame_size(data + b"ESP"), len(data))
        self.assertEqual(_channel.decode(data)["text"], "ä")

    def test_a_tag_holds_the_frame_and_its_place_and_its_direction(self):
        first, again = _channel.Tags(b"key", b"a"), _channel.Tags(b"key", b"a")
        tags = [first.next(b"one"), first.next(b"one"), first.next(b"two")]
        self.assertEqual(len(set(tags)), 3)
        self.assertEqual(tags, [again.next(b"one"), again.next(b"one"), again.next(b"two")])
        self.assertNotEqual(_channel.Tags(b"key", b"b").next(b"one"), tags[0])
        self.assertNotEqual(_channel.Tags(b"other", b"a").next(b"one"), tags[0])
        # HMAC-SHA256 of the key's direction, then of a counter of 8 bytes and the frame.
        self.assertEqual(tags[0].hex(), hmac.new(hmac.new(b"key", b"a", hashlib.sha256).digest(), bytes(8) + b"one",
                                                 hashlib.sha256).hexdigest()[:32])

    def tagged(self, change):
        """A channel after its login whose first message has been through `change`."""
        channel = _channel.Channel.__new__(_channel.Channel)
        channel._most, channel._received = 1 << 20, _channel.Tags(b"session", b"server to client")
        tags = _channel.Tags(b"session", b"server to client")
        frames = [_channel.encode({"type": "switch", "next": n}) for n in (1, 2)]
        channel._input = change([frame + tags.next(frame) for frame in frames])
        return channel

    def test_tagged_messages_are_read_in_order_and_what_somebody_changed_is_refused(self):
        channel = self.tagged(b"".join)
        self.assertEqual([channel._whole()["next"], channel._whole()["next"], channel._whole()], [1, 2, None])
        self.assertIsNone(self.tagged(lambda frames: frames[0][:-1])._whole())
        for change in (lambda f: f[1] + f[0], lambda f: f[1], lambda f: f[0].replace(b"1", b"3", 1),
                       lambda f: f[0][:-1] + bytes([f[0][-1] ^ 1])):
            with self.assertRaisesRegex(_channel.ChannelError, "tag is wrong"):
                self.tagged(change)._whole()
        channel = self.tagged(lambda f: f[0] + f[0])
        channel._whole()
        with self.assertRaisesRegex(_channel.ChannelError, "tag is wrong"):
            channel._whole()

    def refused(self, data, what, most=1 << 20):
        with self.assertRaisesRegex(_channel.ChannelError, what):
            size = _channel.frame_size(data, most)
            self.assertEqual(size, len(data))
            _channel.decode(data)

    def test_bad_frames_are_refused_by_what_is_wrong(self):
        good = _channel.encode({"type": "ready"})
        self.refused(b"HTTP/1.1", "not the Espalier protocol")
        self.refused(b"ESP\x63" + good[4:], "protocol version 99")
        self.refused(good[:4] + (1 << 27).to_bytes(4, "big"), "134217728 bytes is larger")
        body = lambda text: good[:4] + len(text).to_bytes(4, "big") + text
        self.refused(body(b"{"), "not JSON")
        self.refused(body(b"[" * 100000), "not JSON")
        self.refused(body(b"[1]"), "no type")
        self.refused(body(b'{"type":1}'), "no type")

    def test_what_cannot_be_sent_is_an_error_here(self):
        with self.assertRaises(ValueError):
            _channel.encode({"type": "step", "loss": float("nan")})
        with self.assertRaisesRegex(_channel.ChannelError, "larger than a frame"):
            _channel.encode({"type": "failed", "message": "x" * (9 << 20)})

    def test_a_launcher_that_is_not_there_or_ends_is_an_error_in_time(self):
        for address in ("nowhere", "host:port", ":1"):
            with self.assertRaisesRegex(_channel.ChannelError, "host:port"):
                _channel.Channel(address, "")
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            with self.assertRaises(_channel.ChannelError):
                _channel.Channel("127.0.0.1:%d" % closed.getsockname()[1], "")
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
            with self.assertRaises(_channel.ChannelError):
                _channel.Channel("127.0.0.1:%d" % server.getsockname()[1], "")


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


class Profiles(unittest.TestCase):
    def test_the_replica_that_waits_least_tells_how_long_synchronization_is(self):
        made = _profile.flat(25, 20, [[10, 3, 1], [12, 1, 2]], (4, 8, 16), 0, 0.01)
        self.assertEqual((made["compute_ms"], made["sync_ms"], made["rest_ms"]), ([10, 12], 1, 2))
        self.assertNotIn("sync_ms", _profile.flat(25, 20, [[10, -1, 1], [12, 1, 2]], (4, 8, 16), 0, 0.01))
        self.assertNotIn("sync_ms", _profile.flat(25, 20, [[10, 3, 1]], (4, 8, 16), 0, 0.01))

    def test_a_replica_is_as_slow_as_its_slowest_process(self):
        self.assertEqual(_profile.of_replicas([[1, 2, 3], [4, 1, 0], [5, 5, 5], [6, 6, 6]], 2), [[4, 1, 3], [6, 5, 6]])

    def test_the_spread_is_small_for_equal_steps_and_large_for_drifting_ones(self):
        self.assertEqual(_profile.spread_of([5.0] * 20), 0)
        self.assertGreater(_profile.spread_of([10.0] * 10 + [5.0] * 10), 0.2)
        self.assertEqual(_profile.spread_of([5.0] * 3), 1.0)


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

    def test_the_newest_state_is_one_of_which_every_place_of_a_replica_has_its_part(self):
        from espalier._whole import newest_of_all
        self.assertEqual(newest_of_all([[(20, 1), (10, 1)], [(10, 1)], [], [(20, 0)]], 1), (20, 1))
        self.assertEqual(newest_of_all([[(20, 1), (10, 1)], [(10, 1)], [], [(20, 0)]], 2), (10, 1))
        self.assertEqual(newest_of_all([[(20, 1)], [(10, 1)], [(10, 1)], [(20, 1)]], 2), (20, 1))
        self.assertIsNone(newest_of_all([[(20, 1)], []], 2))
        self.assertIsNone(newest_of_all([[], []], 1))

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

    def shelf(self, box):
        """A memory with this block of the tensor."""
        block = self.whole[self.shards._within(box, ((0, 0), tuple(self.whole.shape)))].contiguous()
        part = self.state.Part(0, block.dtype, box[1], box[0], tuple(self.whole.shape))
        head = pickle.dumps((7, {"x": {"w": part}}, "note"), protocol=4)
        head = b"ESPSTATE" + len(head).to_bytes(8, "little") + head
        memory = _memory.SharedMemory(self.state._aligned(len(head)) + block.numel() * 8 + 1)
        memory.map[:len(head)] = head
        first = self.state._aligned(len(head))
        memory.map[first:first + block.numel() * 8] = block.numpy().tobytes()
        shelf = self.shards.Shelf(memory.fd)
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

    def test_copies_are_on_another_node_and_evenly_many_on_each_rank(self):
        from espalier import _partners
        self.assertEqual(_partners.partners_of(["a", "a"]), [None, None])
        self.assertEqual(_partners.partners_of(["a", "a", "b", "b", "b", "b"]), [2, 3, 0, 1, 0, 1])
        for nodes in (["a", "b", "c"], ["a", "b", "a", "c", "c"], ["a"] * 7 + ["b"] * 2):
            partners = _partners.partners_of(nodes)
            self.assertTrue(all(nodes[rank] != nodes[partner] for rank, partner in enumerate(partners)))
            most = max(map(nodes.count, nodes))
            self.assertLessEqual(max(map(partners.count, partners)), -(-most // min(map(nodes.count, nodes))))

    def test_the_same_over_tcp_and_strangers_are_hung_up_on(self):
        from espalier import _transfer
        shelves, server = [self.shelf(box) for box in self.blocks(3, 0)], _transfer.Server()
        for index, shelf in enumerate(shelves):
            server.provide(f"0.{index}", shelf.memory.fd)
        far = [_transfer.Far(server.address, f"0.{index}") for index in range(3)]
        for one, shelf in zip(far, shelves):
            self.assertEqual(one.head, shelf.head)
        self.assertTrue(self.torch.equal(self.taken(far, ((2, 1), (7, 4)))[0], self.whole[2:9, 1:5]))
        host, port, _ = server.address
        with self.assertRaises(self.state.StateError):
            _transfer.Far((host, port, bytes(32)), "0.0")
        with self.assertRaises(self.state.StateError):
            far[0].fetch([(shelves[0].memory.size - 8, self.torch.empty(2, dtype=self.torch.float64))])
        for one in far:
            one.close()


class Join(unittest.TestCase):
    def run_script(self, text, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ESPALIER_LAUNCHER", "OMPI_"))}
        done = subprocess.run([sys.executable, "-c", text], env={**clean, **environment}, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def test_joining_loads_no_torch_and_bad_use_is_refused_in_words(self):
        code, said = self.run_script("import espalier, sys; espalier.join(global_batch=4, steps=1); sys.exit('torch' in sys.modules)")
        self.assertEqual(code, 0, said)
        for call, words in (("espalier.join(global_batch=0, steps=1)", "must be at least 1"),
                            ("espalier.join(global_batch=4, steps=1, unit=0)", "unit=0): must be between 1 and 1024"),
                            ("espalier.join(global_batch=4, steps=1, unit=2)", "1 processes are no whole replicas of 2"),
                            ("espalier.join(global_batch=4, steps=1, parallel='3d')", 'must be "data"'),
                            ("list(espalier.join(global_batch=4, steps=1).register(x=3) or [])", "has no state_dict"),
                            ("espalier.join(global_batch=4, steps=1).report(1.0)", "inside `for step in run.steps"),
                            ("next(espalier.join(global_batch=4, steps=1).steps())", "run.register"),):
            code, said = self.run_script("import espalier; " + call)
            self.assertNotEqual(code, 0)
            self.assertIn(words, said)
        code, said = self.run_script("import espalier; espalier.join(global_batch=4, steps=1)", RANK="0", WORLD_SIZE="5")
        self.assertIn("smaller than the 5 processes", said)

    def test_a_half_set_environment_is_refused_by_name(self):
        for missing, words in (({}, "ESPALIER_GENERATION"), ({"ESPALIER_GENERATION": "x"}, "is not a number"),
                               ({"ESPALIER_GENERATION": "0"}, "OMPI_COMM_WORLD_RANK")):
            code, said = self.run_script("import espalier; espalier.join(global_batch=4, steps=1)", ESPALIER_LAUNCHER="h:1", **missing)
            self.assertNotEqual(code, 0)
            self.assertIn(words, said)


if __name__ == "__main__":
    unittest.main()
