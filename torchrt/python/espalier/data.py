"""Samples by their global number, so that each is used once an epoch whatever the number of processes was meanwhile."""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

import torch

from ._slices import parts_of


class Order:
    """An order of `length` elements that depends on the seed and the epoch alone. Sample number n is element n % length of
    epoch n // length."""

    def __init__(self, length: int, shuffle: bool, seed: int) -> None:
        if length < 1:
            raise ValueError("espalier: the dataset is empty")
        self.length, self.shuffle, self.seed = length, shuffle, seed
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def index(self, number: int) -> int:
        """The dataset's index of a global sample number."""
        epoch, at = divmod(number, self.length)
        if not self.shuffle:
            return at
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed((self.seed << 20) ^ epoch)
            self._epoch, self._order = epoch, torch.randperm(self.length, generator=generator)
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


class Data(Order):
    """A dataset with len() and [], in an order that depends on the seed and the epoch alone. It has no position: the step
    says which samples come."""

    def __init__(self, dataset: Any, *, shuffle: bool = True, seed: int = 0,
                 collate: Optional[Callable[[List[Any]], Any]] = None) -> None:
        super().__init__(len(dataset), shuffle, seed)
        self._dataset = dataset
        self._collate = collate or torch.utils.data.default_collate

    def batch(self, numbers: Iterable[int]) -> Any:
        return self._collate([self._dataset[index] for index in self.indices(numbers)])


class Batches(Order):
    """The batch_sampler of a DataLoader that this process reads: one batch a step, the indices of the samples of its slice.
    Begins after the steps that are done, so ask for an iterator after the run has started (run.batches() does). most: where a
    slice is larger, it comes in several batches of at most so many samples, as run.parts() divides it. pass_steps: an
    iterator ends after a step whose number is a multiple of it."""

    def __init__(self, run: Any, dataset: Any, *, shuffle: bool = True, seed: int = 0, most: int = 0, pass_steps: int = 0) -> None:
        super().__init__(len(dataset), shuffle, seed)
        self._run, self._most, self._pass = run, most, pass_steps

    def parts(self, step: int) -> List[range]:
        samples = self._run.slice(step)
        return parts_of(samples, self._most or len(samples))

    def __iter__(self) -> Iterator[List[int]]:
        step = self._run.done
        while step < self._run.total_steps:
            step += 1
            for part in self.parts(step):
                yield self.indices(part)
            if self._pass and step % self._pass == 0:
                return

    def __len__(self) -> int:
        return (self._pass or self._run.total_steps) * len(self.parts(1))
