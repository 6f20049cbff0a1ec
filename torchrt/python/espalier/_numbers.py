"""A few numbers that are summed over all processes."""
from __future__ import annotations

import array

import torch


class SharedNumbers:
    """The same memory as numbers of Python and as a tensor: to read or write one element of a tensor takes a microsecond."""

    def __init__(self, count: int) -> None:
        self.values = array.array("d", bytes(8 * count))
        self.tensor = torch.frombuffer(self.values, dtype=torch.float64)
