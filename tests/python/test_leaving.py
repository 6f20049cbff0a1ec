"""Unit tests of the Python package: how a loop over steps may be left. Run by tests/torchrt/python.bats."""
import gc
import glob
import itertools
import os
import subprocess
import sys
import unittest
import unittest.mock


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

    def fail(self, at_exit=False):
        self.told.append("failed")


def around(steps):
    for step in steps:
        yield step


def handed_on(steps):
    yield from steps


WRAPS = (lambda one: one, around, handed_on, lambda one: map(int, one), lambda one: around(around(one)))


class Loader:
    """An iterator of the script's own, whose end is an exception of Python code."""

    def __init__(self, count):
        self.left = count

    def __iter__(self):
        return self

    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left


def bad():
    yield 1
    raise ValueError("the loader fails")


def fails(step):
    return int("x") if step == 3 else step


def first(pair):
    return pair[0]


def second(pair):
    return pair[1]


# What may be around the steps, and how a loop over it ends.
OUTER = ((lambda one: itertools.islice(one, 3), "well after 2"), (lambda one: map(first, zip(one, range(3))), "well after 3"),
         (lambda one: map(second, zip(range(3), one)), "well after 2"), (lambda one: map(first, zip(one, Loader(3))), "well after 3"),
         (lambda one: map(first, zip(one, bad())), "failed"), (lambda one: map(fails, one), "failed"),
         (lambda one: itertools.islice(map(fails, one), 5), "failed"), (lambda one: itertools.islice(map(first, zip(one, bad())), 5), "failed"),
         (lambda one: map(first, zip(one, map(int, "12x"))), "failed"))


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
        for wrap in WRAPS + (lambda one: itertools.islice(one, 100), lambda one: map(first, zip(one, range(100)))):
            for how, wanted in (("no", "well after 5"), ("break", "well after 2"), ("return", "well after 2"), ("raise", "failed"),
                                ("call", "failed"), ("exit", "failed")):
                self.assertEqual(self.left(how, wrap), [wanted], how)

    def test_what_ends_by_itself_around_the_steps_ends_them_well_and_what_fails_there_does_not(self):
        for wrap in WRAPS:
            for number, (outer, wanted) in enumerate(OUTER):
                if wrap is not handed_on or sys.version_info >= (3, 11):  # before, a close looks like what an exception does
                    self.assertEqual(self.left("no", lambda one: outer(wrap(one))), [wanted], number)
                self.assertEqual(self.left("no", lambda one: wrap(outer(one))), [wanted], number)
        for held in (False, True):
            self.assertEqual(self.left("no", lambda one: itertools.islice(one, 3), held), ["well after 2"])

    def test_exceptions_that_the_script_has_caught_and_keeps_do_not_end_it(self):
        kept = []

        def caught(step):
            try:
                fails(3)
            except ValueError as error:
                kept.append(error)
            return step

        for function in (caught, int):
            run = Looped()
            for step in itertools.islice(map(function, run.steps()), 3):
                try:
                    fails(3)
                except ValueError as error:
                    kept.append(error)
            self.assertEqual(run.told, ["well after 2"])
        self.assertEqual(len(kept), 9)

    def test_a_loop_of_many_lines_is_left_as_one_of_few(self):
        body = "".join(f"    a{line} = step + {line}\n" for line in range(200))
        for last, wanted in (("pass", "well after 2"), ("if step == 2: break", "well after 1"), ("fails(step)", "failed")):
            run = Looped()
            try:
                exec(f"def loop():\n  for step in islice(steps(), 3):\n{body}    {last}\nloop()",
                     {"islice": itertools.islice, "steps": run.steps, "fails": fails})
            except ValueError:
                pass
            self.assertEqual(run.told, [wanted], last)

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

    def within(self, run, how, wrap):
        try:
            with run.steps() as steps:
                for step in wrap(steps):
                    self.body(step, how)
                    if step == 3 and how == "break":
                        break
                    if step == 3 and how == "return":
                        return
                    if step == 3 and how == "raise":
                        raise ValueError("in the loop itself")
        except (ValueError, SystemExit):
            pass

    def test_a_block_of_the_steps_is_told_for_certain_how_it_was_left(self):
        for wrap in WRAPS + (lambda one: itertools.islice(one, 100), lambda one: map(first, zip(one, range(100)))):
            for how, wanted in (("no", "well after 5"), ("break", "well after 2"), ("return", "well after 2"), ("raise", "failed"),
                                ("call", "failed"), ("exit", "failed")):
                run = Looped()
                self.within(run, how, wrap)
                self.assertEqual(run.told, [wanted], how)

    def test_a_block_of_the_steps_knows_what_no_frame_shows(self):
        # next() is told of the end by an exception; a loader of Python code ends inside islice(); an error of C code comes out of it.
        for wrap, wanted in ((lambda one: itertools.islice(map(first, zip(one, Loader(3))), 5), "well after 3"),
                             (lambda one: itertools.islice(map(int, map(" 12x".__getitem__, one)), 5), "failed")):
            run = Looped()
            self.within(run, "no", wrap)
            self.assertEqual(run.told, [wanted])
        run = Looped()
        with run.steps() as steps:
            some = itertools.islice(steps, 3)
            while next(some, None):
                pass
        self.assertEqual(run.told, ["well after 2"])

    def test_an_exception_of_an_earlier_loop_that_the_script_keeps_does_not_spoil_a_block(self):
        run, kept = Looped(), []
        with run.steps() as steps:
            for loader in (bad(), range(1)):
                try:
                    for _ in map(first, zip(steps, loader)):
                        pass
                except ValueError as error:
                    kept.append(error)
            with unittest.mock.patch.object(sys, "last_value", kept[0], create=True):
                steps.__exit__(None, None, None)
        self.assertEqual(run.told, ["well after 3"])

    def test_a_block_inside_a_generator_is_ended_as_its_consumer_ends(self):
        def inside(run):
            with run.steps() as steps:
                for step in steps:
                    yield step

        for how, wanted in (("break", "well after 1"), ("raise", "failed")):
            run = Looped()
            try:
                for step in inside(run):
                    if step == 2 and how == "break":
                        break
                    if step == 2:
                        raise ValueError
            except ValueError:
                pass
            self.assertEqual(run.told, [wanted], how)

    def test_a_block_inside_a_generator_knows_its_consumer_also_where_no_loop_of_its_own_ends_with_it(self):
        def by_next(run):
            with run.steps() as steps:
                while step := next(steps, None):
                    yield step

        def after_a_loop(run):
            with run.steps() as steps:
                for step in steps:
                    if step == 2:
                        break
                    yield step
                yield step

        def handed_over(run):
            yield from by_next(run)

        def failed_before(run):
            with run.steps() as steps:
                try:
                    for step in map(fails, steps):
                        yield step
                except ValueError:
                    yield 3

        for inside in (by_next, after_a_loop, handed_over, failed_before):
            at = 3 if inside is failed_before else 2
            for how, wanted in (("break", "well after 1"), ("islice", "well after 1"), ("raise", "failed"), ("close", "failed")):
                if inside is handed_over and sys.version_info < (3, 11) and how != "raise":
                    continue  # a close looks like what an exception does
                run = Looped()
                try:
                    given = inside(run)
                    for step in itertools.islice(given, at) if how == "islice" else given:
                        if step == at and how == "islice":
                            given = None
                        if step == at and how == "break":
                            given = None
                            break
                        if step == at and how == "raise":
                            raise ValueError
                        if step == at and how == "close":
                            given.close()  # nobody knows why
                except ValueError:
                    pass
                given = None
                self.assertEqual(run.told, ["failed" if inside is failed_before else wanted], (inside.__name__, how))

    def test_a_block_raises_what_interrupts_its_end_and_a_loop_cannot(self):
        for kind in (KeyboardInterrupt, SystemExit):
            run = Looped()
            run.finish = lambda: kind("while the state is written")
            with self.assertRaisesRegex(kind, "while the state is written"):
                with run.steps() as steps:
                    for _ in steps:
                        break
            for _ in run.steps():
                break

    def test_a_loop_that_the_collector_drops_inside_another_one_is_not_taken_for_one_that_was_left_well(self):
        def begun(run):
            class Holder:
                pass

            holder = Holder()
            holder.itself, holder.steps = holder, around(run.steps())
            next(holder.steps)

        run = Looped()
        gc.disable()
        try:
            begun(run)
            for _ in map(gc.collect, (2, 2)):
                pass
        finally:
            gc.enable()
        self.assertEqual(run.told, ["failed"])
        run = Looped()
        for _ in run.steps():  # and none after a collection is
            break
        self.assertEqual(run.told, ["well after 0"])

    def test_a_generator_that_ends_with_a_handler_is_closed_as_one_without(self):
        def guarded(steps):
            try:
                for step in steps:
                    yield step
            finally:
                len("")

        for outer, wanted in ((lambda one: itertools.islice(one, 3), "well after 2"), (lambda one: map(first, zip(one, range(3))), "well after 3")):
            run = Looped()
            for _ in outer(guarded(run.steps())):
                pass
            self.assertEqual(run.told, [wanted])

    def test_a_loop_inside_a_handler_is_ended_well_by_break(self):
        run = Looped()
        try:
            raise KeyError
        except KeyError:
            for _ in run.steps():
                break
        self.assertEqual(run.told, ["well after 0"])

    def test_a_child_that_was_forked_does_not_end_it(self):
        run = Looped()
        steps = run.steps()
        next(steps)
        child = os.fork()
        if child == 0:
            steps.close()
            os._exit(len(run.told))
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        steps.close()
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
        from espalier._run import RunError
        run = Looped(3)
        self.assertEqual(list(run.batches("abc")), [(1, "a"), (2, "b"), (3, "c")])
        with self.assertRaisesRegex(RunError, "the loader has no batch for step 3"):
            list(Looped(3).batches("ab"))


