"""Unit tests of the Python package: the order of the samples, and what a dataset draws at random. Run by
tests/torchrt/python.bats."""
import importlib.util
import tempfile
import unittest
import unittest.mock


class Order(unittest.TestCase):
    def test_data_uses_each_sample_once_an_epoch_in_an_order_of_its_own(self):
        import espalier
        data = espalier.Data(list(range(10)), seed=3)
        first, second = [data.index(n) for n in range(10)], [data.index(n) for n in range(10, 20)]
        self.assertEqual((sorted(first), sorted(second)), (list(range(10)), list(range(10))))
        self.assertNotEqual(first, second)
        self.assertEqual([data.index(n) for n in (3, 13, 3)], [first[3], second[3], first[3]])
        with self.assertRaisesRegex(ValueError, "another one than before"):
            data.load_state_dict({"length": 11, "shuffle": True, "seed": 3})

    def test_neighbours_are_looked_up_at_once_also_across_epochs(self):
        import espalier
        for shuffle in (True, False):
            data = espalier.Data(list(range(10)), seed=3, shuffle=shuffle)
            for numbers in (range(0), range(3, 7), range(8, 12), range(10, 20), range(5, 41), range(2, 30, 3), [29, 2, 15]):
                self.assertEqual(data.indices(numbers), [data.index(number) for number in numbers])

    def test_a_loader_of_several_batches_a_step_is_refused_where_each_would_count_as_one(self):
        import espalier
        import torch
        run = espalier.join(global_batch=12, steps=2)
        dataset = torch.utils.data.TensorDataset(torch.arange(24))
        loader = lambda **more: torch.utils.data.DataLoader(dataset, batch_sampler=espalier.Batches(run, dataset, **more))
        with self.assertRaisesRegex(espalier.RunError, r"espalier.Batches\(most=8\) may give several batches a step"):
            run.batches(loader(most=8))
        model = torch.nn.Linear(3, 1)
        run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        self.assertEqual([len(batch[0]) for _, batch in run.batches(loader(most=12))], [12, 12])

    def test_a_loader_whose_samples_are_not_those_of_the_steps_is_refused_in_words(self):
        import espalier
        import torch
        run = espalier.join(global_batch=12, steps=2)
        dataset = torch.utils.data.TensorDataset(torch.arange(24))
        batches, loader = espalier.Batches(run, dataset), torch.utils.data.DataLoader
        wrapped = unittest.mock.Mock(spec=["batch_sampler"], batch_sampler=unittest.mock.Mock(spec=["batch_sampler"], batch_sampler=batches))
        for given, sampler in ((loader(dataset, batch_size=12, shuffle=True), "BatchSampler"), (loader(dataset, batch_size=12), "BatchSampler"), (wrapped, "Mock"),
                               (loader(dataset, batch_size=None), "SequentialSampler")):
            with self.assertRaisesRegex(espalier.RunError, f"batch_sampler is a {sampler}, .*batch_sampler=espalier.Batches"):
                run.batches(given)
        with self.assertRaisesRegex(espalier.RunError, "in_order=False gives a step the batch of another one"):
            run.batches(loader(dataset, batch_sampler=batches, num_workers=2, in_order=False))
        # The dataset takes the indices of a batch at once; and what is no DataLoader may give what it likes.
        for given in (loader(dataset, sampler=batches, batch_size=None), [1, 2], "ab"):
            run.batches(given)

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "no accelerate")
    def test_a_loader_that_accelerate_has_prepared_is_refused_also_on_one_process(self):
        import espalier
        import torch
        from accelerate import Accelerator
        from accelerate.data_loader import BatchSamplerShard, DataLoaderShard
        run = espalier.join(global_batch=12, steps=2)
        dataset = torch.utils.data.TensorDataset(torch.arange(24))
        loader = torch.utils.data.DataLoader(dataset, batch_sampler=espalier.Batches(run, dataset))
        alone = Accelerator(cpu=True).prepare(loader)
        # As on two processes.
        shard = DataLoaderShard(dataset, batch_sampler=BatchSamplerShard(loader.batch_sampler, num_processes=2, process_index=1))
        for given in (alone, shard):
            with self.assertRaisesRegex(espalier.RunError, "Accelerate has prepared this loader.*do not prepare it"):
                run.batches(given)


