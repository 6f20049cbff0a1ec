"""Where processes meet, and what those of a gloo group tell each other: the same results on one, two and three, and what a stranger puts into
the group is read as JSON or refused, never run. Run by tests/torchrt/python.bats."""
import datetime
import multiprocessing
import os
import pickle
import socket
import tempfile
import unittest
import unittest.mock

TOLD = [None, True, [3, [1, 2]], {"model.w": [0.1, float("inf")]}, "espalier \u00e9", list(range(5000))]


class Runs:
    """Whose pickle makes a folder, of the name of the process that reads it."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return eval, (f"__import__('os').mkdir({self.folder!r} + '/ran' + str(__import__('os').getpid()))",)


def honest(rank, world, group, _):
    from espalier import _exchange
    for value in TOLD:
        mine = [rank, value] * (rank + 1)  # of another length on each
        assert _exchange.gathered(mine, group) == [[one, value] * (one + 1) for one in range(world)]
        for teller in range(world):
            assert _exchange.told_by(teller, mine if rank == teller else None, group) == [teller, value] * (teller + 1)
    assert _exchange.gathered((rank, (1,)), group) == [[one, [1]] for one in range(world)]


def tell(dist, torch, data, group, world):
    """What gathered() sends, with bytes of the stranger's choice."""
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(data)]), group=group)
    most = max(map(int, sizes))
    mine = torch.frombuffer(bytearray(data.ljust(most, b"\0")), dtype=torch.uint8)
    dist.all_gather([torch.zeros(most, dtype=torch.uint8) for _ in range(world)], mine, group=group)


def beside_a_stranger(rank, world, group, folder):
    """The last process of the group is a stranger's."""
    import torch
    import torch.distributed as dist
    from espalier import _exchange
    from espalier._state import StateError
    mark = os.path.join(folder, f"ran{os.getpid()}")
    pieces = [pickle.dumps(Runs(folder)), b"[" * 200000, b'"\xff"', b"1" * 5000, b"{"]
    for data in pieces:
        if rank == world - 1:
            tell(dist, torch, data, group, world)
            continue
        try:
            _exchange.gathered(rank, group)
        except StateError as error:
            assert "told is no JSON" in str(error), error
            continue
        raise AssertionError(f"{data[:20]!r} was taken")
    for data in pieces:
        if rank == world - 1:
            dist.broadcast(torch.tensor([len(data)]), group=group, group_src=rank)
            dist.broadcast(torch.frombuffer(bytearray(data), dtype=torch.uint8), group=group, group_src=rank)
            continue
        try:
            _exchange.told_by(world - 1, None, group)
        except StateError as error:
            assert "told is no JSON" in str(error), error
            continue
        raise AssertionError(f"{data[:20]!r} was taken")
    # Sizes that would take all memory.
    for size in (1 << 40, -1, 0):
        if rank == world - 1:
            dist.all_gather([torch.zeros(1, dtype=torch.int64) for _ in range(world)], torch.tensor([size]), group=group)
            dist.broadcast(torch.tensor([size]), group=group, group_src=rank)
            continue
        for ask in (lambda: _exchange.gathered(rank, group), lambda: _exchange.told_by(world - 1, None, group)):
            try:
                ask()
            except StateError as error:
                assert f"tells {size} bytes" in str(error), error
                continue
            raise AssertionError(f"a size of {size} was taken")
    assert not os.path.exists(mark)
    # The same pickle by torch's own function, which this package does not use.
    dist.all_gather_object([None] * world, Runs(folder) if rank == world - 1 else rank, group=group)
    assert os.path.exists(mark)


def process(rank, world, store, folder, job, told):
    try:
        import torch.distributed as dist
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world, timeout=datetime.timedelta(seconds=100))
        job(rank, world, dist.new_group(backend="gloo"), folder)
        dist.barrier()
        told.put("")
    except BaseException as error:
        told.put(f"rank {rank}: {type(error).__name__}: {error}")
        raise


class Exchange(unittest.TestCase):
    def processes(self, world, job):
        with tempfile.TemporaryDirectory() as folder:
            context = multiprocessing.get_context("fork")
            told = context.Queue()
            made = [context.Process(target=process, args=(rank, world, os.path.join(folder, "store"), folder, job, told)) for rank in range(world)]
            for one in made:
                one.start()
            self.assertEqual([told.get(timeout=200) for _ in made], [""] * world)
            for one in made:
                one.join(60)
                self.assertEqual(one.exitcode, 0)

    def test_the_same_results_on_one_two_and_three(self):
        import torch.distributed  # noqa: F401 for all that are forked
        from espalier import _exchange
        self.assertEqual(_exchange.gathered((1, [2]), None), [[1, [2]]])
        self.assertEqual(_exchange.told_by(0, (1, [2]), None), [1, [2]])
        for world in (1, 2, 3):
            self.processes(world, honest)

    def test_what_a_stranger_in_the_group_tells_is_not_run_and_sizes_are_bounded(self):
        import torch.distributed  # noqa: F401
        for world in (2, 3):
            self.processes(world, beside_a_stranger)

    def test_nothing_in_the_package_reads_pickles_of_others(self):
        import espalier
        folder = os.path.dirname(espalier.__file__)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                for bad in ("_object(", "_object_list(", "torch.load(", "pickle.load"):
                    self.assertNotIn(bad, text, name)
                if name != "_state.py":
                    self.assertNotIn("Unpickler", text, name)


