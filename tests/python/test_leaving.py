"""Unit tests of the Python package: how a training's loop may end, what is written and told then, and who may write. Run by
tests/torchrt/python.bats."""
import glob
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import stand_in


class Looped:
    """A run whose steps do nothing. `told`: how its loop ended."""

    def __init__(self, steps=5, fail_at=0):
        from espalier._steps import Steps
        self.done, self.total_steps, self.told, self._fail_at = 0, steps, [], fail_at
        self.steps, self.batches = lambda: Steps(self), lambda loader: Steps(self, loader)

    def start(self):
        pass

    def begin(self):
        if self.done + 1 == self._fail_at:
            raise ValueError("in begin()")
        return self.done + 1

    def end(self):
        self.done += 1

    def finish(self):
        self.told.append(f"well after {self.done}")

    def fail(self):
        self.told.append("failed")


def around(steps):
    for step in steps:
        yield step


def handed_on(steps):
    yield from steps


class Ends(unittest.TestCase):
    def left(self, how, wrap, held=False):
        run = Looped()
        self.loop(run, how, wrap, held)
        return run.told

    def loop(self, run, how, wrap, held):
        try:
            if held:
                steps = run.steps()
                for step in wrap(steps):
                    self.body(step, how)
                    if step == 3 and how == "break":
                        break
                return
            for step in wrap(run.steps()):
                with open(os.devnull):
                    self.body(step, how)
                    if step == 3 and how == "break":
                        break
                    if step == 3 and how == "return":
                        return
                    if step == 3 and how == "raise":
                        raise ValueError("in the loop itself")
        except (ValueError, SystemExit):
            pass

    def test_break_and_return_in_a_handler_end_it_well_and_what_a_handler_raises_does_not(self):
        def loop(run, how):
            for step in run.steps():
                try:
                    next(iter(()))
                except StopIteration:
                    if how == "break":
                        break
                    if how == "return":
                        return
                    if how == "raise":
                        raise
                finally:
                    step += 1

        for how, wanted in (("break", "well after 0"), ("return", "well after 0"), ("raise", "failed")):
            run = Looped()
            try:
                loop(run, how)
            except StopIteration:
                pass
            self.assertEqual(run.told, [wanted], how)

    @staticmethod
    def body(step, how):
        if step == 3 and how == "call":
            int("a call fails")
        if step == 3 and how == "exit":
            sys.exit(1)

    def test_break_and_return_end_a_training_well_and_exceptions_do_not(self):
        for wrap in (lambda one: one, around, handed_on, lambda one: map(int, one), lambda one: around(around(one))):
            for how, wanted in (("no", "well after 5"), ("break", "well after 2"), ("return", "well after 2"), ("raise", "failed"),
                                ("call", "failed"), ("exit", "failed")):
                self.assertEqual(self.left(how, wrap), [wanted], how)

    def test_a_loop_whose_steps_the_script_holds_goes_on_in_another_one(self):
        run = Looped()
        steps = run.steps()
        for step in steps:
            if step == 2:
                break
        self.assertEqual(run.told, [])
        self.assertEqual([step for step in steps], [3, 4, 5])
        self.assertEqual(run.told, ["well after 5"])
        for how, wanted in (("no", "well after 5"), ("break", "well after 2"), ("call", "failed")):
            self.assertEqual(self.left(how, lambda one: one, held=True), [wanted], how)

    def test_close_ends_it_and_closing_heeds_exceptions(self):
        import contextlib
        run = Looped()
        with contextlib.closing(run.steps()) as steps:
            next(steps)
        self.assertEqual(run.told, ["well after 0"])
        run = Looped()
        with self.assertRaises(KeyError), contextlib.closing(run.steps()) as steps:
            next(steps)
            raise KeyError
        self.assertEqual(run.told, ["failed"])

    def test_a_loop_inside_a_handler_is_ended_well_by_break(self):
        run = Looped()
        try:
            raise KeyError
        except KeyError:
            for _ in run.steps():
                break
        self.assertEqual(run.told, ["well after 0"])

    def test_what_fails_between_two_steps_is_no_good_end(self):
        run = Looped(fail_at=2)
        with self.assertRaises(ValueError):
            for _ in run.steps():
                pass
        self.assertEqual(run.told, ["failed"])

    def test_what_the_interpreter_says_of_an_exception_that_nobody_caught_counts(self):
        run = Looped()
        steps = run.steps()
        next(steps)
        with unittest.mock.patch.object(sys, "last_value", ValueError(), create=True):
            del steps
        self.assertEqual(run.told, ["failed"])

    def test_batches_come_with_their_steps_and_a_loader_that_ends_is_refused_in_words(self):
        import espalier
        run = Looped(3)
        self.assertEqual(list(run.batches("abc")), [(1, "a"), (2, "b"), (3, "c")])
        with self.assertRaisesRegex(espalier.RunError, "the loader has no batch for step 3"):
            list(Looped(3).batches("ab"))

    def test_the_other_interpreters_that_are_here_say_the_same(self):
        script = ("import sys, types; sys.path.insert(0, sys.argv[1]); m = types.ModuleType('espalier'); m.__path__ = [sys.argv[2]]; "
                  "sys.modules['espalier'] = m; import test_leaving as t, unittest; "
                  "s = unittest.TestSuite(t.Ends(n) for n in ('test_break_and_return_end_a_training_well_and_exceptions_do_not', "
                  "'test_a_loop_whose_steps_the_script_holds_goes_on_in_another_one', "
                  "'test_break_and_return_in_a_handler_end_it_well_and_what_a_handler_raises_does_not')); "
                  "sys.exit(not unittest.TextTestRunner().run(s).wasSuccessful())")
        import espalier
        here = os.path.dirname(os.path.abspath(__file__))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        for minor in range(9, 16):
            python = next(iter(glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin/python")) + [f"/usr/bin/python3.{minor}"]))
            if not os.access(python, os.X_OK):
                continue
            done = subprocess.run([python, "-c", script, here, os.path.dirname(espalier.__file__)], env=clean, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def training(rank, world, path, control, kind="fsdp", **settings):
    """A run of a small model, which the processes divide, with its model and optimizer."""
    import torch
    torch.manual_seed(1)
    model = torch.nn.Linear(6, 6)
    if kind == "fsdp":
        from torch.distributed.fsdp import fully_shard
        fully_shard(model)
    elif kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    run = stand_in.join(control, rank, world, global_batch=2 * world, steps=6, checkpoint=path, checkpoint_every=2, **settings)
    run.register(model=model, optimizer=optimizer)
    return run, model, optimizer


def step_of(model, optimizer, run, report=True):
    import torch
    optimizer.zero_grad()
    loss = model(torch.ones(2, 6)).square().mean()
    loss.backward()
    optimizer.step()
    if report:
        run.report(loss)


def one_raises(rank, world, folder, late):
    """Rank 1 fails in step 3, which is not one of a checkpoint. Returns what it told, and the seconds until it knew that it had failed."""
    control = stand_in.Control()
    run, model, optimizer = training(rank, world, os.path.join(folder, "c"), control)
    try:
        for step in run.steps():
            if late:
                step_of(model, optimizer, run)
            if step == 3 and rank == 1:
                begin = time.monotonic()
                raise ValueError("the test says so")
            if not late:
                step_of(model, optimizer, run)
    except ValueError:
        return control.kinds(), time.monotonic() - begin
    except BaseException as error:
        return control.kinds(), type(error).__name__
    return control.kinds(), None


def one_breaks(rank, world, folder, who, seconds):
    from espalier import _leaving
    control = stand_in.Control()
    run, model, optimizer = training(rank, world, os.path.join(folder, "c"), control)
    with unittest.mock.patch.object(_leaving.all_can_write, "__defaults__", (seconds,)):
        for step in run.steps():
            step_of(model, optimizer, run)
            if step == 3 and rank in who:
                break
            if step == 3:
                time.sleep(5)  # as a rank whose model waits for the others
                break
    return control.told


class Processes(unittest.TestCase):
    def files(self, folder):
        return sorted(name for name in os.listdir(folder) if name != "store")

    def test_a_rank_that_raises_writes_nothing_waits_for_nobody_and_does_not_say_done(self):
        import torch.distributed.fsdp  # noqa: F401 for all that are forked
        for late in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                found = stand_in.processes(3, one_raises, folder, late)
                told, seconds = found[1]
                self.assertIsInstance(seconds, float, found)
                self.assertLess(seconds, 5)
                self.assertNotIn("done", told)
                self.assertEqual(self.files(folder), ["c", "c.2.0", "c.2.1", "c.2.2"])

    def test_a_rank_that_leaves_the_loop_alone_says_so_and_writes_nothing(self):
        import torch.distributed.fsdp  # noqa: F401
        with tempfile.TemporaryDirectory() as folder:
            found = stand_in.processes(3, one_breaks, folder, (1,), 1.0)
            self.assertEqual(found[1][-1]["type"], "failed", found)
            self.assertIn("was left after step 3 by this process and not by all within 1 s", found[1][-1]["message"])
            self.assertEqual(self.files(folder), ["c", "c.2.0", "c.2.1", "c.2.2"])

    def test_ranks_that_leave_it_together_write_their_state(self):
        import torch.distributed.fsdp  # noqa: F401
        with tempfile.TemporaryDirectory() as folder:
            found = stand_in.processes(3, one_breaks, folder, (0, 1, 2), 60.0)
            self.assertEqual([one[-1] for one in found], [{"type": "done", "step": 3}] * 3)
            self.assertEqual(self.files(folder), ["c", "c.3.0", "c.3.1", "c.3.2"])


class Words(unittest.TestCase):
    def last_words(self, body):
        """What a process with a launcher tells at its end, and its exit code."""
        script = ("import sys, atexit; import stand_in, test_leaving as t\nc = stand_in.Control()\n"
                  "atexit.register(lambda: print('TOLD', c.kinds()[-1]))\nsend = c.send\n"
                  "def told(kind, **more):\n  send(kind, **more); kind == 'failed' and print('TOLD failed', flush=True)\nc.send = told\n"
                  "run, model, optimizer = t.training(0, 1, None, c, 'plain')\nsys.excepthook = run._worker._last_words\n" + body)
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": here + ":" + os.environ["PYTHONPATH"]},
                              capture_output=True, text=True, timeout=120)
        words = [line for line in done.stdout.splitlines() if line.startswith("TOLD")]
        self.assertEqual(len(words), 1, done.stdout + done.stderr)
        return words[0], done.returncode

    def test_an_exception_is_told_as_failed_and_one_that_the_script_catches_as_done_at_its_end(self):
        loop = "for step in run.steps():\n  t.step_of(model, optimizer, run)\n  if step == 2: "
        self.assertEqual(self.last_words(loop + "raise ValueError\n"), ("TOLD failed", 1))
        caught = "try:\n" + "".join(f"  {line}\n" for line in (loop + "raise ValueError").splitlines()) + "except ValueError: pass\n"
        self.assertEqual(self.last_words(caught + "assert c.kinds()[-1] == 'step', c.kinds()\n"), ("TOLD done", 0))
        self.assertEqual(self.last_words(loop + "break\nassert c.kinds()[-1] == 'done'\n"), ("TOLD done", 0))


class Writers(unittest.TestCase):
    def test_a_generation_whose_successor_trains_writes_no_more(self):
        control, wrote = stand_in.Control([(2, "switch"), (2, "exit")]), []
        run, model, optimizer = training(0, 1, None, control, "plain")
        self.assertFalse(run.is_writer)
        with self.assertRaises(SystemExit):
            try:
                for step in run.steps():
                    step_of(model, optimizer, run)
                    wrote.append((step, run.is_writer))
            finally:
                wrote.append(("at the end", run.is_writer))
        self.assertEqual(wrote, [(1, True), (2, True), (3, True), ("at the end", False)])
        self.assertEqual(control.kinds()[-1], "switched")

    def test_a_generation_that_stands_leaves_the_gpu_to_the_next_one_and_trains_on_where_that_fails(self):
        import torch
        for gpu in (True, False):
            control, kept = stand_in.Control([(2, "switch"), (2, "resume")]), []
            run, model, optimizer = training(0, 1, None, control, "plain")
            with unittest.mock.patch.object(torch.cuda, "empty_cache", lambda: kept.append("emptied")):
                for step in run.steps():
                    run._trainer._cuda = gpu and step == 3  # the step at whose end it stands
                    kept.append(model.weight.grad is not None)
                    step_of(model, optimizer, run)
            self.assertEqual(kept, [False, True, True, "emptied", False, True, True] if gpu else [False] + [True] * 5)
            self.assertEqual(control.kinds()[-1], "done")

    def test_a_channels_exit_is_what_makes_it_so(self):
        from espalier import _control
        control = _control.Control.__new__(_control.Control)
        control.left = False
        with self.assertRaises(_control.Leave):
            control._checked({"type": "exit"}, ("commit",))
        self.assertTrue(control.left)

    def test_who_ends_the_training_writes_its_last_file(self):
        run, model, optimizer = training(0, 1, None, stand_in.Control(), "plain")
        for _ in run.steps():
            step_of(model, optimizer, run)
        self.assertTrue(run.is_writer)


if __name__ == "__main__":
    unittest.main()