class Interpreters(unittest.TestCase):
    def test_the_others_that_are_here_say_the_same(self):
        import espalier
        script = ("import sys, types; sys.path.insert(0, sys.argv[1]); m = types.ModuleType('espalier'); m.__path__ = [sys.argv[2]]; "
                  "sys.modules['espalier'] = m; import test_leaving as t, unittest; s = unittest.defaultTestLoader.loadTestsFromTestCase(t.Ends); "
                  "sys.exit(not unittest.TextTestRunner().run(s).wasSuccessful())")
        here = os.path.dirname(os.path.abspath(__file__))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        asked = []
        for minor in range(9, 16):
            python = next(iter(glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin/python")) + [f"/usr/bin/python3.{minor}"]))
            if minor == sys.version_info[1] or not os.access(python, os.X_OK):
                continue
            done = subprocess.run([python, "-c", script, here, os.path.dirname(espalier.__file__)], env=clean, capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, python + "\n" + done.stdout + done.stderr)
            asked.append(f"3.{minor}")
        print("# how a loop is left, the same in Python", ", ".join(asked) or "of this version alone: no other from 3.9 on is in ~/.pyenv/versions or /usr/bin")
        if not asked:
            self.skipTest("no other Python")


if __name__ == "__main__":
    unittest.main()
