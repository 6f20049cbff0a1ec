"""Unit tests of the Python package: work that is no step, as evaluations, and what the launcher hears of it. Run by
tests/torchrt/python.bats."""
import importlib.util
import os
import socket
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

import stand_in


class Telling(unittest.TestCase):
    """What Control sends. The clock stands still between two calls of pass_by()."""

    def setUp(self):
        from espalier import _control
        self.sent, self.now, self.control_module = [], 1000.0, _control
        made = types.SimpleNamespace(send=self.sent.append, receive=lambda: threading.Event().wait())
        patch = unittest.mock.patch.object(_control, "Channel", lambda *_: made)
        patch.start()
        self.addCleanup(patch.stop)
        # Heartbeats themselves wait for an hour after the first one.
        patch = unittest.mock.patch.object(_control, "time", types.SimpleNamespace(monotonic=lambda: self.now, sleep=lambda _: time.sleep(3600)))
        patch.start()
        self.addCleanup(patch.stop)

    def control(self, heartbeat=1.0, begins=True):
        control = self.control_module.Control("none:1", "", heartbeat)
        control.hello(rank=0)
        if begins:
            control.begin_heartbeats()
        return control

    def told(self, control):
        """How often it was told that the process gets on."""
        control.send("ready")  # waits until all before it is sent
        return sum(frame == {"type": "heartbeat", "progress": True} for frame in self.sent)

    def test_it_is_told_at_once_and_then_once_a_heartbeat_at_most(self):
        control = self.control()
        for passed, told in ((0, 1), (0.5, 1), (0.4, 1), (0.1, 2), (0.9, 2), (100, 3), (0.9, 3), (0.1, 4)):
            self.now += passed
            for _ in range(10):
                control.progress()
            self.assertEqual(self.told(control), told)

    def test_many_threads_tell_it_as_seldom_as_one(self):
        control = self.control()
        threads = [threading.Thread(target=lambda: [control.progress() for _ in range(1000)]) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(self.told(control), 1)

    def test_who_waits_in_vain_tells_heartbeats_alone(self):
        control = self.control()
        self.assertEqual(self.told(control), 0)
        self.assertIn({"type": "heartbeat"}, self.sent)

    def test_nothing_is_told_before_heartbeats_begin_and_where_none_are_wanted(self):
        for control in (self.control(begins=False), self.control(heartbeat=0.0)):
            control.progress()
            self.assertEqual(self.told(control), 0)

    def test_it_is_told_after_the_last_step_and_not_by_who_was_told_to_leave(self):
        control = self.control()
        control.farewell()
        control.send("done", step=5)
        control.progress()
        self.assertEqual(self.told(control), 1)
        control.left, self.now = True, self.now + 10
        control.progress()
        self.assertEqual(self.told(control), 1)

    def test_a_child_that_was_forked_tells_nothing(self):
        control = self.control()
        child = os.fork()
        if child == 0:
            waits = control._telling.qsize()
            control.progress()
            os._exit(int(control._telling.qsize() > waits))
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        control.progress()
        self.assertEqual(self.told(control), 1)

    def test_a_signals_handler_that_comes_while_it_is_told_waits_for_nothing(self):
        control = self.control()
        with control._progressing:
            handler = threading.Thread(target=control.progress, daemon=True)
            handler.start()
            handler.join(20)
            self.assertFalse(handler.is_alive())


def told_after(control):
    """By the number of steps that were told before: how often it was told that the process gets on."""
    step, told = 0, {}
    for one in control.told:
        step = one["step"] if one["type"] == "step" else step
        if one.get("progress"):
            told[step] = told.get(step, 0) + 1
    return told


def waits_for_an_evaluation(rank, world, led):
    """Where rank 1 evaluates for longer than torch lets others wait: the steps that each has done, or why it has failed."""
    import datetime
    import torch
    import torch.distributed.distributed_c10d as torchs
    from espalier import _run
    with unittest.mock.patch.object(torchs, "default_pg_timeout", datetime.timedelta(seconds=2)):
        if led:
            run = stand_in.join(stand_in.Control(), rank, world, global_batch=2, steps=3, unit=world)
        else:
            with unittest.mock.patch.dict(os.environ, RANK=str(rank), WORLD_SIZE=str(world)), unittest.mock.patch.object(_run, "_set_up_alone"):
                run = _run.Run(2, 3, seed=0, checkpoint=None, checkpoint_every=0, checkpoint_minutes=0, snapshot_seconds=1, start_seconds=1, unit=world)
        model = torch.nn.Linear(4, 1)
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01))
        done = []
        try:
            for step in run.steps():
                run.report(1.0)
                done.append(step)
                if step == 1 and rank == 1:
                    time.sleep(5)
        except RuntimeError as error:
            return str(error)
    return done


