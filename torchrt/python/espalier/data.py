"""Samples by their global number, so that each is used once an epoch whatever the number of processes was meanwhile."""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional

import torch


class Data:
    """A dataset with len() and [], in an order that depends on the seed and the epoch alone. Sample number n is element
    n % len of epoch n // len. It has no position: the step says which samples come."""

    def __init__(self, dataset: Any, *, shuffle: bool = True, seed: int = 0,
                 collate: Optional[Callable[[List[Any]], Any]] = None) -> None:
        if len(dataset) < 1:
            raise ValueError("espalier.Data: the dataset is empty")
        self._dataset, self._shuffle, self._seed = dataset, shuffle, seed
        self._collate = collate or torch.utils.data.default_collate
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def index(self, number: int) -> int:
        """The dataset's index of a global sample number."""
        epoch, at = divmod(number, len(self._dataset))
        if not self._shuffle:
            return at
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed((self._seed << 20) ^ epoch)
            self._epoch, self._order = epoch, torch.randperm(len(self._dataset), generator=generator)
        return int(self._order[at])

    def batch(self, numbers: Iterable[int]) -> Any:
        return self._collate([self._dataset[self.index(number)] for number in numbers])

    def state_dict(self) -> Dict[str, Any]:
        return {"length": len(self._dataset), "shuffle": self._shuffle, "seed": self._seed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if state != self.state_dict():
            raise ValueError(f"the data is another one than before: {self.state_dict()}, not {state}")
