"""Unit tests of the Python package: what is written and told at the end of a training, and who may write. Run by
tests/torchrt/python.bats."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import stand_in


def training(rank, world, path, control, kind="fsdp", device=None, **settings):
    """A run of a small model, which the processes divide, with its model and optimizer."""
    import torch
    torch.manual_seed(1)
    model = torch.nn.Linear(6, 6, device=device)
    if kind == "fsdp":
        from torch.distributed.fsdp import fully_shard
        fully_shard(model)
    elif kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    run = stand_in.join(control, rank, world, **{"global_batch": 2 * world, "steps": 6, "checkpoint": path, "checkpoint_every": 2, **settings})
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


def wait_for(path):
    until = time.monotonic() + 100
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.02)


def one_breaks(rank, world, folder, who, seconds):
    from espalier import _leaving
    control = stand_in.Control()
    run, model, optimizer = training(rank, world, os.path.join(folder, "c"), control)
    with unittest.mock.patch.object(_leaving, "_SECONDS", seconds):
        for step in run.steps():
            step_of(model, optimizer, run)
            if step == 3:
                if rank not in who:
                    wait_for(os.path.join(folder, "left"))  # as a rank whose model waits for the others
                break
    open(os.path.join(folder, "left"), "w").close()
    return control.told


def one_breaks_while_the_other_trains(rank, world, folder):
    """Rank 1 leaves the loop after step 3, and rank 0 needs it in none of its own exchanges. Returns how each has ended."""
    from espalier import _leaving
    control = stand_in.Control()
    run, model, optimizer = training(rank, world, os.path.join(folder, "c"), control, "plain", unit=world)
    try:
        with unittest.mock.patch.object(_leaving, "_SECONDS", 5.0):
            for step in run.steps():
                step_of(model, optimizer, run)
                if step == 3 and rank == 1:
                    break
    except RuntimeError as error:
        return {"type": "raised", "message": str(error)}
    return control.told[-1]


def groups_ended(rank, world, end, folder, unit):
    """What is told last where the script itself destroys all process groups before its end, and whether the training lets go of its own."""
    import torch.distributed as dist
    from espalier import _ending
    control, last, said = stand_in.Control(), [], io.StringIO()
    run, model, optimizer = training(rank, world, folder and os.path.join(folder, "c"), control, "plain" if unit > 1 else "ddp", unit=unit)
    with unittest.mock.patch.object(_ending.atexit, "register", lambda *call: last.append(call)), contextlib.redirect_stderr(said):
        steps = run.steps()
        try:
            for step in steps:
                step_of(model, optimizer, run)
                if step == 3 and end == "raise":
                    raise ValueError
                if step == 3 and end == "break":
                    break
        except ValueError:
            pass
        dist.destroy_process_group()
        steps.close()
        for call, *arguments in last:
            call(*arguments)
    return control.told[-1], run._trainer.groups.all is None and run._trainer.groups.leavers is None


class Processes(unittest.TestCase):
    def files(self, folder):
        return sorted(name for name in os.listdir(folder) if name not in ("store", "left"))

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
            found = stand_in.processes(3, one_breaks, folder, (1,), 5.0)
            self.assertEqual(found[1][-1]["type"], "failed", found)
            self.assertIn("was left after step 3 by this process and not by all within 5 s", found[1][-1]["message"])
            self.assertIn("evaluate after it", found[1][-1]["message"])
            self.assertEqual(self.files(folder), ["c", "c.2.0", "c.2.1", "c.2.2"])

    def test_what_a_rank_tells_that_left_the_loop_is_not_taken_for_what_those_tell_that_train(self):
        import torch.distributed  # noqa: F401 for all that are forked
        with tempfile.TemporaryDirectory() as folder:
            trains, left = stand_in.processes(2, one_breaks_while_the_other_trains, folder)
            self.assertEqual(trains["type"], "raised", trains)  # its peer is gone
            self.assertEqual(left["type"], "failed", left)
            self.assertIn("was left after step 3 by this process and not by all within 5 s", left["message"])
            self.assertEqual(self.files(folder), ["c", "c.2.0", "c.2.1"])

    def test_ranks_that_leave_it_together_write_their_state(self):
        import torch.distributed.fsdp  # noqa: F401
        with tempfile.TemporaryDirectory() as folder:
            found = stand_in.processes(3, one_breaks, folder, (0, 1, 2), 60.0)
            self.assertEqual([one[-1] for one in found], [{"type": "done", "step": 3}] * 3)
            self.assertEqual(self.files(folder), ["c", "c.3.0", "c.3.1", "c.3.2"])


    def test_a_script_that_destroys_its_process_groups_is_told_of_all_the_same(self):
        import torch.distributed  # noqa: F401
        for end in ("raise", "break", "whole"):
            for told, released in stand_in.processes(2, groups_ended, end, None, 1):
                self.assertEqual((told["type"], released), ("done", True), end)

    def test_a_loop_that_is_left_and_held_beyond_its_process_groups_is_written_still(self):
        import torch.distributed  # noqa: F401
        with tempfile.TemporaryDirectory() as folder:
            for told, released in stand_in.processes(2, groups_ended, "break", folder, 2):
                self.assertEqual((told["type"], released), ("done", True))
            self.assertEqual(self.files(folder), ["c", "c.3.0", "c.3.1"])


class Words(unittest.TestCase):
    def last_words(self, body, path=None):
        """What a process with a launcher tells at its end, and its exit code. path: of its checkpoint."""
        script = ("import sys, atexit; import stand_in, test_ending as t\nc = stand_in.Control()\n"
                  "atexit.register(lambda: print('TOLD', c.kinds()[-1]))\nsend = c.send\n"
                  "def told(kind, **more):\n  send(kind, **more); kind == 'failed' and print('TOLD failed', flush=True)\nc.send = told\n"
                  "run, model, optimizer = t.training(0, 1, sys.argv[1] or None, c, 'plain')\nsys.excepthook = run._worker._last_words\nrun._worker.hear_of_exceptions()\n" + body)
        here = os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run([sys.executable, "-c", script, path or ""], env={**os.environ, "PYTHONPATH": here + ":" + os.environ["PYTHONPATH"]},
                              capture_output=True, text=True, timeout=120)
        words = [line for line in done.stdout.splitlines() if line.startswith("TOLD")]
        self.said = done.stderr
        return ", ".join(sorted(set(words))), done.returncode

    def test_an_exception_is_told_as_failed_and_one_that_the_script_catches_as_done_at_its_end(self):
        loop = "for step in run.steps():\n  t.step_of(model, optimizer, run)\n  if step == 2: "
        self.assertEqual(self.last_words(loop + "raise ValueError\n"), ("TOLD failed", 1))
        caught = "try:\n" + "".join(f"  {line}\n" for line in (loop + "raise ValueError").splitlines()) + "except ValueError: pass\n"
        self.assertEqual(self.last_words(caught + "assert c.kinds()[-1] == 'step', c.kinds()\n"), ("TOLD done", 0))
        self.assertEqual(self.last_words(loop + "break\nassert c.kinds()[-1] == 'done'\n"), ("TOLD done", 0))

    def test_a_loop_of_somebody_elses_that_an_exception_ends_is_told_as_that_of_the_script(self):
        loop = "run.start()\nwhile run.done < 6:\n  step = run.begin()\n  t.step_of(model, optimizer, run)\n  if step == 3: {}\n  run.end()\n"
        caught = lambda does: "try:\n" + "".join(f"  {line}\n" for line in loop.format(does).splitlines()) + "except ValueError: pass\n"
        trains = "assert c.kinds()[-1] == 'step', c.kinds()\n"
        fork = "import os\nif os.fork() == 0: sys.exit()\nos.wait()\n"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            self.assertEqual(self.last_words(caught("raise ValueError") + trains + fork, path), ("TOLD done, TOLD step", 0), self.said)  # the second is the child's
            self.assertIn(f"run.start(): the loop has ended after step 3 without run.finish(), so {path} was not written then; call run.finish()", self.said)
        self.assertEqual(self.last_words("sys.excepthook = lambda *_: None\n" + loop.format("raise ValueError")), ("TOLD failed", 1))
        # The training goes on in another generation; in a thread that trains still; and it has been told how it ended.
        self.assertEqual(self.last_words(caught("c.left = True; raise ValueError") + trains), ("TOLD step", 0))
        thread = "import threading, time\ndef work():\n" + "".join(f"  {line}\n" for line in loop.format("time.sleep(100)").splitlines())
        self.assertEqual(self.last_words(thread + "threading.Thread(target=work, daemon=True).start()\nwhile c.steps() < 3: time.sleep(0.01)\n"), ("TOLD step", 0))
        once = "run.finish()\nc.kinds = lambda: [sum(one['type'] == 'done' for one in c.told)]\n"
        self.assertEqual(self.last_words(loop.format("pass") + once), ("TOLD 1", 0))

    def test_an_exception_that_nobody_caught_is_told_also_where_the_script_shows_exceptions_itself(self):
        loop = "sys.excepthook = lambda *_: None\nfor step in run.steps():\n  t.step_of(model, optimizer, run)\n  if step == 2: "
        self.assertEqual(self.last_words(loop + "raise ValueError\n"), ("TOLD failed", 1))
        self.assertEqual(self.last_words(loop + "sys.exit(1)\n"), ("TOLD done", 1))  # the script ends itself

    def test_an_exception_in_a_thread_that_trains_is_told_and_one_in_another_thread_is_not(self):
        work = ("import threading\ndef work():\n  for step in run.steps():\n    t.step_of(model, optimizer, run)\n    if step == 2: {}\n"
                "other = threading.Thread(target=work)\nother.start()\nother.join()\n")
        self.assertEqual(self.last_words(work.format("raise ValueError('in a thread')")), ("TOLD failed", 1))
        self.assertIn("ValueError: in a thread", self.said)
        beside = ("import threading\ndef fails(): raise ValueError('beside')\nfor step in run.steps():\n  t.step_of(model, optimizer, run)\n"
                  "  if step == 2:\n    one = threading.Thread(target=fails)\n    one.start()\n    one.join()\n")
        self.assertEqual(self.last_words(beside), ("TOLD done", 0))
        self.assertIn("ValueError: beside", self.said)

    def test_a_last_checkpoint_that_fails_is_told_also_where_the_script_shows_exceptions_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            for hook in ("", "sys.excepthook = lambda *_: None\n"):
                body = (hook + "from espalier import _checkpoint\ndef full(*_): raise OSError(28, 'No space left on device')\n"
                        "for step in run.steps():\n  t.step_of(model, optimizer, run)\n  if step == 5: _checkpoint.write = full\n"
                        "  if step == 5: run._trainer.saving.every = 100\n")
                self.assertEqual(self.last_words(body, os.path.join(folder, "c")), ("TOLD failed", 1), self.said)

    def test_an_interrupt_while_the_state_is_written_is_told(self):
        body = ("from espalier import _checkpoint\ndef stopped(*_): raise KeyboardInterrupt\nfor step in run.steps():\n"
                "  t.step_of(model, optimizer, run)\n  if step == 3:\n    _checkpoint.write = stopped\n    break\n")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.last_words(body, os.path.join(folder, "c"))[0], "TOLD failed", self.said)
            self.assertIn("was not written after step 3, where the loop was left: KeyboardInterrupt", self.said)
            self.assertNotIn("RAISED", self.said)
        block = ("from espalier import _checkpoint\ndef stopped(*_): raise KeyboardInterrupt\ntry:\n with run.steps() as steps:\n  for step in steps:\n"
                 "   t.step_of(model, optimizer, run)\n   if step == 3:\n    _checkpoint.write = stopped\n    break\n"
                 "except KeyboardInterrupt:\n  print('RAISED', file=sys.stderr)\n")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.last_words(block, os.path.join(folder, "c"))[0], "TOLD failed", self.said)
            self.assertIn("RAISED", self.said)  # a block can raise it

    def test_a_loop_that_ends_by_itself_is_written_and_one_that_an_exception_seems_to_end_says_that_it_is_not(self):
        step, words = "  t.step_of(model, optimizer, run)\n", "the loop was ended after step 3 by an exception, or in a way that looks like one, so "
        with tempfile.TemporaryDirectory() as folder:
            for number, (loop, written) in enumerate((("for step in itertools.islice(run.steps(), 3)", True), ("for step in zip(run.steps(), range(3))", True),
                                                      ("steps = itertools.islice(run.steps(), 3)\nwhile next(steps, None)", False))):
                path = os.path.join(folder, str(number))
                self.assertEqual(self.last_words(f"import itertools\n{loop}:\n{step}", path), ("TOLD done", 0), self.said)
                self.assertEqual(words + path in self.said, not written, self.said)
                self.assertEqual(next(training(0, 1, path, stand_in.Control(), "plain")[0].steps()), 4 if written else 3)

    def test_a_loop_that_is_left_before_its_first_step_has_done_those_of_its_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "c")
            for count in (0, 3):
                control = stand_in.Control()
                run, model, optimizer = training(0, 1, path, control, "plain")
                for step, _ in zip(run.steps(), range(count)):
                    step_of(model, optimizer, run)
                self.assertEqual(control.told[-1], {"type": "done", "step": count})
                control = stand_in.Control()
                run = training(0, 1, path, control, "plain")[0]
                run.start()
                run.finish()
                self.assertEqual(control.told[-1], {"type": "done", "step": count})

    def test_a_loader_that_ends_beside_the_steps_ends_the_training_then_and_there(self):
        for workers in (0, 1):
            body = (f"import torch\nloader = torch.utils.data.DataLoader(torch.arange(3), num_workers={workers})\nfor step, batch in zip(run.steps(), loader):\n"
                    "  t.step_of(model, optimizer, run)\nassert c.told[-1] == {'type': 'done', 'step': 3}, c.told[-1]\n")
            self.assertEqual(self.last_words(body), ("TOLD done", 0), self.said)

    def test_a_loop_that_a_module_holds_ends_while_threads_still_run(self):
        step = "  t.step_of(model, optimizer, run)\n  if step == 2: "
        for held in ("held = run.steps()\nfor step in held:\n", "held = iter(run.steps())\nfor step in held:\n"):
            self.assertEqual(self.last_words(held + step + "break\n"), ("TOLD done", 0))
            self.assertEqual(self.last_words("sys.excepthook = lambda *_: None\n" + held + step + "raise ValueError\n"), ("TOLD failed", 1))

        thread = ("import threading\ndef work():\n  global held\n  held = run.steps()\n  for step in held:\n    if step == 2: break\n"
                  "    t.step_of(model, optimizer, run)\n")
        self.assertEqual(self.last_words(thread + "other = threading.Thread(target=work)\nother.start()\n"), ("TOLD done", 0))

    def test_a_generation_that_has_to_leave_tells_and_writes_nothing_whoever_holds_its_loop(self):
        leave = "  t.step_of(model, optimizer, run)\n  if step == 3:\n    c.left = True\n    raise t.stand_in.Leave\n"
        for held in ("held = iter(run.steps())\nfor step in held:\n", "for step in run.steps():\n"):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "c")
                self.assertEqual(self.last_words(held + leave, path), ("TOLD step", 0))
                self.assertEqual((self.said, next(training(0, 1, path, stand_in.Control(), "plain")[0].steps())), ("", 3))

    def test_a_child_that_was_forked_tells_nothing_at_its_end(self):
        body = ("import os\ntry:\n  for step in run.steps():\n    t.step_of(model, optimizer, run)\n    if step == 2: raise ValueError\n"
                "except ValueError: pass\nif os.fork() == 0: sys.exit()\nos.wait()\n")
        self.assertEqual(self.last_words(body), ("TOLD done, TOLD step", 0))  # the second is the child's

    def test_a_last_checkpoint_that_cannot_be_written_is_told_as_a_failure(self):
        from espalier import _checkpoint
        for error, words in ((OSError(28, "No space left on device"), "No space left on device; make room"), (ValueError("a peer is gone"), "gone")):
            control, said = stand_in.Control(), io.StringIO()
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said), contextlib.ExitStack() as broken:
                run, model, optimizer = training(0, 1, os.path.join(folder, "c"), control, "plain")
                for step in run.steps():
                    step_of(model, optimizer, run)
                    if step == 3:
                        broken.enter_context(unittest.mock.patch.object(_checkpoint, "write", side_effect=error))
                        break
            self.assertEqual(control.kinds()[-1], "failed")
            self.assertIn("was not written after step 3, where the loop was left: ", control.told[-1]["message"])
            self.assertIn(words, said.getvalue())


class Interpreter(unittest.TestCase):
    def test_at_its_end_it_waits_for_threads_of_groups_where_there_are_groups_and_not_in_children(self):
        import torch.distributed as dist
        from espalier import _threads_at_exit
        for there, process, waits in ((True, os.getpid(), 1), (False, os.getpid(), 0), (True, os.getppid(), 0)):
            with unittest.mock.patch.object(_threads_at_exit.time, "sleep") as sleep, unittest.mock.patch.object(dist, "is_initialized", lambda: there):
                _threads_at_exit._wait(process)
            self.assertEqual(sleep.call_count, waits)


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
                    run._trainer._gpu = torch.device("cuda", 0) if gpu and step == 3 else None  # the step at whose end it stands
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
