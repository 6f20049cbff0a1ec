"""Unit tests of the Python package: gradients over slices that differ in size, by FSDP2 on meshes of several shapes. Run by
tests/torchrt/python.bats."""
import unittest

import stand_in


def all_of(rank, world, kinds):
    """How far the gradients of each kind are from those over the whole batch, and this process's samples."""
    import torch.distributed as dist
    found = [apart(rank, world, *kind) for kind in kinds]
    dist.destroy_process_group()
    return found


def apart(rank, world, kind, mixed, parts):
    import torch
    from torch.distributed._composable.replicate_with_fsdp import replicate
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    torch.manual_seed(1)
    dtype = torch.float32 if mixed else torch.float64
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Tanh(), torch.nn.Linear(4, 1)).to(dtype)
    x = torch.arange(20.0, dtype=dtype).reshape(5, 4) / 20
    alone = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
    policy = {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float64)} if mixed else {}
    if kind == "replicate":
        replicate(model, mesh=init_device_mesh("cpu", (world,), mesh_dim_names=("replicate",)), **policy)
    else:
        mesh = init_device_mesh("cpu", kind, mesh_dim_names=("dp", "fsdp")[:len(kind)])
        for part in (model[0], model):
            fully_shard(part, mesh=mesh, **policy)
    run = stand_in.join(stand_in.Control(), rank, world, global_batch=5, steps=1)
    run.register(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.0))
    for step in run.steps():
        if parts:
            for part in run.parts(step, 2):
                run.backward(model(x[torch.tensor(list(part))]).square().mean(), part)
            run.report()
        else:
            loss = model(x[torch.tensor(list(run.slice(step)))]).square().mean()
            loss.backward()
            run.report(loss)
        found = [one.grad.full_tensor() for one in model.parameters()]
    return max(float((one - other).abs().max()) for one, other in zip(found, alone)), len(run.slice(1))


class Weighed(unittest.TestCase):
    def test_the_mean_over_the_global_batch_whatever_the_shape_of_the_mesh(self):
        import torch.distributed._composable.replicate_with_fsdp  # noqa: F401 for all that are forked
        import torch.distributed.fsdp  # noqa: F401
        for world, kinds in ((2, ((2,), (2, 1), (1, 2), "replicate")), (4, ((2, 2),))):
            of = [(kind, mixed, parts) for kind in kinds for mixed in (False, True) for parts in (False, True)]
            for (kind, mixed, parts), found in zip(of, zip(*stand_in.processes(world, all_of, of))):
                with self.subTest(kind=kind, mixed=mixed, parts=parts):
                    self.assertEqual({samples for _, samples in found}, {2, 3} if world == 2 else {1, 2})
                    self.assertLess(max(far for far, _ in found), 1e-6 if mixed else 1e-12)


if __name__ == "__main__":
    unittest.main()