class Script(unittest.TestCase):
    def test_an_evaluation_may_take_longer_than_torchs_limit_where_a_launcher_says_what_hangs(self):
        import torch.distributed  # noqa: F401 for all that are forked
        self.assertEqual(stand_in.processes(2, waits_for_an_evaluation, True), [[1, 2, 3]] * 2)
        self.assertIn("imed out", stand_in.processes(2, waits_for_an_evaluation, False)[0])

    def trained(self, run):
        import torch
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run.register(model=model, optimizer=optimizer)
        run.progress()
        for step in run.steps():
            loss = model(torch.ones(2, 4)).square().mean()
            loss.backward()
            optimizer.step()
            run.report(loss)
            if step == 2:
                run.progress()
        run.progress()

    def test_what_the_script_tells_is_told_and_nothing_more(self):
        control = stand_in.Control()
        self.trained(stand_in.join(control, global_batch=2, steps=4))
        self.assertEqual(told_after(control), {0: 1, 2: 1, 4: 1})

    def test_the_packages_own_checkpoint_tells_it_after_each_piece_that_is_on_the_disk(self):
        from espalier import _checkpoint
        control = stand_in.Control()
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(_checkpoint, "_PIECE", 100):
            path = os.path.join(folder, "c")
            self.trained(stand_in.join(control, global_batch=2, steps=4, checkpoint=path, checkpoint_every=3))
            pieces = -(-os.path.getsize(path) // 100)
        self.assertGreater(pieces, 1)
        self.assertEqual(told_after(control), {0: 1, 2: 1, 3: pieces, 4: pieces + 1})

    def test_without_a_launcher_it_does_nothing(self):
        import espalier
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("ESPALIER_LAUNCHER", None)
            self.trained(espalier.join(global_batch=2, steps=4))


@unittest.skipUnless(importlib.util.find_spec("accelerate"), "no accelerate")
class HuggingFace(unittest.TestCase):
    def test_the_trainer_tells_it_in_evaluations_predictions_and_after_checkpoints(self):
        import torch
        from transformers import Trainer, TrainerCallback, TrainingArguments

        from espalier.transformers import attach
        from layer_with_loss import LayerWithLoss

        dataset = [{"x": torch.ones(4) * i, "labels": torch.tensor(1.0)} for i in range(8)]
        control, seen = stand_in.Control(), []
        run = stand_in.join(control, global_batch=4, steps=4)

        class Looking(TrainerCallback):
            def on_save(self, args, state, *_, **__):  # called after the run's
                seen.append(("saved", told_after(control)[state.global_step]))

        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(LayerWithLoss(), TrainingArguments(
                folder, max_steps=4, per_device_train_batch_size=4, per_device_eval_batch_size=2, eval_strategy="steps", eval_steps=2, save_strategy="steps",
                save_steps=3, use_cpu=True, report_to="none", disable_tqdm=True), train_dataset=dataset, eval_dataset=dataset[:6])
            attach(run, trainer)
            trainer.add_callback(Looking())
            trainer.train()
            # Three batches and the evaluation's end; a checkpoint after step 3, and one after the last.
            self.assertEqual(told_after(control), {2: 4, 3: 1, 4: 5})
            self.assertEqual(seen, [("saved", 1), ("saved", 5)])
            trainer.predict(dataset[:4])
            self.assertEqual(told_after(control)[4], 5 + 3)
            trainer.evaluate()
            self.assertEqual(told_after(control)[4], 8 + 4)


@unittest.skipUnless(importlib.util.find_spec("lightning"), "no lightning")
class Lightning(unittest.TestCase):
    def test_the_strategy_tells_it_in_validations_tests_predictions_and_after_checkpoints(self):
        import lightning
        import torch

        from espalier.lightning import Elastic

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def training_step(self, batch, batch_idx):
                return self.layer(batch[0]).square().mean()

            validation_step = test_step = training_step

            def predict_step(self, batch, batch_idx):
                return self.layer(batch[0])

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.01)

        def loader(samples, batch):
            return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(samples, 4)), batch_size=batch)

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "GLOO_SOCKET_IFNAME": "lo"}
        control = stand_in.Control()
        run = stand_in.join(control, global_batch=4, steps=4)
        self.addCleanup(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, place):
            trainer = lightning.Trainer(accelerator="cpu", strategy=Elastic(run), max_steps=4, val_check_interval=2, check_val_every_n_epoch=None,
                                        num_sanity_val_steps=0, default_root_dir=folder, logger=False, enable_checkpointing=False,
                                        enable_progress_bar=False, enable_model_summary=False)
            model = Model()
            trainer.fit(model, loader(16, 4), loader(6, 2))
            self.assertEqual(told_after(control), {2: 3, 4: 3})
            trainer.test(model, loader(4, 2), verbose=False)
            self.assertEqual(told_after(control)[4], 3 + 2)
            trainer.predict(model, loader(10, 2))
            self.assertEqual(told_after(control)[4], 5 + 5)
            trainer.validate(model, loader(2, 2), verbose=False)
            self.assertEqual(told_after(control)[4], 10 + 1)
            trainer.save_checkpoint(os.path.join(folder, "one.ckpt"))
            self.assertEqual(told_after(control)[4], 11 + 1)


if __name__ == "__main__":
    unittest.main()
