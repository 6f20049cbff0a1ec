"""Tests of the Python package where a replica's layout changes between generations. Run by tests/torchrt/python.bats. The processes of a
generation are forked from one that has loaded torch, and go on from the checkpoint of the generation before."""
import contextlib
import io
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from espalier import _layouts, _slices

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 8


class Plans(unittest.TestCase):
    def test_a_plan_has_the_degrees_of_its_layout_and_1_for_those_of_others(self):
        layouts = _layouts.Layouts([{"tp": 2}, {"pp": 2, "cp_x": 3, "tp": 2}])
        self.assertEqual(layouts.units, (2, 12))
        plan = layouts.plan(3, 2)
        self.assertEqual((plan.dp, plan.tp, plan.pp, plan["cp_x"], plan.cp_x, plan.unit, plan.world), (3, 2, 1, 1, 1, 2, 6))
        self.assertEqual(dict(plan), {"dp": 3, "tp": 2, "pp": 1, "cp_x": 1})
        self.assertEqual(str(layouts.plan(1, 12)), "dp 1 x pp 2 x cp_x 3 x tp 2")
        with self.assertRaisesRegex(AttributeError, "no dimension ttp"):
            plan.ttp
        with self.assertRaises(KeyError):
            plan["ttp"]
        for change in (lambda: setattr(plan, "tp", 4), lambda: delattr(plan, "tp")):
            with self.assertRaisesRegex(AttributeError, "cannot be changed"):
                change()

    def test_bad_layouts_are_refused_in_words(self):
        for bad, words in (([], "list of 1 to 16"), ("3d", "list of 1 to 16"), (None, "list of 1 to 16"), ([{"a": n} for n in range(1, 18)], "list of 1 to 16"),
                           ([{}], "1 to 6 dimensions"), ([3], "1 to 6 dimensions"), ([dict.fromkeys("abcdefg", 1)], "1 to 6 dimensions"),
                           ([{"": 1}], "must be a word"), ([{"a" * 17: 1}], "must be a word"), ([{"1a": 1}], "must be a word"),
                           ([{"_a": 1}], "must be a word"), ([{3: 1}], "must be a word"), ([{"a\n": 1}], "must be a word"),
                           ([{"dp": 2}], "which Espalier decides"), ([{"mesh": 2}], "something else of run.plan"), ([{"items": 2}], "something else"),
                           ([{"tp": 0}], "at least 1"), ([{"tp": 2.0}], "at least 1"), ([{"tp": True}], "at least 1"), ([{"tp": "2"}], "at least 1"),
                           ([{"tp": 64, "pp": 32}], "at most 1024"), ([{"tp": 2}, {"pp": 2}], "could not tell them apart")):
            with self.assertRaisesRegex(ValueError, words):
                _layouts.Layouts(bad)

    def test_without_a_launcher_the_first_layout_that_fits_is_taken(self):
        layouts = _layouts.Layouts([{"tp": 4}, {"tp": 2}])
        self.assertEqual([layouts.unit_for(world) for world in (4, 2, 6, 8)], [4, 2, 2, 4])
        with self.assertRaisesRegex(ValueError, "3 processes are no whole replicas of any layout, which have 4, 2 processes"):
            layouts.unit_for(3)

    def test_a_launchers_plan_may_have_replicas_of_each_unit_and_all_of_the_same(self):
        replica = lambda count: {"share": 4, "gpus": [f"a/{one}" for one in range(count)]}
        for unit in (2, 4):
            self.assertEqual(_slices.shares_of({"stages": [{"replicas": [replica(unit)] * 2}]}, 8, (4, 2)), ([4, 4], unit))
        with self.assertRaisesRegex(ValueError, "a replica of 1 GPUs, and this program's replicas have 4 or 2 processes"):
            _slices.shares_of({"stages": [{"replicas": [replica(1)] * 2}]}, 8, (4, 2))
        with self.assertRaisesRegex(ValueError, "replicas of 2 and of 4 GPUs"):
            _slices.shares_of({"stages": [{"replicas": [replica(2), replica(4)]}]}, 8, (4, 2))


