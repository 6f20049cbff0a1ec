"""Samples that can only be read one after the other, so that each is used once whatever the number of processes was meanwhile."""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

import torch

from ._random import by_sample

_AT_ONCE = 1024  # samples that are passed over are in memory meanwhile


class Stream:
    """An IterableDataset, a loader of single samples, or another iterable that gives the same samples in the same order in each
    process. Sample number n is the n-th that it gives, counted over its epochs: when it ends it is read again, after
    set_epoch(epoch) where it has that.

    Each process reads the whole stream and passes over the samples of others, so reading must be cheap beside the step. Register the
    stream: where `samples` has state_dict() and load_state_dict(), the next generation goes on at its place; else it reads again all
    that was read. Samples are asked for in their order, one step after the other."""

    def __init__(self, run: Any, samples: Any, *, seed: int = 0, collate: Optional[Callable[[List[Any]], Any]] = None) -> None:
        self._run, self._samples, self._seed = run, samples, seed
        self._collate = collate or torch.utils.data.default_collate
        self._iterator: Optional[Iterator[Any]] = None
        self._read, self._epoch = 0, 0  # samples and whole epochs that are behind
        self._wanted = 0  # samples that are behind the training; more than _read where they must be read again

    def batch(self, numbers: Iterable[int]) -> Any:
        """Of a slice, or of a part of one."""
        wanted = list(numbers)
        if wanted != list(range(wanted[0], wanted[0] + len(wanted))) or wanted[0] < self._wanted:
            raise ValueError(f"espalier.Stream: the samples {wanted[0]} to {wanted[-1]} were asked for, and the stream is at {self._wanted}; ask for "
                             "the samples of one step after the other, and for none before its step")
        self._pass_to(wanted[0])
        return self._collate(self._read_to(wanted[-1] + 1))

    def _pass_to(self, number: int) -> None:
        while self._read < number:
            self._read_to(min(number, self._read + _AT_ONCE))
        self._wanted = self._read

    def _read_to(self, end: int) -> List[Any]:
        """What is drawn at random meanwhile follows from the sample's number, as the state of the generators must not depend on the
        process."""
        made = by_sample(self._seed, [(number, None) for number in range(self._read, end)], self._take)
        self._wanted = max(self._wanted, self._read)
        return made

    def _take(self, _: Any) -> Any:
        begun = self._iterator is not None
        for _again in range(2):
            if self._iterator is None:
                self._iterator = self._opened()
            for sample in self._iterator:
                self._read += 1
                return sample
            self._iterator = None
            self._epoch += 1
        raise ValueError("espalier.Stream: the samples cannot be read a second time" if begun else "espalier.Stream: there are no samples")

    def _opened(self) -> Iterator[Any]:
        if self._epoch and hasattr(self._samples, "set_epoch"):
            self._samples.set_epoch(self._epoch)
        return iter(self._samples)

    def state_dict(self) -> Dict[str, Any]:
        # After a step all processes are at its end, whichever its last sample here.
        batch = self._run.global_batch
        end = -(-self._wanted // batch) * batch
        keeps = hasattr(self._samples, "state_dict") and hasattr(self._samples, "load_state_dict")
        if not keeps or end == 0:
            return {"read": end, "epoch": 0, "state": None}
        self._pass_to(end)
        return {"read": end, "epoch": self._epoch, "state": self._samples.state_dict()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._iterator, self._wanted = None, state["read"]
        if state["state"] is None:
            self._read, self._epoch = 0, 0
            return
        self._read, self._epoch = state["read"], state["epoch"]
        if self._epoch and hasattr(self._samples, "set_epoch"):
            self._samples.set_epoch(self._epoch)
        self._samples.load_state_dict(state["state"])
        self._iterator = iter(self._samples)