class Meeting(unittest.TestCase):
    def free_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.7", 0))
            return probe.getsockname()[1]

    def test_the_store_listens_at_one_address_and_torchs_own_rendezvous_uses_it(self):
        import torch.distributed as dist
        from espalier import _meeting
        port = self.free_port()
        store = _meeting.open_store("127.0.0.7", port, 1, 60)
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 60)
        told = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.7", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
        with unittest.mock.patch.dict(os.environ, told):
            dist.init_process_group("gloo")
            dist.barrier()
            self.assertGreater(len(store.list_keys()), 0)  # keys of the process group
            dist.destroy_process_group()

    def test_a_port_that_is_taken_is_refused_in_words(self):
        from espalier import _meeting
        with socket.create_server(("127.0.0.7", 0)) as taken:
            port = taken.getsockname()[1]
            with self.assertRaisesRegex(OSError, f"rank 0 cannot listen at 127.0.0.7:{port}, where its generation meets: Address already in use"):
                _meeting.open_store("127.0.0.7", port, 1, 60)

    def joined(self, nodes, **environment):
        """A process of a generation on these nodes, where names are in no file but the test's. The GLOO_SOCKET_IFNAME that it sets, or what it says."""
        import espalier
        import stand_in
        names, real = {"own": "10.9.8.7", "debian": "127.0.1.1"}, socket.getaddrinfo
        lookup = lambda host, *more, **named: real(names.get(host, host), *more, **named)
        made = lambda batch, *_: unittest.mock.Mock(rank=1, generation=0, shares=[1] * len(nodes), unit=1, nodes=nodes)
        with unittest.mock.patch.dict(os.environ, {"ESPALIER_LAUNCHER": "none:1", "MASTER_PORT": "9", **environment}), \
                unittest.mock.patch.object(stand_in._run, "Worker", made), unittest.mock.patch.object(socket, "getaddrinfo", lookup):
            if "GLOO_SOCKET_IFNAME" not in environment:
                os.environ.pop("GLOO_SOCKET_IFNAME", None)
            try:
                espalier.join(global_batch=len(nodes), steps=1)
            except espalier.RunError as error:
                return str(error)
            return os.environ.get("GLOO_SOCKET_IFNAME")

    def test_between_nodes_gloo_uses_the_interface_of_the_network_in_which_rank_0_is_reached(self):
        from espalier import _network
        for interfaces, found in (([("lo", "127.0.0.1"), ("eth0", "192.0.2.9"), ("ib0", "10.9.8.7"), ("ib0", "fe80::1")], "ib0"),
                                  ([("lo", "127.0.0.1"), ("lo", "10.9.8.7")], None),  # gloo would take the first address of lo
                                  ([("eth0", "192.0.2.9")], None)):
            with unittest.mock.patch.object(_network, "_addresses", lambda: interfaces), unittest.mock.patch.object(_network, "own_address", lambda: "10.9.8.7"):
                self.assertEqual(self.joined(["a", "b"], MASTER_ADDR="own"), found)
                self.assertEqual(self.joined(["a", "b"], MASTER_ADDR="own", GLOO_SOCKET_IFNAME="eth7"), "eth7")
                self.assertIsNone(self.joined(["a", "a"], MASTER_ADDR="own"))

    def test_this_nodes_interfaces_are_found_with_their_addresses(self):
        from espalier import _network
        self.assertIn(("lo", "127.0.0.1"), _network._addresses())
        with unittest.mock.patch.dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT="9"):
            self.assertEqual(_network.own_address(), "127.0.0.1")

    def test_a_master_port_that_is_none_is_left_to_torch_as_an_address_that_cannot_be_reached_is(self):
        from espalier import _network
        for port in ("http", "", "65536", "\u00b2", "-1"):
            self.assertIsNone(self.joined(["a", "b"], MASTER_ADDR="own", MASTER_PORT=port))
            with unittest.mock.patch.dict(os.environ, MASTER_PORT=port), self.assertRaisesRegex(OSError, "MASTER_PORT: .* is not the number of a port"):
                _network.own_address()

    def test_a_name_that_is_the_nodes_own_loopback_is_refused_in_words_where_there_are_other_nodes(self):
        for name, address in (("debian", "127.0.1.1"), ("127.0.0.1", "127.0.0.1"), ("::1", "::1")):
            said = self.joined(["a", "b", "a"], MASTER_ADDR=name)
            self.assertIn(f"espalier.join(): MASTER_ADDR: {name} is {address} on this node, where none of the run's 2 nodes can reach another", said)
            self.assertIn("set launch.network in espalier.toml to the network between the nodes", said)
            self.assertIn("/etc/hosts", said)
        self.assertIsNone(self.joined(["a", "a"], MASTER_ADDR="debian"))


if __name__ == "__main__":
    unittest.main()