class Join(unittest.TestCase):
    def said(self, call, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ESPALIER_LAUNCHER", "OMPI_"))}
        done = subprocess.run([sys.executable, "-c", "import espalier; " + call], env={**clean, **environment}, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def test_what_cannot_be_is_refused_in_words_and_the_plan_loads_no_torch(self):
        for call, words in (("parallel=[{'tp': 2}, {'pp': 2}]", "could not tell them apart"),
                            ("parallel='3d'", 'parallel="3d"): must be "data" or a list'),
                            ("parallel=[{'tp': 1}], unit=2", "the layouts say how many processes a replica has"),
                            ("parallel=[{'tp': 1}], unit=0", "must be between 1 and 1024"),
                            ("parallel=[{'tp': 2}]", "1 processes are no whole replicas of any layout")):
            code, said = self.said(f"espalier.join(global_batch=8, steps=1, {call})")
            self.assertNotEqual(code, 0)
            self.assertIn(words, said)
        code, said = self.said("run = espalier.join(global_batch=8, steps=1, parallel=[{'tp': 4}, {'tp': 2}]); import sys;"
                               "print(run.plan, run.unit, run.replica, run.slice(1), 'torch' in sys.modules)", RANK="3", WORLD_SIZE="6")
        self.assertIn("dp 3 x tp 2 2 1 range(3, 6) False", said)
        code, said = self.said("run = espalier.join(global_batch=8, steps=1, unit=2); print(run.plan.dp, run.plan.unit, run.plan)", RANK="3", WORLD_SIZE="4")
        self.assertIn("2 2 dp 2 x unit 2", said)
        for given, words in (("[]", "has at least one part"), ("[object()]", "has no state_dict")):
            code, said = self.said(f"espalier.join(global_batch=8, steps=1, parallel=[{{'tp': 1}}]).register(model={given})")
            self.assertIn(words, said)
        code, said = self.said("import torch; espalier.join(global_batch=8, steps=1).register(model=[torch.nn.Linear(1, 1)])")
        self.assertIn("for runs with layouts", said)


def every_pair(count):
    """A way through `count` nodes that goes from each to each other once."""
    left, way, path = {one: [other for other in range(count) if other != one] for one in range(count)}, [], [0]
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            way.append(path.pop())
    return way[::-1]


class Training(unittest.TestCase):
    def setUp(self):
        import torch  # for all that are forked
        import torch.distributed.fsdp
        import torch.distributed.pipelining
        import torch.distributed.tensor.parallel  # noqa: F401
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.metrics = os.path.join(self.folder, "metrics")

    def generation(self, world, function):
        """Calls it in so many processes. Returns what went wrong, in their words."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        children, errors = [], os.path.join(self.folder, "errors")
        for rank in range(world):
            child = os.fork()
            if child == 0:
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
                code = 1
                try:
                    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                        function()
                    code = 0
                except BaseException as error:
                    with open(errors, "a", encoding="utf-8") as file:
                        file.write(f"{type(error).__name__}: {error}\n")
                finally:
                    os._exit(code)
            children.append(child)
        failed, until = [], time.monotonic() + 200
        while children:
            for child in children[:]:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    children.remove(child)
                    failed.append(status)
                    until = min(until, time.monotonic() + 10) if status else until  # others may wait for it
            if time.monotonic() > until:
                for child in children:
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.01)
        said = ""
        if os.path.exists(errors):
            with open(errors, encoding="utf-8") as file:
                said = file.read()
            os.remove(errors)
        return said or ("a process ended" if any(failed) else "")

    def train(self, world, *options):
        def script():
            sys.argv = [os.path.join(HERE, "train.py"), *map(str, options)]
            runpy.run_path(sys.argv[0], run_name="__main__")
        return self.generation(world, script)

    def blocks(self, world, *options, kept="c", last=10 ** 6):
        """Goes on from the checkpoint with the tests' model of blocks until step `last`."""
        return self.train(world, "--kind", "blocks", "--pause", 0, "--batch", BATCH, "--width", 16, "--metrics", self.metrics, "--steps", 1000,
                               "--checkpoint", os.path.join(self.folder, kept), "--every", 1000, "--break-at", last + 1, *options)

    def is_that_of_one_process(self, steps):
        one = os.path.join(self.folder, "one")
        self.assertEqual(self.train(1, "--kind", "blocks", "--pause", 0, "--batch", BATCH, "--width", 16, "--metrics", one, "--steps", steps), "")
        with contextlib.redirect_stderr(io.StringIO()):
            done = subprocess.run([sys.executable, os.path.join(HERE, "losses.py"), self.metrics, one, str(BATCH)], capture_output=True, text=True)
        print(done.stderr, end="")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn(f"# {steps} steps, {steps} compared", done.stderr)

    def through(self, cases):
        """One training that changes from each case to each other. A case: a layout, replicas, and options."""
        way, step = every_pair(len(cases)), 0
        for at in way:
            layout, replicas, *options = cases[at]
            step += 2
            processes = replicas * _layouts.Layouts([layout]).units[0]
            self.assertEqual(self.blocks(processes, "--layouts", "+".join(f"{name}={degree}" for name, degree in layout.items()), *options, last=step), "", (cases[at], step))
        self.is_that_of_one_process(step)

    def test_tensor_and_data_parallelism_by_fully_shard_move_every_tensor(self):
        self.through([({"tp": 1}, 1), ({"tp": 2}, 2), ({"tp": 1}, 3), ({"tp": 4}, 1)])

    def test_stages_move_every_tensor(self):
        self.through([({"pp": 2, "tp": 2}, 1), ({"tp": 2}, 2), ({"pp": 2}, 2), ({"pp": 2}, 1, "--several", 2)])

    def test_plain_tensors_of_ddp_move_too(self):
        self.through([({"pp": 1}, 2, "--wrap", "ddp"), ({"pp": 2}, 2, "--wrap", "ddp"), ({"pp": 2, "tp": 1}, 1)])

    def test_a_checkpoint_of_a_run_without_layouts_is_refused_and_the_other_way_round(self):
        self.assertEqual(self.blocks(1, last=2), "")
        self.assertIn("is of a run without layouts (espalier.join(parallel=[...])), and this run has some", self.blocks(1, "--layouts", "tp=1"))
        self.assertEqual(self.blocks(1, "--layouts", "tp=1", kept="d", last=2), "")
        self.assertIn("is of a run with layouts (espalier.join(parallel=[...])), and this run has none", self.blocks(1, kept="d"))

    def steps(self, register, layout=None, report=None, steps=2):
        """A script of its own: register(run, mesh) returns what it registers, report(run) what a step tells."""
        def script():
            import espalier
            run = espalier.join(global_batch=4, steps=steps, parallel=[layout or {"tp": 2}], checkpoint=os.path.join(self.folder, "c"), checkpoint_every=1)
            import torch.distributed as dist
            dist.init_process_group("gloo")
            run.register(**register(run, run.plan.mesh("cpu")))
            for step in run.steps():
                said = run.report(report(run) if report else None)
                if report and abs(said - 1.5) > 1e-12:
                    raise AssertionError(f"the mean of 1 and 2 is said to be {said}")
        return script

    @staticmethod
    def linear(rows=4, name="one", more=False, seed=0):
        import torch
        torch.manual_seed(seed)
        model = torch.nn.Module()
        setattr(model, name, torch.nn.Linear(3, rows))
        if more:
            model.more = torch.nn.Linear(3, 3)
        return model

    def test_names_and_shapes_that_differ_between_layouts_are_refused_by_name(self):
        def one(**changes):
            return lambda run, mesh: {"model": self.linear(**changes)}
        self.assertEqual(self.generation(2, self.steps(one())), "")
        for changes, words in (({"name": "other"}, "model: other.bias (2 such names) is in the state of no process"),
                               ({"more": True}, "model: more.bias (2 such names) is in the state of no process"),
                               ({"rows": 5}, "model.one.weight: it was of shape (4, 3), and is of (5, 3) here")):
            self.assertIn(words, self.generation(1, self.steps(one(**changes), {"tp": 1}, steps=9)))
        os.remove(os.path.join(self.folder, "c"))
        self.assertEqual(self.generation(2, self.steps(one(more=True))), "")
        said = self.generation(1, self.steps(one(), {"tp": 1}, steps=9))
        self.assertIn("model.more.bias (2 such names) is in the state, and no process has such a tensor", said)

    def test_a_tensor_that_processes_divide_by_hand_is_refused_by_name(self):
        self.assertEqual(self.generation(2, self.steps(lambda run, mesh: {"model": self.linear(rows=4 + run.rank)})), "")
        said = self.generation(1, self.steps(lambda run, mesh: {"model": self.linear()}, {"tp": 1}, steps=9))
        self.assertIn("model.one.weight: the processes of one replica had it in the shapes [(4, 3), (5, 3)]", said)

    def test_a_tensor_that_processes_divide_by_hand_into_like_shapes_is_refused_at_the_first_step(self):
        words = "model.one.weight: the processes of one replica have different values of it"
        other = lambda run, mesh: {"model": self.linear(seed=run.rank % 2).requires_grad_(False)}
        self.assertIn(words, self.generation(2, self.steps(other)))
        self.assertIn(words, self.generation(4, self.steps(other)))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "c")))
        # Seeded alike, they become other ones by training.
        def apart(run, mesh):
            import torch
            model = self.linear().requires_grad_(False)
            loss = lambda run: model.one.weight.add_(0.1 * run.rank) is not None and 1.5
            apart.report = loss
            return {"model": model}
        self.assertEqual(self.generation(2, self.steps(apart, report=lambda run: apart.report(run))), "")
        self.assertIn(words, self.generation(2, self.steps(apart, steps=9, report=lambda run: apart.report(run))))

    def test_samples_of_one_replica_may_differ_by_rounding_only(self):
        import torch
        from espalier._alike import check_alike, sample_of
        from espalier._named import by_name
        from espalier._state import StateError

        def sample(change=0.0, **options):
            model = self.linear(**options)
            with torch.no_grad():
                next(model.parameters())[-1, -1] += change
            return sample_of(by_name({"model": model}))
        self.assertEqual({name: len(values) for name, values in sample().items()}, {"model.one.weight": 12, "model.one.bias": 4})
        self.assertEqual(len(sample(rows=100)["model.one.weight"]), 32)
        check_alike([sample(), None, sample(1e-4), sample(name="other", seed=1)])
        for other in (sample(0.1), sample(seed=1)):
            with self.assertRaisesRegex(StateError, "model.one.weight: the processes of one replica have different values"):
                check_alike([sample(), None, other])

    def test_ddp_that_hides_divided_tensors_is_refused(self):
        def hidden(run, mesh):
            import torch
            from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
            model = self.linear()
            parallelize_module(model, mesh["tp"], {"one": ColwiseParallel()})
            return {"model": torch.nn.parallel.DistributedDataParallel(model, device_mesh=mesh["dp"])}
        self.assertIn("DistributedDataParallel(device_mesh=...) takes the tensors that are divided out of the model", self.generation(2, self.steps(hidden)))

    def test_a_part_that_cannot_be_written_leaves_the_checkpoint_of_before(self):
        kept = os.path.join(self.folder, "c")

        def full(run):  # no room for the second process's part of step 2
            if run.rank == 1 and not os.path.exists(f"{kept}.2.1"):
                os.mkdir(f"{kept}.2.1")
            return 1.5
        self.assertIn("another process could not write its part", self.generation(2, self.steps(lambda run, mesh: {"model": self.linear()}, report=full)))
        self.assertEqual(sorted(os.listdir(self.folder)), ["c", "c.1.0", "c.1.1", "c.2.1"])
        os.rmdir(f"{kept}.2.1")
        self.assertEqual(self.generation(1, self.steps(lambda run, mesh: {"model": self.linear()}, {"tp": 1})), "")
        self.assertEqual(sorted(os.listdir(self.folder)), ["c", "c.2.0"])

    def test_a_process_that_cannot_write_takes_part_in_the_exchange_that_the_others_wait_in(self):
        from espalier import _checkpoint
        from espalier._named import by_name
        told, kept = [], os.path.join(self.folder, "c")

        def write(fails, step=1, world=1):
            _checkpoint.write(kept, step, by_name({"model": self.linear()}), 0, world, True, lambda one: (told.append(one[0].item()), one[0].fill_(one[0] or fails)), named=True)
        with self.assertRaises(_checkpoint.Elsewhere):
            write(1)
        self.assertEqual((told, os.listdir(self.folder)), ([0], []))
        os.mkdir(kept)  # neither can it be read
        with self.assertRaises(IsADirectoryError):
            write(0)
        self.assertEqual((told, os.listdir(self.folder)), ([0, 1], ["c"]))
        os.rmdir(kept)
        write(0)
        write(0, 2)
        self.assertEqual(sorted(os.listdir(self.folder)), ["c", "c.2.0"])

    def test_gradients_that_nobody_averages_and_parameters_of_nobody_are_refused(self):
        import torch

        def ddp(run, mesh):
            return {"model": torch.nn.parallel.DistributedDataParallel(self.linear(), process_group=mesh["tp"].get_group())}

        def foreign(run, mesh):
            return {"model": self.linear(), "optimizer": torch.optim.AdamW(self.linear().parameters())}
        alone = lambda run, mesh: {"model": self.linear()}
        self.assertIn("wrap the module in DistributedDataParallel or by fully_shard()", self.generation(4, self.steps(alone)))
        self.assertIn("its process group has 1 processes, and there are 2 replicas", self.generation(2, self.steps(ddp, {"tp": 1})))
        self.assertIn("a parameter of shape (4, 3) that no registered module has", self.generation(1, self.steps(foreign, {"tp": 1})))
        twice = lambda run, mesh: {"model": [self.linear(), self.linear()]}
        self.assertIn("two of the modules have one.weight", self.generation(1, self.steps(twice, {"tp": 1})))
        mixed = lambda run, mesh: {"model": [self.linear(), torch.amp.GradScaler()]}
        self.assertIn("holds modules, optimizers or other objects together", self.generation(1, self.steps(mixed, {"tp": 1})))

    def test_an_optimizer_is_kept_by_names_and_each_parameter_in_its_group(self):
        import torch
        from espalier._named import by_name
        from espalier._state import StateError

        def objects(*rates):
            model = self.linear(more=True)
            groups = [{"params": list(part.parameters()), "lr": rate} for part, rate in zip((model.one, model.more), rates)]
            return by_name({"model": model, "optimizer": torch.optim.AdamW(groups or model.parameters())})["optimizer"]
        state = objects(0.1, 0.2).state_dict()
        self.assertEqual({name: group["lr"] for name, group in state["groups"].items()},
                         {"model.one.weight": 0.1, "model.one.bias": 0.1, "model.more.weight": 0.2, "model.more.bias": 0.2})
        other = objects(0.5, 0.6)
        other.load_state_dict(state)
        self.assertEqual(other.state_dict(), state)
        with self.assertRaisesRegex(StateError, "model.more.weight and model.one.weight are of one group of parameters, and were of two"):
            objects().load_state_dict(state)
        del state["groups"]["model.more.bias"]
        with self.assertRaisesRegex(StateError, "model.more.bias was in no optimizer before"):
            objects(0.5, 0.6).load_state_dict(state)
        with self.assertRaisesRegex(StateError, "not by the names of parameters"):
            other.load_state_dict(other.parts[0].state_dict())

    def test_processes_without_a_loss_say_none_and_the_same_ones_do_in_each_replica(self):
        frozen = lambda run, mesh: {"model": self.linear().requires_grad_(False)}
        loss = lambda run: run.replica + 1.0
        self.assertEqual(self.generation(4, self.steps(frozen, report=loss)), "")
        os.remove(os.path.join(self.folder, "c"))
        self.assertEqual(self.generation(4, self.steps(frozen, report=lambda run: loss(run) if run.rank % 2 else None)), "")
        os.remove(os.path.join(self.folder, "c"))
        self.assertIn("3 processes told a loss, which is not the same number in each of 2 replicas",
                      self.generation(4, self.steps(frozen, report=lambda run: loss(run) if run.rank else None)))


