"""Samples by their global number, so that each is used once an epoch whatever the number of processes was meanwhile."""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

import torch

from ._random import by_sample
from ._slices import parts_of


class Order:
    """An order of `length` elements that depends on the seed and the epoch alone. Sample number n is element n % length of
    epoch n // length."""

    def __init__(self, length: int, shuffle: bool, seed: int) -> None:
        if length < 1:
            raise ValueError("espalier: the dataset is empty")
        self.length, self.shuffle, self.seed = length, shuffle, seed
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64, device="cpu")

    def index(self, number: int) -> int:
        """The dataset's index of a global sample number."""
        epoch, at = divmod(number, self.length)
        if not self.shuffle:
            return at
        if epoch != self._epoch:
            generator = torch.Generator("cpu").manual_seed((self.seed << 20) ^ epoch)
            self._epoch, self._order = epoch, torch.randperm(self.length, generator=generator, device="cpu")
        return int(self._order[at])

    def indices(self, numbers: Iterable[int]) -> List[int]:
        """The dataset's indices of several samples. Neighbours are looked up at once: element by element a tensor is slow."""
        if not isinstance(numbers, range) or numbers.step != 1 or not numbers:
            return [self.index(number) for number in numbers]
        found: List[int] = []
        number = numbers.start
        while number < numbers.stop:
            end = min(numbers.stop, number + self.length - number % self.length)  # an epoch ends there
            first = self.index(number)
            at = number % self.length
            found += self._order[at:at + end - number].tolist() if self.shuffle else range(first, first + end - number)
            number = end
        return found

    def state_dict(self) -> Dict[str, Any]:
        return {"length": self.length, "shuffle": self.shuffle, "seed": self.seed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if state != self.state_dict():
            raise ValueError(f"the data is another one than before: {self.state_dict()}, not {state}")


def draws_nothing(dataset: Any) -> bool:
    """Whether it is known to read elements and no more. To seed takes longer than that."""
    return type(dataset) in (torch.utils.data.TensorDataset, torch.Tensor, list, tuple, range)


class _Index(int):
    """Of a dataset, with the number of the sample that is wanted."""

    number: int


class Seeded(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """A dataset whose random numbers follow from the seed and the sample's global number alone, whoever reads it: for a DataLoader
    with Batches. Give both of them this one.

    It is read element by element: where `dataset` reads several at once (__getitems__), that is not used."""

    def __init__(self, dataset: Any, *, seed: int = 0) -> None:
        self.dataset, self.seed = dataset, seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        if not isinstance(index, _Index):
            raise ValueError("espalier.Seeded: the sample's number is not known; give the same object to espalier.Batches(run, dataset) and to "
                             "DataLoader(dataset, batch_sampler=...)")
        return by_sample(self.seed, [(index.number, int(index))], self.dataset.__getitem__)[0]


class Data(Order):
    """A dataset with len() and [], in an order that depends on the seed and the epoch alone. It has no position: the step
    says which samples come. What the dataset draws at random on the CPU, by torch, `random` or numpy, follows from the seed and the
    sample's number, and changes nothing that the script draws."""

    def __init__(self, dataset: Any, *, shuffle: bool = True, seed: int = 0,
                 collate: Optional[Callable[[List[Any]], Any]] = None) -> None:
        super().__init__(len(dataset), shuffle, seed)
        self._dataset = dataset.dataset if isinstance(dataset, Seeded) else dataset
        self._collate = collate or torch.utils.data.default_collate

    def batch(self, numbers: Iterable[int]) -> Any:
        numbers = numbers if isinstance(numbers, range) else list(numbers)
        indices = self.indices(numbers)
        if draws_nothing(self._dataset):
            return self._collate([self._dataset[index] for index in indices])
        return self._collate(by_sample(self.seed, zip(numbers, indices), self._dataset.__getitem__))


class Batches(Order):
    """The batch_sampler of a DataLoader that this process reads: one batch a step, the indices of the samples of its slice.
    Begins after the steps that are done, so ask for an iterator after the run has started (run.batches() does). most: where a
    slice is larger, it comes in several batches of at most so many samples, as run.parts() divides it; a loop of one's own takes them, and
    run.batches() refuses them. pass_steps: an
    iterator ends after a step whose number is a multiple of it. A dataset that draws at random is given as Seeded(dataset)."""

    def __init__(self, run: Any, dataset: Any, *, shuffle: bool = True, seed: int = 0, most: int = 0, pass_steps: int = 0) -> None:
        super().__init__(len(dataset), shuffle, seed)
        self._run, self.most, self._pass = run, most, pass_steps
        self._numbered = isinstance(dataset, Seeded)

    def parts(self, step: int) -> List[range]:
        samples = self._run.slice(step)
        return parts_of(samples, self.most or len(samples), self._run.shares if self.most else ())

    def _of(self, part: range) -> List[int]:
        indices = self.indices(part)
        if not self._numbered:
            return indices
        numbered: List[int] = []
        for number, index in zip(part, indices):
            one = _Index(index)
            one.number = number
            numbered.append(one)
        return numbered

    def __iter__(self) -> Iterator[List[int]]:
        step = self._run.done
        while step < self._run.total_steps:
            step += 1
            for part in self.parts(step):
                yield self._of(part)
            if self._pass and step % self._pass == 0:
                return

    def __len__(self) -> int:
        return (self._pass or self._run.total_steps) * len(self.parts(1))
