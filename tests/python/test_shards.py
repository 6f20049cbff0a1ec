"""Unit tests of the Python package: tensors that are divided among processes, and the servers of their parts. Run by
tests/torchrt/python.bats."""
import os
import pickle
import socket
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

import stand_in
from espalier import _keys, _memory

TOKEN = "0123456789abcdef"


class Runs:
    """Whose pickle makes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Log:
    """What a script registers and is no tensor. One process may have more in it than others."""

    def __init__(self, more):
        self.kept = {"lines": 1, **more}

    def state_dict(self):
        return self.kept

    def load_state_dict(self, state):
        self.kept = state


def handed_over(rank, world, token, copies, takes, other, step, lost):
    """A state that `world` processes have, in `copies` of it, goes to the first `takes` of them, each on a node where another process was. other:
    the rank whose log has more in it; step: that whose state is of another step. lost: it is read from snapshots, of which each node has one. Returns how many processes each reads from over TCP, what of
    the state came, and whether it came whole; or the error."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, zeros
    from espalier import _divided
    from espalier._state import StateError
    rows = {"large": 40, "uneven": 7, "small": 3}  # of 8 processes some have nothing of the last two
    whole = {name: torch.arange(2.0 * count).view(count, 2) + len(name) for name, count in rows.items()}

    def divided(mesh, make):
        model = torch.nn.Module()
        for name, count in rows.items():
            model.register_parameter(name, torch.nn.Parameter(make(whole[name], mesh)))
        model.register_buffer("scale", torch.tensor([5.0]))
        return model

    def hand(objects, generation, nodes, group):
        worker = stand_in.Worker(rank, len(nodes), 64, stand_in.Control())
        worker.token, worker.seal, worker.generation, worker.nodes, worker.jobs = token, _keys.seal_of(token), generation, nodes, ["1"] * len(nodes)
        return _divided.Divided(worker, objects, group)

    before = DeviceMesh("cpu", torch.arange(world).view(copies, -1))
    mesh, group = DeviceMesh("cpu", list(range(takes))), dist.new_group(list(range(takes)))
    old = divided(before, lambda one, mesh: distribute_tensor(one, mesh, [Replicate(), Shard(0)]))
    giver = hand({"model": old, "log": Log({"more": 2} if rank == other else {})}, 0, [f"n{one}" for one in range(world)], dist.group.WORLD)
    giver.provide(8 if rank == step else 7)
    kept = (7, 0, types.SimpleNamespace(rank=rank, fetch=lambda of: os.dup(giver._memory.fd)))
    found = None
    if rank < takes:
        new, log = divided(mesh, lambda one, mesh: zeros(one.shape, device_mesh=mesh, placements=[Shard(0)])), Log({})
        new.scale.zero_()
        taker = hand({"model": new, "log": log}, 1, [f"n{(one + 1) % world}" for one in range(takes)], group)
        taker._worker.vault = "v"
        source = {"generation": 0, "plan": {"stages": [{"replicas": [{"gpus": [f"n{one}/0"]} for one in range(world)]}]}}
        with unittest.mock.patch.object(_divided, "Far", side_effect=_divided.Far) as far, \
                unittest.mock.patch.object(_divided, "from_vaults", lambda *_: [kept]):
            try:
                taken = taker.recover(source) if lost else taker.take_over(source)
                same = taken.step == 7 and new.scale.item() == 5 and all(torch.equal(one.full_tensor(), whole[name]) for name, one in new.named_parameters())
                found = far.call_count, log.kept, same
            except StateError as error:
                found = str(error)
    dist.barrier()
    return found


class Many(unittest.TestCase):
    def handed_over(self, copies, takes, other=-1, step=-1, lost=False):
        import torch.distributed.tensor  # noqa: F401 for all that are forked
        return stand_in.processes(8, handed_over, os.urandom(16).hex(), copies, takes, other, step, lost)[:takes]

    def test_a_process_reads_from_those_alone_that_have_something_of_its_part(self):
        for copies, takes, most, lost in ((1, 8, 8, False), (1, 5, 12, False), (2, 4, 12, False), (2, 8, 10, True)):
            found = self.handed_over(copies, takes, lost=lost)
            self.assertEqual([one[1:] for one in found], [({"lines": 1}, True)] * takes, found)
            self.assertLessEqual(sum(one[0] for one in found), most, found)

    def test_what_one_process_alone_has_is_found_and_a_part_of_another_step_is_refused(self):
        for copies, takes, other in ((1, 8, 3), (2, 4, 7)):
            found = self.handed_over(copies, takes, other=other)
            self.assertEqual([one[1:] for one in found], [({"lines": 1, "more": 2}, True)] * takes, found)
            for one in self.handed_over(copies, takes, step=other):
                self.assertIn("its parts are of the steps [7, 8]", str(one))

    def test_a_head_is_as_long_however_many_processes_there_are(self):
        import torch
        from espalier import _divided, _shards, _state
        objects, heads = {"model": torch.nn.Linear(2, 2)}, []
        for world in (4, 1000):
            packed = _state.Packed(7, objects, _divided._packed([["10.0.0.1", 40000 + rank] for rank in range(world)]))
            memory = _memory.SharedMemory(packed.size)
            packed.write(memory.map)
            shelf = _shards.Shelf(memory.fd)
            self.assertEqual(len(_divided._unpacked(shelf)), world)
            heads.append(packed.head_bytes)
        self.assertLessEqual(heads[1] - heads[0], 8)


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

    def test_a_rank_keeps_copies_of_at_most_four_others_while_ranks_elsewhere_have_room(self):
        from espalier import _partners
        for nodes, most in ((["a"] * 8 + ["b"] + ["c"] * 8, 4), (["a"] * 8 + ["b", "c"], 4), (["b", "c"] + ["a"] * 8, 4),
                            (["a"] * 4 + ["b"] * 8 + ["c"] * 4, 2), (["a"] * 8 + ["b"], 8)):  # all of a state are needed: of none a copy is left out
            partners = _partners.partners_of(nodes)
            self.assertTrue(all(nodes[rank] != nodes[partner] for rank, partner in enumerate(partners)), (nodes, partners))
            self.assertEqual(max(map(partners.count, partners)), most, (nodes, partners))
        # Only what is more than four goes further than to the next node.
        self.assertEqual(_partners.partners_of(["a"] * 8 + ["b"] + ["c"] * 8)[:8], [8, 8, 8, 8, 9, 10, 11, 12])

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