class Needs(unittest.TestCase):
    """What a process takes of others' states: the second stage's here."""

    def test_what_names_a_tensor_goes_to_who_has_it_and_all_else_to_all(self):
        import torch
        from espalier._named import Needs, by_name
        model = torch.nn.Module()
        model.layers = torch.nn.ModuleDict({"1": torch.nn.Linear(2, 2)})
        objects = by_name({"model": model, "optimizer": torch.optim.AdamW(model.parameters()), "ema": torch.optim.swa_utils.AveragedModel(model),
                           "scaler": torch.amp.GradScaler(enabled=False)})
        names = [f"layers.{layer}.{one}" for layer in (0, 1) for one in ("weight", "bias")]
        ema = {"n_averaged": 0, **{f"module.{name}": 0 for name in names}}
        needs = Needs(objects, [{"model": {name: 0 for name in names}, "ema": ema}])
        for path, wanted in ((("model", names[0]), False), (("model", names[2]), True), (("optimizer", "state"), True),
                             (("optimizer", "state", f"model.{names[0]}"), False), (("optimizer", "state", f"model.{names[2]}"), True),
                             (("optimizer", "state", f"model.{names[2]}", "step"), True), (("ema", f"module.{names[1]}"), False), (("ema", "n_averaged"), True),
                             (("scaler", "scale"), True), (("other", "shadow", names[0]), False), (("other", "shadow", names[2]), True),
                             (("other", f"state.{names[0]}.exp_avg"), False), (("other", f"state.{names[2]}.exp_avg"), True), (("other", 3), True),
                             (("other", "layers.0"), True)):
            self.assertEqual(needs(path), wanted, path)
        with self.assertRaisesRegex(RuntimeError, "layers.1.bias"):
            Needs(objects, [{"model": {}, "ema": ema}])


if __name__ == "__main__":
    unittest.main()
