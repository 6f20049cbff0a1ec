"""Unit tests of the Python package: the Trainer goes on from a state and from checkpoints of its own, which are of other steps. Run by
tests/torchrt/python.bats."""
import contextlib
import importlib.util
import io
import os
import shutil
import tempfile
import types
import unittest
import unittest.mock

from resuming import STEPS, joined, keeping_the_first_snapshot, step_in, taking_over, weights_of


@unittest.skipUnless(importlib.util.find_spec("accelerate"), "no accelerate")
class HuggingFace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "out")
        self.state = os.path.join(folder.name, "state")

    def trained(self, save=0, stop=0, resume=None, source="", state=None, checkpoint=None, every=0, first=None, batch=4, averages=False, **settings):
        """A training. save: a checkpoint of the Trainer's every so many steps. stop: after this step. state: what it takes over. first: called with the
        run before the first step. averages: the script registers a moving average of the weights. Returns its steps, the weights after it, their
        average, the run and the Trainer."""
        import torch
        from transformers import Trainer, TrainerCallback, TrainingArguments

        from espalier.transformers import attach
        from layer_with_loss import LayerWithLoss

        steps = []

        class Looking(TrainerCallback):
            def on_train_begin(self, *_, **__):
                if first is not None:
                    first(run)

            def on_step_end(self, args, state, control, **_):
                steps.append(state.global_step)
                average.update_parameters(trainer.model)
                control.should_training_stop = control.should_training_stop or state.global_step == stop

        torch.manual_seed(1)
        x = torch.randn(16, 4)
        dataset = [{"x": one, "labels": one.sin().sum()} for one in x]
        run = joined(source, state, checkpoint, every, batch)
        settings = {"save_strategy": "steps" if save else "no", "save_steps": save or 500, **settings}
        trainer = Trainer(LayerWithLoss(), TrainingArguments(
            self.out, max_steps=STEPS, per_device_train_batch_size=4, learning_rate=0.05, use_cpu=True, report_to="none", disable_tqdm=True, **settings),
            train_dataset=dataset, eval_dataset=dataset)
        average = torch.optim.swa_utils.AveragedModel(trainer.model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        if averages:
            run.register(ema=average)
        attach(run, trainer)
        trainer.add_callback(Looking())
        with taking_over(state):
            trainer.train(resume_from_checkpoint=resume)
        return types.SimpleNamespace(steps=steps, weights=weights_of(trainer.model), average=weights_of(average.module), run=run, trainer=trainer)

    def its_own(self, step, **settings):
        """The Trainer's own checkpoint after that step."""
        self.trained(save=step, stop=step, **settings)
        return os.path.join(self.out, f"checkpoint-{step}")

    def state_after(self, step, **settings):
        """What the run's checkpoint holds after that step."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.state)
        self.trained(stop=step, checkpoint=self.state, every=100, **settings)
        return self.state

    def test_a_state_that_is_older_than_the_trainers_checkpoint_is_trained_on_to_the_last_step(self):
        whole = self.trained()
        self.assertEqual(whole.steps, list(range(1, STEPS + 1)))
        own = self.its_own(9)
        for done in (3, 6, 8):
            self.trained(stop=done, checkpoint=self.state, every=100)
            again = self.trained(resume=own, source="recovery", state=self.state)
            self.assertEqual(again.steps, list(range(done + 1, STEPS + 1)))
            self.assertEqual(again.weights, whole.weights)
            os.remove(self.state)

    def test_a_state_before_the_first_step_counts_where_the_trainer_has_read_a_checkpoint(self):
        whole, own = self.trained(), self.its_own(9)
        self.trained(stop=1, checkpoint=self.state, first=lambda run: run._training()._save(0))
        self.assertEqual(step_in(self.state), 0)
        again = self.trained(resume=own, source="recovery", state=self.state)
        self.assertEqual(again.steps, whole.steps)
        self.assertEqual(again.weights, whole.weights)

    def test_of_the_trainers_checkpoint_and_that_of_the_run_the_newer_one_counts(self):
        whole = self.trained()
        for own, done in ((9, 6), (6, 9), (6, 6)):
            folder = self.its_own(own)
            self.trained(stop=done, checkpoint=self.state, every=100)
            self.assertEqual(step_in(self.state), done)
            again = self.trained(resume=folder, checkpoint=self.state)
            self.assertEqual(again.steps, list(range(max(own, done) + 1, STEPS + 1)))
            self.assertEqual(again.weights, whole.weights)
            os.remove(self.state)

    def test_a_newer_checkpoint_of_the_trainers_does_not_count_where_it_lacks_what_the_script_registers(self):
        whole, own = self.trained(averages=True), self.its_own(9)
        self.state_after(6, averages=True)
        recovered = {"source": "recovery", "state": None}  # and no copy of the state is left
        for begins in ({}, recovered):
            again = self.trained(resume=own, checkpoint=self.state, averages=True, **begins)
            self.assertEqual(again.steps, list(range(7, STEPS + 1)))
            self.assertEqual((again.weights, again.average), (whole.weights, whole.average))

    def test_a_newer_checkpoint_of_the_trainers_does_not_count_where_it_has_no_optimizers_state(self):
        whole, own = self.trained(), self.its_own(9, save_only_model=True)
        self.assertEqual(self.trained(resume=own).steps, list(range(10, STEPS + 1)))  # there is nothing else
        again = self.trained(resume=own, checkpoint=self.state_after(6))
        self.assertEqual(again.steps, list(range(7, STEPS + 1)))
        self.assertEqual(again.weights, whole.weights)
        # The Trainer loads neither where one of the two is missing.
        own = self.its_own(9)
        os.remove(os.path.join(own, "scheduler.pt"))
        self.assertEqual(self.trained(resume=own, checkpoint=self.state).weights, whole.weights)

    def test_a_checkpoint_of_another_global_batch_is_refused_also_where_that_of_the_trainer_is_newer(self):
        own, older = self.its_own(9), self.state_after(6, batch=2)
        with self.assertRaisesRegex(RuntimeError, "is of a training with global_batch=2, and espalier.join\\(\\) was told 4"):
            self.trained(resume=own, checkpoint=older)

    def test_a_training_whose_steps_are_all_done_does_not_evaluate_and_save_once_more(self):
        each = {"save_strategy": "epoch", "eval_strategy": "epoch"}
        whole = self.trained(checkpoint=self.state, every=100, **each)
        last = os.path.join(self.out, f"checkpoint-{STEPS}")

        def written():
            return {one: os.stat(os.path.join(last, one)).st_mtime_ns for one in os.listdir(last)}

        before = written()
        for begins in ({"resume": last}, {"resume": True, "checkpoint": self.state}, {"source": "recovery", "state": self.state}):
            with self.assertNoLogs("transformers.trainer", "WARNING"):
                again = self.trained(**begins, **each)
            self.assertEqual((again.steps, again.weights, written()), ([], whole.weights, before))
            self.assertEqual([one for one in again.run._worker.control.told if one["type"] == "done"], [{"type": "done", "step": STEPS}])
            self.assertEqual(sum("eval_loss" in one for one in again.trainer.state.log_history), 3)

    def test_the_first_snapshot_after_a_checkpoint_holds_what_the_trainer_had(self):
        whole, snapshot = self.trained(logging_steps=2), os.path.join(self.out, "snapshot")
        self.trained(stop=5, checkpoint=self.state, every=100, logging_steps=2)
        os.makedirs(self.out, exist_ok=True)
        with keeping_the_first_snapshot(snapshot):
            self.trained(checkpoint=self.state, logging_steps=2)
        self.assertEqual(step_in(snapshot), 5)
        again = self.trained(source="recovery", state=snapshot, logging_steps=2)
        self.assertEqual(again.steps, list(range(6, STEPS + 1)))
        logged, before = ([(one["step"], one["loss"]) for one in run.trainer.state.log_history if "loss" in one] for run in (again, whole))
        self.assertEqual(logged, before)

    def weights_in(self, state):
        from espalier._memory import private_map
        from espalier._state import read
        with open(state, "rb") as file:
            return [one.tolist() for one in read(private_map(file.fileno()))[1]["model"].values()]

    def test_what_is_kept_at_the_end_are_the_weights_of_the_last_step_also_where_the_trainer_loads_the_best_ones(self):
        # The best ones are those of the first evaluation, whose loss is the largest.
        best = {"save": 4, "eval_strategy": "steps", "eval_steps": 4, "load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}
        whole, fourth, eighth = self.trained(), self.trained(stop=4).weights, self.trained(stop=8).weights
        early = self.trained(stop=8, checkpoint=self.state, every=100, **best)
        self.assertEqual(early.weights, fourth)
        self.assertEqual((step_in(self.state), self.weights_in(self.state)), (8, eighth))
        self.assertEqual(early.run._worker.control.kinds().count("done"), 1)
        again = self.trained(checkpoint=self.state, every=100, **best)
        self.assertEqual(again.steps, list(range(9, STEPS + 1)))
        self.assertEqual(again.weights, fourth)
        self.assertEqual((step_in(self.state), self.weights_in(self.state)), (STEPS, whole.weights))
        # A loss after the last step: the end is done once more.
        last = self.trained(source="recovery", state=self.state, **best)
        self.assertEqual((last.steps, last.weights), ([], fourth))

    def test_a_callback_that_loads_the_best_weights_in_the_midst_does_not_end_the_training(self):
        from transformers import Trainer

        def calling(run):
            trainer = run._objects["trainer"]._trainer
            trainer.callback_handler.callbacks[-1].on_log = lambda *_, **__: trainer._load_best_model()

        with unittest.mock.patch.object(Trainer, "_load_best_model", lambda trainer: None):
            made = self.trained(logging_steps=2, first=calling)
        self.assertEqual(made.steps, list(range(1, STEPS + 1)))
        self.assertEqual(made.weights, self.trained().weights)

    def left_half_written(self, step, state=None):
        """A checkpoint of the Trainer's whose writer was killed. state: what it has left of trainer_state.json."""
        folder = os.path.join(self.out, f"checkpoint-{step}")
        os.makedirs(folder)
        open(os.path.join(folder, "model.safetensors"), "wb").close()
        if state is not None:
            with open(os.path.join(folder, "trainer_state.json"), "w") as file:
                file.write(state)
        return folder

    def test_a_checkpoint_of_the_trainers_that_was_not_written_to_its_end_is_passed_over(self):
        whole = self.trained()
        self.its_own(6)
        first, second = self.left_half_written(9), self.left_half_written(10, '{"global_step": 1')
        for resume in (True, second, first):
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                again = self.trained(resume=resume)
            self.assertEqual(again.steps, list(range(7, STEPS + 1)))
            self.assertEqual(again.weights, whole.weights)
            self.assertIn(f"espalier: {first} is not whole", said.getvalue())
            self.assertEqual(f"espalier: {second} is not whole" in said.getvalue(), resume is not first)

    def test_where_no_checkpoint_of_the_trainers_is_whole_it_begins_at_the_first_step(self):
        half = self.left_half_written(9)
        for resume in (True, half):
            self.assertEqual(self.trained(resume=resume).steps, list(range(1, STEPS + 1)))

    def test_what_the_trainer_refuses_it_still_refuses(self):
        os.makedirs(self.out)
        with self.assertRaisesRegex(ValueError, "No valid checkpoint found"):
            self.trained(resume=True)
        # A folder that is not in output_dir was named by somebody: it is not for us to take the checkpoint before it.
        self.trained()
        self.its_own(6)
        elsewhere = self.left_half_written(9)
        self.out += "-other"
        os.makedirs(self.out)
        self.addCleanup(shutil.rmtree, self.out)
        with self.assertRaisesRegex(Exception, "trainer_state.json|model.safetensors|[Hh]eader"):
            self.trained(resume=elsewhere)

    @contextlib.contextmanager
    def of_an_older_version(self):
        """Trainers that have no _init_training_state(): they count the epochs that are done in their loop."""
        from transformers import Trainer

        real, count = Trainer._inner_training_loop, Trainer._init_training_state

        def loop(trainer, *given, **named):
            trainer._init_training_state = lambda *more: count(trainer, *more)
            try:
                return real(trainer, *given, **named)
            finally:
                del trainer._init_training_state

        with unittest.mock.patch.object(Trainer, "_inner_training_loop", loop):
            del Trainer._init_training_state
            try:
                yield
            finally:
                Trainer._init_training_state = count

    def test_a_trainer_of_an_older_version_which_counts_epochs_elsewhere_is_taken(self):
        whole = self.trained()
        with self.of_an_older_version():
            self.assertEqual(self.trained().weights, whole.weights)

    def test_an_older_version_does_not_go_on_in_an_epoch_before_that_of_its_own_checkpoint(self):
        from espalier import RunError
        older = self.state_after(2)
        own = self.its_own(6)
        with self.of_an_older_version(), self.assertRaisesRegex(RunError, "after step 2,.* own checkpoint of step 6,.* update transformers to 5.3"):
            self.trained(resume=own, source="recovery", state=older)
        with self.of_an_older_version():
            self.assertEqual(self.trained(resume=own, source="recovery", state=self.state_after(5)).steps, list(range(6, STEPS + 1)))


if __name__ == "__main__":
    unittest.main()
