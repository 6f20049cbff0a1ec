"""Unit tests of the Python package: samples that can only be read one after the other. Run by tests/torchrt/python.bats."""
import random
import unittest
from types import SimpleNamespace

from espalier import _slices


class Numbers:
    """An iterable of 10 samples, each with a number drawn at random. It counts what was read."""

    def __init__(self):
        self.reads, self.epochs = 0, []

    def set_epoch(self, epoch):
        self.epochs.append(epoch)

    def __iter__(self):
        for number in range(10):
            self.reads += 1
            yield number, random.random()


class Stateful(Numbers):
    """The same, with a place that can be kept."""

    def __init__(self):
        super().__init__()
        self.place = self.begin = 0

    def __iter__(self):
        begin, self.begin = self.begin, 0
        for number in range(begin, 10):
            self.reads += 1
            self.place = number + 1
            yield number, random.random()

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.begin = state["place"]


class Streams(unittest.TestCase):
    def stream(self, samples, batch=7):
        import espalier
        return espalier.Stream(SimpleNamespace(global_batch=batch), samples, collate=list)

    def slices(self, world, rank, steps, batch=7):
        return [_slices.slice_of(step, batch, _slices.even_shares(batch, world), rank) for step in steps]

    def test_each_sample_is_used_once_and_draws_the_same_on_any_number_of_processes(self):
        alone = [one for numbers in self.slices(1, 0, range(1, 5)) for one in self.stream_once(numbers, 1, 0)]
        self.assertEqual([number for number, _ in alone], [n % 10 for n in range(28)])
        self.assertEqual(len({drawn for _, drawn in alone}), 28)
        for world in (2, 3):
            streams = [self.stream(Numbers()) for _ in range(world)]
            made = []
            for step in range(1, 5):
                for rank, stream in enumerate(streams):
                    random.seed(rank)
                    for part in _slices.parts_of(self.slices(world, rank, [step])[0], 2):
                        made += stream.batch(part)
            self.assertEqual(made, alone)

    def stream_once(self, numbers, world, rank):
        """Of a fresh stream, which passes over what was before."""
        return self.stream(Numbers()).batch(numbers)

    def test_the_next_generation_goes_on_at_its_place_or_reads_again(self):
        for kind in (Numbers, Stateful):
            expected = [self.stream(kind()).batch(numbers) for numbers in self.slices(1, 0, range(1, 7))]
            old = [self.stream(kind()) for _ in range(2)]
            for rank, stream in enumerate(old):
                for numbers in self.slices(2, rank, range(1, 4)):
                    stream.batch(numbers)
            states = [stream.state_dict() for stream in old]
            self.assertEqual(states[0], states[1])
            new = [self.stream(kind()) for _ in range(3)]
            for rank, stream in enumerate(new):
                stream.load_state_dict(states[0])
                made = [stream.batch(numbers) for numbers in self.slices(3, rank, range(4, 7))]
                first = sum(_slices.even_shares(7, 3)[:rank])
                self.assertEqual(made, [one[first:first + len(part)] for one, part in zip(expected[3:], made)])
                self.assertEqual(stream._samples.reads, stream._read - (21 if kind is Stateful else 0))
            self.assertEqual(new[0]._samples.epochs[-1], 3)
            # The old ones train on where the new generation has failed.
            self.assertEqual([one for stream, numbers in zip(old, (range(21, 25), range(25, 28))) for one in stream.batch(numbers)], expected[3])

    def test_a_state_before_the_first_step_is_that_of_a_fresh_stream(self):
        stream = self.stream(Stateful())
        state = stream.state_dict()
        self.assertEqual(stream._samples.reads, 0)
        other = self.stream(Stateful())
        other.load_state_dict(state)
        self.assertEqual(other.batch(range(7)), stream.batch(range(7)))

    def test_bad_use_is_refused_in_words(self):
        stream = self.stream(Numbers())
        stream.batch(range(4))
        with self.assertRaisesRegex(ValueError, "samples 3 to 5 were asked for, and the stream is at 4"):
            stream.batch(range(3, 6))
        with self.assertRaisesRegex(ValueError, "samples 5 to 7 were asked for"):
            stream.batch([5, 7])
        with self.assertRaisesRegex(ValueError, "there are no samples"):
            self.stream([]).batch(range(1))
        with self.assertRaisesRegex(ValueError, "cannot be read a second time"):
            self.stream(iter([1, 2, 3])).batch(range(4))

    def test_a_loader_of_single_samples_with_worker_processes(self):
        import torch

        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(10))

        loader = torch.utils.data.DataLoader(Stream(), batch_size=None, num_workers=1)
        self.assertEqual([int(one) for one in self.stream(loader).batch(range(5, 13))], [5, 6, 7, 8, 9, 0, 1, 2])


if __name__ == "__main__":
    unittest.main()
