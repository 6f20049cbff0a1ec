"""Registered objects where the layout of a replica may change: their state is by the names of parameters, as a process of another layout
holds others of them. A process may have several modules (stages) and several optimizers of one registered name.
"""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Sequence, Set, Tuple

import torch

from ._registered import unwrapped
from ._state import StateError


class Parts:
    """Objects that belong to one registered name: all of them have the same state, as schedulers of several optimizers do."""

    def __init__(self, name: str, parts: "Sequence[Any]") -> None:
        self.name, self.parts = name, list(parts)

    def state_dict(self) -> Dict[str, Any]:
        return self.parts[0].state_dict()  # type: ignore[no-any-return]

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        for one in self.parts:
            one.load_state_dict(state)


class Modules(Parts):
    """Modules whose names are those that the parameters have in the whole model."""

    def __init__(self, name: str, parts: "Sequence[Any]") -> None:
        super().__init__(name, [unwrapped(one) for one in parts])

    def state_dict(self) -> Dict[str, Any]:
        made: Dict[str, Any] = {}
        for one in self.parts:
            for key, value in one.state_dict().items():
                if key in made:
                    raise StateError(f"run.register({self.name}=[...]): two of the modules have {key}; each part of a model has the names "
                                     "that its parameters have in the whole model")
                made[key] = value
        return made

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        for one in self.parts:
            one.load_state_dict({key: state[key] for key in one.state_dict()})

    def parameters(self) -> "Iterable[Tuple[str, torch.nn.Parameter]]":
        for one in self.parts:
            for key, parameter in one.named_parameters():
                yield f"{self.name}.{key}", parameter


class Optimizers(Parts):
    """torch's optimizers: {"state": {NAME: ...}, "groups": {NAME: learning rate and so on}}, where torch has indices."""

    def __init__(self, name: str, parts: "Sequence[Any]", names: Dict[int, str]) -> None:
        """names: of the registered modules' parameters, by identity."""
        super().__init__(name, parts)
        self.parameters: Dict[str, torch.nn.Parameter] = {}
        self._names: List[List[str]] = []  # by the index that torch gives
        for one in self.parts:
            mine = []
            for group in one.param_groups:
                for parameter in group["params"]:
                    if id(parameter) not in names:
                        raise StateError(f"run.register({name}=...): it has a parameter of shape {tuple(parameter.shape)} that no registered "
                                         "module has; with layouts an optimizer's state is kept by the names of parameters")
                    mine.append(names[id(parameter)])
                    self.parameters[mine[-1]] = parameter
            self._names.append(mine)

    @staticmethod
    def _settings(group: Dict[str, Any]) -> Dict[str, Any]:
        return {key: value for key, value in group.items() if key not in ("params", "param_names")}

    @staticmethod
    def _group(group: Dict[str, Any], names: List[str], settings: Dict[str, Any]) -> Dict[str, Any]:
        """A group as torch has it, with the settings that its parameters had. One without parameters stays as it is."""
        mine = [names[index] for index in group["params"]]
        for name in mine[1:]:
            if settings[name] != settings[mine[0]]:
                raise StateError(f"{name} and {mine[0]} are of one group of parameters, and were of two with other settings; each parameter "
                                 "belongs to the same group in all layouts")
        return {**group, **settings[mine[0]]} if mine else group

    def state_dict(self) -> Dict[str, Any]:
        state: Dict[str, Any] = {}
        groups: Dict[str, Any] = {}
        for one, names in zip(self.parts, self._names):
            there = one.state_dict()
            state.update({names[index]: value for index, value in there["state"].items()})
            for group in there["param_groups"]:
                settings = self._settings(group)
                groups.update({names[index]: settings for index in group["params"]})
        return {"state": state, "groups": groups}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        if set(state) != {"state", "groups"}:
            raise StateError("its state is not by the names of parameters: it was written by a run without layouts "
                             "(espalier.join(parallel=[...])), and cannot be gone on with by one that has them")
        missing = sorted(name for name in self.parameters if name not in state["groups"])
        if missing:
            raise StateError(f"{missing[0]} was in no optimizer before; a parameter has the same name, and is trained, in all layouts")
        for one, names in zip(self.parts, self._names):
            groups = [self._group(group, names, state["groups"]) for group in one.state_dict()["param_groups"]]
            moments = {index: state["state"][name] for index, name in enumerate(names) if name in state["state"]}
            one.load_state_dict({"state": moments, "param_groups": groups})


def by_name(objects: Dict[str, Any]) -> Dict[str, Parts]:
    """What run.register() was given, as objects whose state does not depend on the layout. Raises StateError."""
    made: Dict[str, Parts] = {}
    lists = {name: list(one) if isinstance(one, (list, tuple)) else [one] for name, one in objects.items()}
    for name, parts in lists.items():
        kinds = {(isinstance(one, torch.nn.Module), isinstance(one, torch.optim.Optimizer)) for one in parts}
        if len(kinds) > 1:
            raise StateError(f"run.register({name}=[...]): holds modules, optimizers or other objects together; give each kind a name of its own")
        if kinds == {(True, False)}:
            made[name] = Modules(name, parts)
    names = {id(parameter): key for one in made.values() if isinstance(one, Modules) for key, parameter in one.parameters()}
    for name, parts in lists.items():
        if all(isinstance(one, torch.optim.Optimizer) for one in parts):
            made[name] = Optimizers(name, parts, names)
        elif name not in made:
            made[name] = Parts(name, parts)
    return {name: made[name] for name in objects}


class Needs:
    """Which parts of the union of all processes' states this process needs."""

    def __init__(self, objects: Dict[str, Any], trees: "Sequence[Dict[str, Any]]") -> None:
        """trees: the state of each process. Raises StateError where they have not what this process needs."""
        self._objects = objects
        self.known: List[str] = []  # tensors of all modules: OBJECT.NAME, in an order that is the same everywhere
        self.mine: Set[str] = set()
        for name, one in objects.items():
            if not isinstance(one, Modules):
                continue
            here = one.state_dict()
            there = {key for tree in trees for key in tree.get(name, {})}
            missing = sorted(set(here) - there)
            if missing:
                raise StateError(f"{name}: {missing[0]} ({len(missing)} such names) is in the state of no process; a tensor's name must be the "
                                 "same in all layouts, that which it has in the whole model")
            self.known += sorted(f"{name}.{key}" for key in there)
            self.mine.update(f"{name}.{key}" for key in here)
        # Without the object's name: others than modules and optimizers may name a tensor so, alone or between dots.
        self._own = {one.partition(".")[2] for one in self.mine}
        self._theirs = {one.partition(".")[2] for one in self.known} - self._own

    def __call__(self, path: "Tuple[Any, ...]") -> bool:
        """path: the registered name, then keys. What names no tensor of a module is needed by all."""
        if len(path) < 2 or not isinstance(path[-1], str):
            return True
        one, key = self._objects.get(path[0]), path[-1]
        if isinstance(one, Modules):
            return len(path) > 2 or f"{path[0]}.{key}" in self.mine
        if isinstance(one, Optimizers):
            return len(path) != 3 or key in one.parameters
        return not self._theirs or not self._names_theirs(key)

    def _names_theirs(self, key: str) -> bool:
        """Whether the longest name of a tensor in `key` is one that only other processes have."""
        words = key.split(".")
        for count in range(len(words), 0, -1):
            for first in range(len(words) - count + 1):
                name = ".".join(words[first:first + count])
                if name in self._own or name in self._theirs:
                    return name in self._theirs
        return False
