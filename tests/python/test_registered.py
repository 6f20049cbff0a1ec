"""Unit tests of the Python package: what may be registered, and what of it is handed over. Run by tests/torchrt/python.bats."""
import mmap
import unittest

import stand_in


def model_of(seed=1):
    import torch
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)).double()


def as_compiled(module):
    """The object that torch.compile() returns, which here compiles nothing: the tests' torch has not all that compilers need."""
    from torch._dynamo.eval_frame import DisableContext, OptimizedModule
    made = DisableContext()(module)
    assert isinstance(made, OptimizedModule)
    return made


def join(rank, world, steps=3, **settings):
    return stand_in.join(stand_in.Control(), rank, world, global_batch=3, steps=steps, **settings)


def moving_average(rank, world):
    """The model's parameters and their average after three steps on uneven slices."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    run, model = join(rank, world), model_of()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    run.register(model=ddp, optimizer=optimizer, ema=ema)
    x = torch.arange(36, dtype=torch.float64).view(9, 4) / 36
    for step in run.steps():
        optimizer.zero_grad()
        loss = ddp(x[run.slice(step)]).square().mean()
        loss.backward()
        optimizer.step()
        ema.update_parameters(model)
        run.report(loss)
    return [p.tolist() for p in [*model.parameters(), *ema.parameters()]]


def compiled(rank, world, outside):
    """The names in the state of a compiled model, its losses, and whether a plain model loads what it keeps."""
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from espalier import _state
    run, model = join(rank, world), model_of()
    if outside:
        wrapped = as_compiled(DistributedDataParallel(model))
    else:
        wrapped = DistributedDataParallel(as_compiled(model))
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    run.register(model=wrapped, optimizer=optimizer)
    x, losses = torch.arange(36, dtype=torch.float64).view(9, 4) / 36, []
    for step in run.steps():
        optimizer.zero_grad()
        for part in run.parts(step, 1):
            run.backward(wrapped(x[list(part)]).square().mean(), part)
        optimizer.step()
        losses.append(run.report())
    packed = _state.Packed(3, run._trainer._objects)
    memory = mmap.mmap(-1, packed.size)
    packed.write(memory)
    other = model_of(2)
    _state.apply({"model": other, "optimizer": torch.optim.SGD(other.parameters(), lr=0.1)}, _state.read(memory)[1], "the state")
    same = all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))
    return sorted(run._trainer._objects["model"].state_dict()), same, losses


def refused(rank, world, copies):
    import torch
    run, model = join(rank, world), model_of()
    run.register(model=as_compiled(model), optimizer=torch.optim.SGD([p.detach().clone() for p in model.parameters()] if copies else model.parameters(), lr=0.1))
    try:
        run.start()
    except Exception as error:
        torch.distributed.barrier()  # who ends sooner breaks the group of the other
        return str(error)


class Modules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import torch._dynamo  # noqa: F401 for all that are forked
        import torch.distributed  # noqa: F401

    def nearly(self, one, other):
        import torch
        for a, b in zip(one, other):
            self.assertTrue(torch.allclose(torch.tensor(a), torch.tensor(b), rtol=0, atol=1e-12), (one, other))

    def test_a_moving_average_that_no_optimizer_steps_may_be_registered_beside_the_model(self):
        one, two = stand_in.processes(1, moving_average), stand_in.processes(2, moving_average)
        self.assertEqual(two[0], two[1])
        self.nearly(one[0], two[0])

    def test_a_compiled_model_is_averaged_and_its_state_has_the_plain_names(self):
        names = ["0.bias", "0.weight", "2.bias", "2.weight"]
        alone = stand_in.processes(1, compiled, True)
        for outside in (True, False):
            found = stand_in.processes(2, compiled, outside)
            self.assertEqual([one[:2] for one in found], [(names, True)] * 2, found)
            self.nearly(found[0][2], alone[0][2])

    def test_a_compiled_model_that_nobody_averages_is_refused_in_words(self):
        for said in stand_in.processes(2, refused, False):
            self.assertIn("run.register(model=...): wrap the module in DistributedDataParallel", said)

    def test_a_plain_model_whose_optimizer_has_master_copies_is_refused_too(self):
        for said in stand_in.processes(2, refused, True):
            self.assertIn("run.register(model=...): wrap the module in DistributedDataParallel", str(said))


if __name__ == "__main__":
    unittest.main()
