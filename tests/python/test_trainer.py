"""Unit tests of the Python package: what espalier.transformers.attach() refuses of a Trainer. Run by tests/torchrt/python.bats."""
import contextlib
import types
import unittest
import unittest.mock

import espalier
from espalier import transformers as ours


class Counts(ours.Trainer):
    """A subclass with a loss of its own, without what a Trainer's __init__() needs."""

    def __init__(self, scaled=None, accepts=True, function=None):
        self.args = types.SimpleNamespace(max_steps=10, auto_find_batch_size=False, n_gpu=1, world_size=1, dataloader_num_workers=0)
        self.is_deepspeed_enabled = self.is_fsdp_enabled = False
        self.train_dataset = list(range(10))
        self.model_accepts_loss_kwargs, self.compute_loss_func = accepts, function
        if scaled is not None:
            self.loss_is_scaled_for_ga = scaled

    def compute_loss(self, *_, **__):
        raise NotImplementedError


@contextlib.contextmanager
def older():
    """transformers of a version before 5.19."""
    known = ours.Trainer.loss_is_scaled_for_ga
    del ours.Trainer.loss_is_scaled_for_ga
    try:
        with unittest.mock.patch.object(ours.transformers, "__version__", "5.18.1"):
            yield
    finally:
        ours.Trainer.loss_is_scaled_for_ga = known


class Attached(unittest.TestCase):
    def refusal(self, trainer):
        """What attach() says; "": it takes the trainer."""
        run = types.SimpleNamespace(total_steps=10, world=1)
        with unittest.mock.patch.object(ours, "ElasticCallback"):
            trainer.callback_handler = types.SimpleNamespace(callbacks=[])
            try:
                ours.attach(run, trainer)
            except espalier.RunError as error:
                return str(error)
        return ""

    def test_a_loss_of_its_own_must_say_which_kind_it_is(self):
        self.assertIn("say which, by the Trainer's attribute loss_is_scaled_for_ga", self.refusal(Counts()))
        for scaled in (False, True):
            for accepts in (False, True):
                self.assertEqual(self.refusal(Counts(scaled, accepts)), "")
        self.assertEqual(self.refusal(Counts(None, accepts=False)), "")

    def test_what_this_version_of_the_trainer_does_not_look_at_is_refused_where_it_takes_the_loss_for_the_other_kind(self):
        with older():
            said = self.refusal(Counts(False))
            self.assertIn("Counts.loss_is_scaled_for_ga=False, which the Trainer of transformers 5.18.1 does not look at", said)
            self.assertIn("install transformers 5.19 or later", said)
            self.assertIn("does not look at", self.refusal(Counts(False, accepts=False, function=print)))
            self.assertIn("loss_is_scaled_for_ga=True, which", self.refusal(Counts(True, accepts=False)))
            for scaled, accepts in ((True, True), (False, False), (None, False)):  # as this version takes it anyway
                self.assertEqual(self.refusal(Counts(scaled, accepts)), "")


if __name__ == "__main__":
    unittest.main()