class Augmented(unittest.TestCase):
    """What a dataset draws at random follows from the sample's number, whatever the number of processes."""

    @classmethod
    def setUpClass(cls):
        import random
        import numpy
        import torch

        class Noise(torch.utils.data.Dataset):
            def __len__(self):
                return 12

            def __getitem__(self, index):
                return torch.tensor([index, torch.rand(()).item(), random.random(), numpy.random.rand(), torch.rand(()).item()])

        cls.torch, cls.noise = torch, Noise()
        cls.generators = staticmethod(lambda: (torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist()))
        cls.draw = staticmethod(lambda: (torch.rand(7), random.random(), numpy.random.rand()))

    def samples(self, world, steps, read):
        """Of a global batch of 9: rows by the order of the samples. `read` is given the rank and its slices."""
        from espalier import _slices
        shares, rows = _slices.even_shares(9, world), {}
        for rank in range(world):
            slices = [_slices.slice_of(step, 9, shares, rank) for step in range(1, steps + 1)]
            for numbers, batch in zip(slices, read(rank, slices)):
                rows.update(zip(numbers, batch))
        return self.torch.stack([rows[number] for number in range(9 * steps)])

    def test_data_draws_the_same_on_one_two_and_three_processes_and_other_numbers_in_each_epoch(self):
        import espalier

        def read(rank, slices):
            data = espalier.Data(self.noise, seed=5)
            for _ in range(rank):
                self.draw()  # processes are not in the same state
            return [data.batch(numbers) for numbers in slices]

        alone = self.samples(1, 4, read)
        for world in (2, 3):
            self.assertTrue(self.torch.equal(alone, self.samples(world, 4, read)))
        self.assertEqual(len(set(alone[:, 1:].flatten().tolist())), 36 * 4)
        self.assertFalse(self.torch.equal(alone[:12].sort(0)[0][:, 1], alone[12:24].sort(0)[0][:, 1]))

    def test_a_data_loader_draws_the_same_too_also_in_worker_processes(self):
        import espalier

        def read(workers):
            def batches(rank, slices):
                dataset = espalier.Seeded(self.noise, seed=5)
                run = unittest.mock.Mock(done=0, total_steps=len(slices), slice=lambda step: slices[step - 1])
                loader = self.torch.utils.data.DataLoader(dataset, batch_sampler=espalier.Batches(run, dataset, seed=5), num_workers=workers)
                return list(loader)
            return batches

        alone = self.samples(1, 3, lambda rank, slices: [espalier.Data(self.noise, seed=5).batch(one) for one in slices])
        for world, workers in ((1, 0), (3, 0), (2, 2)):
            self.assertTrue(self.torch.equal(alone, self.samples(world, 3, read(workers))))

    def test_the_scripts_own_random_numbers_are_not_changed_also_where_the_dataset_fails(self):
        import espalier

        class Broken:
            def __len__(self):
                return 3

            def __getitem__(self, index):
                raise KeyError(index)

        self.draw()
        before = self.generators()
        espalier.Data(self.noise).batch(range(5))
        espalier.Data(espalier.Seeded(self.noise)).batch([7, 3])
        with self.assertRaises(KeyError):
            espalier.Data(Broken()).batch(range(2))
        self.assertEqual(self.generators(), before)

    def test_an_index_without_a_number_is_refused_in_words(self):
        import espalier
        with self.assertRaisesRegex(ValueError, "give the same object to espalier.Batches"):
            espalier.Seeded(self.noise)[3]


@unittest.skipUnless(importlib.util.find_spec("accelerate"), "no accelerate")
class TrainersLoader(unittest.TestCase):
    def attached(self, folder, **settings):
        import espalier
        import torch
        from transformers import Trainer, TrainingArguments

        from espalier.transformers import attach

        class Noise(torch.utils.data.Dataset):
            def __len__(self):
                return 12

            def __getitem__(self, index):
                return {"x": torch.rand(4), "labels": torch.tensor(1.0)}

        class Model(torch.nn.Linear):
            def forward(self, x, labels):
                return {"loss": (super().forward(x).squeeze(1) - labels).square().mean()}

        run = espalier.join(global_batch=4, steps=4)
        # A Subset reads whole batches.
        trainer = Trainer(Model(4, 1), TrainingArguments(folder, max_steps=4, per_device_train_batch_size=4, use_cpu=True, report_to="none", **settings),
                          train_dataset=torch.utils.data.Subset(Noise(), range(12)))
        attach(run, trainer)
        return run, trainer

    def test_it_has_what_the_trainers_own_has(self):
        with tempfile.TemporaryDirectory() as folder:
            _, trainer = self.attached(folder, dataloader_num_workers=2, dataloader_prefetch_factor=3, dataloader_persistent_workers=True,
                                       dataloader_multiprocessing_context="forkserver", dataloader_pin_memory=False)
            made = trainer.get_train_dataloader()
            self.assertEqual((made.num_workers, made.prefetch_factor, made.persistent_workers, made.pin_memory), (2, 3, True, False))
            self.assertEqual(made.multiprocessing_context.get_start_method(), "forkserver")
            self.assertIsNotNone(made.worker_init_fn)
            self.assertIsNone(self.attached(folder, dataloader_num_workers=0)[1].get_train_dataloader().worker_init_fn)

    def test_batches_in_another_order_are_refused_in_words(self):
        from espalier import RunError
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(RunError, "dataloader_in_order=False, which gives a step the batch of another one"):
                self.attached(folder, dataloader_num_workers=2, dataloader_in_order=False)
            self.attached(folder, dataloader_num_workers=1, dataloader_in_order=False)

    def test_each_rank_and_generation_draws_other_augmentations(self):
        import torch
        with tempfile.TemporaryDirectory() as folder:
            run, trainer = self.attached(folder, dataloader_num_workers=2)
            drawn = []
            for run.rank, run.generation in ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (0, 2), (0, 0)):
                torch.manual_seed(5)  # as scripts seed all processes alike
                drawn.append(torch.cat([batch["x"].flatten() for batch in trainer.get_train_dataloader()]).tolist())
            self.assertEqual(drawn[0], drawn[-1])
            self.assertEqual(len({one for numbers in drawn for one in numbers}), 6 * 48)


if __name__ == "__main__":
    unittest.main()
