"""Unit tests of the Python package: copies of the state in a node's vault, and what happens where the vault or memory fails. Run by
tests/torchrt/python.bats."""
import contextlib
import io
import os
import types
import unittest
import unittest.mock

import stand_in
from espalier import _memory, _vault


class Line:
    """A line to a vault that keeps what is deposited, and fails from the deposit number `fails` on."""

    def __init__(self, fails=100):
        self.deposits, self.marks, self._fails = [], {}, fails

    def mark(self, index, step):
        self.marks[index] = step

    def deposit(self, mark, rank, slot, step, fd):
        self.mark(mark, -1)
        if len(self.deposits) >= self._fails:
            raise _vault.VaultError("vault: timed out")
        self.deposits.append((mark, os.dup(fd)))
        self.mark(mark, step)

    def states(self):
        """Of each mark that is a step: that step, and the one that the memory says."""
        from espalier import _state
        newest = dict(self.deposits)
        return {mark: (step, _state.read(_memory.private_map(newest[mark]))[0]) for mark, step in self.marks.items() if step >= 0}


class Growing:
    """State whose head grows with each step, as a Trainer's log does."""

    def __init__(self):
        self.lines = []

    def state_dict(self):
        return {"log": list(self.lines)}


def snapshots(line, grows, rank=0, partners=None):
    from espalier import _snapshots, _state
    made = _snapshots.Snapshots(types.SimpleNamespace(rank=rank), lambda step: _state.Packed(step, {"log": grows}), partners, 0.0)
    made._line = line
    return made


def without_memory(rank, world, who, makes):
    """Three processes, each on a node of its own; rank 1 has no memory for its own copy, or for that of rank 0. makes: snapshots, of which
    the first fails so, or the third, which needs larger memory."""
    import torch.distributed as dist
    from espalier import _partners, _snapshots
    line = Line()
    partners = _partners.Partners([f"n{one}" for one in range(world)], rank, dist.group.WORLD)
    grows = Growing()
    one, error = snapshots(line, grows, rank, partners), io.StringIO()
    real, count = _memory.SharedMemory, [0]

    def scarce(size):
        count[0] += 1
        if rank == 1 and count[0] == {"own": 1, "ward": 2, "own, later": 5}[who]:
            raise OSError(28, "No space left on device")
        return real(size)

    with unittest.mock.patch.object(_snapshots, "SharedMemory", scarce), contextlib.redirect_stderr(error):
        for step in range(5, 5 + makes):
            if rank == 1 and step == 7:
                grows.lines += ["x" * (3 << 20)]
            one.make(step)
    dist.barrier()
    return sorted(line.states().values()), one.safe, error.getvalue()


class Snapshots(unittest.TestCase):
    def test_a_state_whose_head_grows_keeps_its_memory(self):
        line, grows = Line(), Growing()
        one = snapshots(line, grows)
        for step in range(1, 60):
            grows.lines += [{"loss": 0.1 * step, "step": step}] * 3
            one.make(step)
        self.assertEqual(len(line.deposits), 2)
        self.assertEqual(sorted(line.states().values()), [(58, 58), (59, 59)])
        grows.lines += ["x" * (3 << 20)]
        one.make(60)
        self.assertEqual(len(line.deposits), 3)
        self.assertEqual(sorted(line.states().values()), [(59, 59), (60, 60)])

    def test_a_vault_that_fails_ends_no_training_and_keeps_what_it_has(self):
        for fails, kept in ((0, []), (1, [(1, 1)])):
            line, error = Line(fails), io.StringIO()
            one = snapshots(line, Growing())
            with contextlib.redirect_stderr(error):
                for step in range(1, 6):
                    one.make(step)
            self.assertEqual(sorted(line.states().values()), kept)
            self.assertFalse(one.safe)
            self.assertFalse(one.due())
            self.assertEqual(error.getvalue().count("vault: timed out; no more snapshots are made here"), 1)

    def test_a_vault_that_fails_at_a_take_over_ends_no_generation(self):
        one, error = snapshots(Line(0), Growing()), io.StringIO()
        memory = _memory.SharedMemory(64)
        with contextlib.redirect_stderr(error):
            one.adopt(3, memory.fd)
        self.assertFalse(one.safe)
        self.assertIn("vault: timed out", error.getvalue())

    def test_a_process_without_memory_keeps_nobody_waiting(self):
        import torch.distributed  # noqa: F401 for all that are forked
        found = stand_in.processes(3, without_memory, "own", 2)
        self.assertEqual([one[1] for one in found], [True, False, True], found)
        self.assertEqual([one[0] for one in found], [[(5, 5), (5, 5), (6, 6), (6, 6)], [], [(5, 5), (6, 6), (6, 6)]])
        self.assertIn("No space left on device; no more snapshots", found[1][2])
        found = stand_in.processes(3, without_memory, "ward", 2)
        self.assertEqual([one[1] for one in found], [True, False, True], found)
        self.assertEqual([one[0] for one in found], [[(5, 5), (5, 5), (6, 6), (6, 6)], [], [(5, 5), (5, 5), (6, 6), (6, 6)]])

    def test_what_is_kept_of_a_ward_that_has_no_memory_later_is_not_taken_for_newer(self):
        import torch.distributed  # noqa: F401 for all that are forked
        found = stand_in.processes(3, without_memory, "own, later", 3)
        self.assertEqual([one[1] for one in found], [True, False, True], found)
        self.assertEqual([one[0] for one in found], [[(6, 6), (6, 6), (7, 7), (7, 7)], [(6, 6), (6, 6)], [(6, 6), (6, 6), (7, 7)]])


class Recovery(unittest.TestCase):
    def recovered(self, broken):
        """The step and generation that are gone on with, and the descriptors that stay open. broken: of what the vault gives no memory."""
        from espalier import _whole
        items, given, found = [], [], []

        def fetch(key):
            if key in broken:
                raise _vault.VaultError("vault: ends")
            given.append((key, os.open(os.devnull, os.O_RDONLY)))
            return given[-1][1]

        for step, generation, rank in ((9, 1, 0), (9, 1, 0), (8, 1, 0), (8, 0, 0)):
            items.append((step, generation, types.SimpleNamespace(rank=rank, fetch=lambda of, step=step: fetch((step, of)))))
        whole = _whole.Whole.__new__(_whole.Whole)
        whole._worker, whole._group, whole._place = types.SimpleNamespace(vault="v", generation=2, unit=1), None, 0
        whole._apply = lambda one, have, source: found.append((one.step if one else None, have)) or one.fd
        with unittest.mock.patch.object(_whole, "from_vaults", lambda *_: items):
            fd = whole.recover({"generation": 1})
        open_ones = []
        for key, one in given:
            try:
                os.close(one)
                open_ones.append(key)
            except OSError:
                self.assertNotEqual(one, fd)
        return found, open_ones

    def test_a_snapshot_whose_vault_ends_is_passed_over_for_the_next_one(self):
        self.assertEqual(self.recovered([]), ([(9, [True])], [(9, 1)]))
        self.assertEqual(self.recovered([(9, 1)]), ([(8, [True])], [(8, 1)]))
        self.assertEqual(self.recovered([(9, 1), (8, 1)]), ([(8, [True])], [(8, 0)]))
        self.assertEqual(self.recovered([(9, 1), (8, 1), (8, 0)]), ([], []))


if __name__ == "__main__":
    unittest.main()
