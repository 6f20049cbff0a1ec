"""Layouts of a replica: how its processes are divided among pipeline, tensor and other parallelism. Imports no torch."""
from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Dict, Iterator, List, Sequence, Tuple

_MOST_PROCESSES = 1024  # of a replica
_MOST_LAYOUTS = 16
_MOST_DIMENSIONS = 6
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,15}\Z")
_ALWAYS = ("tp", "pp")  # a plan has them whatever the layouts name


class Plan(Mapping):  # type: ignore[type-arg]
    """The degrees of a generation: dp is the number of replicas, the others divide the processes of each. As attributes (run.plan.tp)
    or by name (run.plan["tp"]). 1 where this generation's layout does not name a dimension that another layout names; tp and pp are
    always there. Does not change."""

    def __init__(self, dp: int, degrees: "Dict[str, int]", others: Sequence[str] = ()) -> None:
        """others: dimensions that only other layouts name."""
        made = {"dp": dp, **degrees}
        for name in (*others, *_ALWAYS):
            made.setdefault(name, 1)
        # The mesh has what some layout names: a script asks for the same dimensions in each of its layouts.
        object.__setattr__(self, "_degrees", made)
        object.__setattr__(self, "_dimensions", ("dp", *degrees, *(name for name in others if name not in degrees)))

    def __getitem__(self, name: str) -> int:
        return int(self._degrees[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._degrees)

    def __len__(self) -> int:
        return len(self._degrees)

    def __getattr__(self, name: str) -> int:
        degrees = self.__dict__.get("_degrees", {})
        if name not in degrees:
            raise AttributeError(f"run.plan has no dimension {name}: its layouts name {sorted(degrees)}")
        return int(degrees[name])

    def __setattr__(self, name: str, value: Any = None) -> None:
        raise AttributeError("run.plan cannot be changed: the launcher decides it")

    __delattr__ = __setattr__

    @property
    def unit(self) -> int:
        """Processes of a replica."""
        return math.prod(self._degrees.values()) // self.dp

    @property
    def world(self) -> int:
        """Processes of the generation."""
        return math.prod(self._degrees.values())

    def __repr__(self) -> str:
        return " x ".join(f"{name} {self._degrees[name]}" for name in self._dimensions)

    def mesh(self, device_type: str) -> Any:
        """torch's DeviceMesh of all processes: dp outermost, then the dimensions as the layout names them, then those that only
        other layouts name (of size 1). Every process calls it, after torch.distributed.init_process_group()."""
        from torch.distributed.device_mesh import init_device_mesh

        return init_device_mesh(device_type, tuple(self._degrees[name] for name in self._dimensions), mesh_dim_names=self._dimensions)


_TAKEN = {"dp", *(name for name in dir(Plan) if not name.startswith("_"))}


class Layouts:
    """What a script says of its replicas: the layouts in the order of preference."""

    def __init__(self, layouts: Any) -> None:
        """Raises ValueError, in words."""
        if not isinstance(layouts, (list, tuple)) or not 1 <= len(layouts) <= _MOST_LAYOUTS:
            raise ValueError(f'must be "data" or a list of 1 to {_MOST_LAYOUTS} layouts of a replica, such as [{{"tp": 2}}, {{"tp": 2, "pp": 2}}]')
        by_unit: Dict[int, Dict[str, int]] = {}
        self._names: List[str] = []
        for layout in layouts:
            self._check(layout)
            unit = math.prod(layout.values())
            if unit > _MOST_PROCESSES:
                raise ValueError(f"the layout {layout} has {unit} processes; a replica has at most {_MOST_PROCESSES}")
            if unit in by_unit:
                raise ValueError(f"the layouts {by_unit[unit]} and {dict(layout)} both have {unit} processes: Espalier chooses a number of "
                                 "GPUs, and could not tell them apart; keep one of them")
            by_unit[unit] = dict(layout)
            self._names += [name for name in layout if name not in self._names]
        self._by_unit = by_unit
        self.units: Tuple[int, ...] = tuple(by_unit)  # the first is preferred

    @staticmethod
    def _check(layout: Any) -> None:
        if not isinstance(layout, dict) or not 1 <= len(layout) <= _MOST_DIMENSIONS:
            raise ValueError(f"the layout {layout!r} must name 1 to {_MOST_DIMENSIONS} dimensions and their degrees, such as {{\"tp\": 2}}")
        for name, degree in layout.items():
            if not isinstance(name, str) or not _NAME.match(name):
                raise ValueError(f"the dimension {name!r} of the layout {layout} must be a word of at most 16 letters, digits and _")
            if name in _TAKEN:
                why = "is the number of replicas, which Espalier decides" if name == "dp" else "is something else of run.plan"
                raise ValueError(f"the dimension {name} of the layout {layout}: {name} {why}; give it another name")
            if not isinstance(degree, int) or isinstance(degree, bool) or degree < 1:
                raise ValueError(f"the degree {degree!r} of {name} in the layout {layout} must be a whole number of at least 1")

    def unit_for(self, world: int) -> int:
        """Of a run that no launcher leads: that of the first layout of which `world` processes are whole replicas."""
        for unit in self.units:
            if world % unit == 0:
                return unit
        raise ValueError(f"{world} processes are no whole replicas of any layout, which have {', '.join(map(str, self.units))} processes")

    def plan(self, dp: int, unit: int) -> Plan:
        return Plan(dp, self._by_unit[unit], self._names)
