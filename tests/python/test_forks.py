"""Unit tests of the Python package: what a forked child, as a DataLoader's worker, has of the sockets of its parent. Run by
tests/torchrt/python.bats."""
import contextlib
import os
import signal
import socket
import threading
import unittest

import stand_in
from homes import flat, packing, read_into, train, training
from espalier import _divided, _handover, _memory, _vault, _whole


@contextlib.contextmanager
def sleeping_child():
    runs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(runs[1])
        signal.pause()
        os._exit(0)
    os.close(runs[1])
    os.read(runs[0], 1)  # it runs
    os.close(runs[0])
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def sockets_of(process):
    links = []
    for fd in os.listdir(f"/proc/{process}/fd"):
        with contextlib.suppress(OSError):
            links.append(os.readlink(f"/proc/{process}/fd/{fd}"))
    return {link for link in links if link.startswith("socket:")}


class Forks(unittest.TestCase):
    def test_a_change_that_is_given_up_can_be_tried_again_while_a_child_lives(self):
        for kind in (_whole.Whole, _divided.Divided):
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="9")
            one, other = training(), training(seed=2)
            train(one, 1)
            train(other, 1)
            worker = stand_in.Worker(0, 1, 4, stand_in.Control())
            hand = kind(worker, one, None)
            name = _handover.offer_name(worker.token, worker.generation, worker.rank)
            with sleeping_child():
                for step in (1, 2, 3):
                    hand.provide(step)
                    if step == 3:
                        break
                    hand.withdraw()
                    train(one, 1)
                at, fd = _handover.take(name)
            self.assertEqual((at, read_into(other, fd)) if kind is _whole.Whole else (at, 3), (3, 3))
            os.close(fd)
            if kind is _whole.Whole:
                self.assertTrue((flat(one) == flat(other)).all())

    def test_the_name_of_an_offer_follows_from_no_other_name(self):
        names = [_handover.offer_name(token, generation, rank, received) for token in ("abcdef0123456789", "abcdef012345678a")
                 for generation in (1, 2, 11) for rank in (1, 2, 11) for received in (False, True)]
        self.assertEqual(len({name.rpartition("-")[2] for name in names}), len(names))
        self.assertLess(max(map(len, names)), 100)  # a socket's name has 107 bytes at most
        self.assertFalse([name for name in names if "abcdef01" in name])

    def test_a_child_has_none_of_the_packages_sockets(self):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="9")
        before = sockets_of(os.getpid())
        worker, vault = stand_in.Worker(0, 1, 4, stand_in.Control()), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hands = [_whole.Whole(worker, training(), None), _handover.Offer(f"espalier-test-fork-{os.getpid()}")]
        divided = _divided.Divided(stand_in.Worker(0, 1, 4, stand_in.Control()), training(), None)
        name = f"espalier-test-vault-{os.getpid()}"
        vault.bind("\0" + name)
        vault.listen(1)
        accepted = []

        def welcome():
            accepted.append(vault.accept()[0])
            accepted[0].recv(1 << 16)
            accepted[0].send(_vault._REPLY.pack(b"ESP1", _vault._DONE, 0, 0, b""))

        thread = threading.Thread(target=welcome)
        thread.start()
        line = _vault.Line(name, 0, 0, 2)
        thread.join()
        ours = sockets_of(os.getpid()) - before
        self.assertEqual(len(ours), 7)  # three offers, a server, the line, and the two sockets of this test's vault
        with sleeping_child() as child:
            theirs = sockets_of(child)
            self.assertEqual(len(ours & theirs), 2)
            line.close()
            self.assertEqual(accepted[0].recv(1), b"")  # the vault sees that this process has gone, whatever children it has
        hands[1].close()
        self.assertEqual(len(ours & sockets_of(os.getpid())), 5)
        for one in (vault, accepted[0]):
            one.close()
        del hands, divided


if __name__ == "__main__":
    unittest.main()
