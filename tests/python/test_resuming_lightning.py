"""Unit tests of the Python package: Lightning goes on from a state and from checkpoints of its own, which are of other steps. Run by
tests/torchrt/python.bats."""
import importlib.util
import os
import socket
import tempfile
import types
import unittest
import unittest.mock

from resuming import STEPS, joined, keeping_the_first_snapshot, step_in, taking_over, weights_of


@unittest.skipUnless(importlib.util.find_spec("lightning"), "no lightning")
class Lightning(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name
        self.state = os.path.join(folder.name, "state")

    def trained(self, save=0, stop=0, resume=None, source="", state=None, checkpoint=None, every=0, first=None, last=None):
        """As HuggingFace.trained() in test_resuming_trainer.py. last: called with the model when the training has ended."""
        import lightning
        import torch
        from lightning.pytorch.callbacks import Callback, ModelCheckpoint

        from espalier.lightning import Elastic

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(4, 1)

            def training_step(self, batch, batch_idx):
                return (self.layer(batch[0]).squeeze(1) - batch[0].sin().sum(1)).square().mean()

            def configure_optimizers(self):
                optimizer = torch.optim.AdamW(self.parameters(), lr=0.05)
                return {"optimizer": optimizer, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.LinearLR(optimizer, 0.1), "interval": "step"}}

        steps = []

        class Looking(Callback):
            def on_train_start(self, trainer, module):
                if first is not None:
                    first(run)

            def on_train_end(self, trainer, module):
                if last is not None:
                    last(module)

            def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
                steps.append(trainer.global_step)
                trainer.should_stop = trainer.should_stop or trainer.global_step == stop

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1]), "GLOO_SOCKET_IFNAME": "lo"}
        torch.manual_seed(1)
        dataset = torch.utils.data.TensorDataset(torch.randn(16, 4))
        run, model = joined(source, state, checkpoint, every), Model()
        callbacks = [Looking()]
        if save:
            callbacks.append(ModelCheckpoint(self.out, every_n_train_steps=save, save_top_k=-1, filename="{step}", auto_insert_metric_name=False))
        try:
            with taking_over(state), unittest.mock.patch.dict(os.environ, place):
                lightning.Trainer(accelerator="cpu", strategy=Elastic(run), max_steps=STEPS, callbacks=callbacks, default_root_dir=self.out, logger=False,
                                  enable_checkpointing=bool(save), enable_progress_bar=False, enable_model_summary=False).fit(
                                      model, torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True), ckpt_path=resume)
        finally:
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()
        return types.SimpleNamespace(steps=steps, weights=weights_of(model), run=run)

    def test_a_training_whose_steps_are_all_done_is_ended_once_more(self):
        self.trained(checkpoint=self.state, every=100)
        other = self.state + "-other"
        again = self.trained(source="recovery", state=self.state, checkpoint=other, every=100)
        self.assertEqual((again.steps, step_in(other)), ([], STEPS))
        self.assertEqual(again.run._worker.control.kinds().count("done"), 1)

    def test_what_is_kept_at_the_end_are_the_weights_of_the_last_step_also_where_a_callback_puts_others_into_the_model(self):
        import torch

        def zero(module):
            with torch.no_grad():
                module.layer.weight.zero_()

        whole = self.trained()
        self.trained(stop=8, checkpoint=self.state, every=100, last=zero)
        again = self.trained(checkpoint=self.state, every=100)
        self.assertEqual(again.steps, list(range(9, STEPS + 1)))
        self.assertEqual(again.weights, whole.weights)

    def its_own(self, step):
        self.trained(save=step, stop=step)
        return os.path.join(self.out, f"{step}.ckpt")

    def test_a_state_that_is_older_than_lightnings_checkpoint_is_trained_on_to_the_last_step(self):
        whole, own = self.trained(), self.its_own(9)
        self.assertEqual(whole.steps, list(range(1, STEPS + 1)))
        for done in (0, 3, 8):
            self.trained(stop=done or 1, checkpoint=self.state, every=0 if done == 0 else 100, first=None if done else lambda run: run._training()._save(0))
            self.assertEqual(step_in(self.state), done)
            again = self.trained(resume=own, source="recovery", state=self.state)
            self.assertEqual(again.steps, list(range(done + 1, STEPS + 1)))
            self.assertEqual(again.weights, whole.weights)
            os.remove(self.state)

    def test_the_first_snapshot_after_a_checkpoint_holds_what_lightning_had(self):
        whole, snapshot = self.trained(), os.path.join(self.out, "snapshot")
        self.trained(stop=3, checkpoint=self.state, every=100)
        with keeping_the_first_snapshot(snapshot):
            self.trained(checkpoint=self.state)
        self.assertEqual(step_in(snapshot), 3)
        again = self.trained(source="recovery", state=snapshot)  # its schedule is in the midst of what LinearLR warms up
        self.assertEqual(again.steps, list(range(4, STEPS + 1)))
        self.assertEqual(again.weights, whole.weights)

    def test_of_lightnings_checkpoint_and_that_of_the_run_the_newer_one_counts(self):
        whole = self.trained()
        for own, done in ((9, 6), (6, 9), (6, 6)):
            path = self.its_own(own)
            self.trained(stop=done, checkpoint=self.state, every=100)
            self.assertEqual(step_in(self.state), done)
            again = self.trained(resume=path, checkpoint=self.state)
            self.assertEqual(again.steps, list(range(max(own, done) + 1, STEPS + 1)))
            self.assertEqual(again.weights, whole.weights)
            os.remove(self.state)


if __name__ == "__main__":
    unittest.main()
