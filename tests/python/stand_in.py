"""What a launcher would be for one process, without a launcher: a worker whose messages are kept in a list."""
import itertools
import os
import unittest.mock

from espalier import _run, _slices, _worker
from espalier._control import Leave


# Of one job after the other, and the same in all processes that a test has forked.
_TOKENS = (f"stand-in-{started}-{job}" for started in [os.getpid()] for job in itertools.count())


class Control:
    """says: what the launcher sends, in order, each as a pair: the number of steps after which it comes, and its type."""

    def __init__(self, says=()):
        self.told, self._says, self.left = [], list(says), False

    def send(self, kind, **fields):
        self.told.append({"type": kind, **fields})

    def kinds(self):
        return [one["type"] for one in self.told]

    def steps(self):
        return max([one["step"] for one in self.told if one["type"] == "step"], default=0)

    def expect(self, *kinds, timeout=0.0):
        if self._says and self._says[0][1] in ("exit", *kinds):
            kind = self._says.pop(0)[1]
            if kind == "exit":
                self.left = True
                raise Leave()
            return {"type": kind}
        return {"type": kinds[0]}

    def poll(self, *kinds):
        if self._says and self._says[0][0] <= self.steps() and self._says[0][1] in kinds:
            return {"type": self._says.pop(0)[1]}
        return None

    def take_checkpoint(self):
        return False

    def farewell(self):
        pass

    def begin_heartbeats(self):
        pass

    def progress(self):
        self.told.append({"type": "heartbeat", "progress": True})


class Worker(_worker.Worker):
    def __init__(self, rank, world, global_batch, control, unit=1):
        self.token = next(_TOKENS)
        self.seal, self.vault, self.owner = b"k" * 32, "", "1"
        self.generation, self.rank, self.unit = 0, rank, unit
        self.control, self.source, self.plan = control, None, {}
        self.shares = _slices.even_shares(global_batch, world // unit)
        self.nodes, self.jobs, self.device = ["n"] * world, ["1"] * world, 0
        self._extension, self._noticed = 0, False


def join(control, rank=0, world=1, **settings):
    """espalier.join() of a process with this control."""
    import espalier

    made = lambda batch, *_: Worker(rank, world, batch, control, settings.get("unit", 1))
    with unittest.mock.patch.object(_run, "Worker", made), unittest.mock.patch.dict(os.environ, ESPALIER_LAUNCHER="none:1"), \
            unittest.mock.patch.object(_run, "_store_of", lambda _: None):
        return espalier.join(**settings)


def processes(world, job, *arguments):
    """job(rank, world, *arguments) in so many forked processes with a process group of gloo. Returns what each returned, by rank."""
    import datetime
    import multiprocessing
    import tempfile
    import traceback
    import torch.distributed as dist

    def process(rank, store, told):
        try:
            os.environ["GLOO_SOCKET_IFNAME"] = "lo"
            dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world,
                                    timeout=datetime.timedelta(seconds=300))
            told.put((rank, job(rank, world, *arguments)))
        except BaseException:
            told.put((rank, traceback.format_exc()))
        finally:
            told.close()
            told.join_thread()
            os._exit(0)  # as a process does that waits for nobody

    context = multiprocessing.get_context("fork")
    told = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        made = [context.Process(target=process, args=(rank, os.path.join(folder, "store"), told)) for rank in range(world)]
        for one in made:
            one.start()
        try:
            found = dict(told.get(timeout=120) for _ in made)
        finally:
            for one in made:
                one.kill()
                one.join(60)
    return [found[rank] for rank in range(world)]
