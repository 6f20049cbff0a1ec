"""One elastic training: its launcher's phases as they are logged, its steps, and what both must satisfy."""
import json
import os
import re
import shutil
import time

import slurm
from shell import BOX, HOME, USER, as_user, run

SNAPSHOT_STEPS, CHECKPOINT_STEPS = 5, 100
MINUTES = 2  # checkpoint.minutes of all jobs
DISK = f"{HOME}/disk"  # of its own, for checkpoints
RANGES = {"adopt": "2:8", "checkpoint": "2:8", "overlap": "2:8", "movable": "2:4,movable"}  # of srun; the others are told by sbatch
ON_DISK = ("checkpoint", "overlap")
TRAINING = [f"{BOX}/share/examples/gpt-tiny.toml", "--set", "model.hidden=32", "--set", "model.sequence=32", "--set",
            "training.minimum_learning_rate=2e-3", "--data", f"{BOX}/share/text", "--steps", "1000000"]

WENT_ON = re.compile(r" after step (\d+); training went on with (.*?)(?: of step (\d+))?, [0-9.]+ s later: generation (\d+),")
COMMITTED = re.compile(r" committed at step (\d+): generation (\d+),")


def make_disk():
    os.mkdir(DISK)
    run("mount", "-t", "tmpfs", "-o", f"mode=755,uid={USER},size=50%", "tmpfs", DISK)


class Follower:
    """The lines that were added to a file since the last look; all of them when another file has taken its place, or when it was
    cut."""

    def __init__(self, path):
        self.path, self.file, self.rest, self.again = path, None, "", False

    def lines(self):
        try:
            now = os.stat(self.path)
            self.again = self.file is not None and (now.st_ino != os.fstat(self.file.fileno()).st_ino
                                                    or now.st_size < self.file.tell())
            if self.file is None or self.again:
                self.file, self.rest = open(self.path, encoding="utf-8", errors="replace"), ""
        except FileNotFoundError:
            return []
        parts = (self.rest + self.file.read()).split("\n")
        self.rest = parts.pop()
        return parts


def planner_log():
    with open(f"{BOX}/log/espalierd.log", encoding="utf-8", errors="replace") as log:
        return [line for line in log.read().split("\n") if "UDP" not in line]


class Job:
    """A batch job whose script trains on two GPUs, up to eight. Losses are compared with `losses`, which all jobs of a run share:
    they train the same model. By its kind: "adopt", on n1, and copies of its state are kept in memory; "spread", the same on a
    GPU each of two nodes, one of which Slurm may take from it; "checkpoint" and "overlap", on n1, whose state is handed over so,
    and there are no copies but those on disk. All write a checkpoint every MINUTES."""

    def __init__(self, name, losses, kind):
        self.name, self.losses, self.kind = name, losses, kind
        self.step, self.plan_gpus, self.generation = 0, 0, 0
        self.reread = -1  # the newest generation of which lines were written anew
        self.began = {}  # by generation: its first step
        self.again = []  # (what it went on with, how many steps were lost, how many the lost generation had done, seconds lost)
        self._done_at = {}  # by step
        self.kept_every = SNAPSHOT_STEPS if kind not in ON_DISK else CHECKPOINT_STEPS
        self.checkpoints = f"{DISK}/{name}"
        self.checkpoint, self._listed_at, self._recovers = 0, 0.0, False  # the step of the newest one before any loss
        self.seen = 0  # steps, those done again after a loss of all newer state among them
        self.phase, self.phases, self.messages, self.times, self.problems = "launching", ["launching"], [], [], []
        self.moved_at, self.entered_at, self.longest_pause = time.monotonic(), 0.0, 0.0
        script = f"{HOME}/{name}.sh"
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\nsrun " + " ".join(([f"--elastic={RANGES[kind]}"] if kind in RANGES else []) + ["espalier-train"]
                                                        + TRAINING + self._keeps()) + f" --metrics {HOME}/{name}.jsonl\n")
        os.chmod(script, 0o755)
        own = {"spread": ["--elastic=:8", "-N2", "--ntasks-per-node=1", "--gres=gpu:1"], "movable": ["-n1", "-w", "n1"]}.get(
            kind, ["-N1", "-n1", "-w", "n1", "--gres=gpu:2"])
        self.id = as_user("sbatch", "--parsable", "-J", name, "-o", f"{HOME}/{name}.out", *own, script)
        self._log, self._metrics = Follower(f"{HOME}/{name}.out"), Follower(f"{HOME}/{name}.jsonl")

    def _keeps(self):
        disk = ["--set", f"checkpoint.directory={self.checkpoints}", "--set", f"checkpoint.minutes={MINUTES}", "--set",
                f"checkpoint.every={CHECKPOINT_STEPS if self.kind in ON_DISK else 0}"]
        if self.kind not in ON_DISK:
            return disk + ["--set", f"recovery.snapshot_steps={SNAPSHOT_STEPS}"]
        return disk + ["--set", f"handoff.method={self.kind}"]

    def forget(self):
        """Once it is over."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def look(self):
        """Takes in what has happened; the phases that were entered since the last look."""
        entered = []
        for line in self._log.lines():
            if "--> " in line and "--" in line.split("--> ")[0]:
                self.phase = line.rsplit("--> ", 1)[1].strip()
                self.entered_at = time.monotonic()
                entered.append(self.phase)
                self._recovers = self._recovers or self.phase == "recovering"
            if committed := COMMITTED.search(line):  # it may be lost before its first step
                self.began.setdefault(int(committed[2]), int(committed[1]) + 1)
            if went_on := WENT_ON.search(line):
                last, origin, step, generation = went_on.groups()
                lost = max((g for g in self.began if g < int(generation)), default=None)
                done = int(last) - self.began[lost] + 1 if lost is not None else 0
                from_step = int(step or last)
                seconds = self._done_at.get(int(last), 0) - self._done_at.get(from_step, self._done_at.get(from_step + 1, 0))
                self.again.append((origin, max(0, int(last) - from_step), done, seconds))
                if int(step or last) < self.checkpoint:
                    self.problems.append(f"it went on with {origin} of step {step or last}; there was a checkpoint of step {self.checkpoint}")
                self._recovers = False
            self.messages.append(line)
            self.times.append(time.time())
        self.phases += entered
        self._list_checkpoints()
        lines = self._metrics.lines()
        if self._metrics.again:  # a recovery writes what it goes on from anew
            self.step, self.reread = 0, self.generation
        for line in lines:
            self._take(json.loads(line))
        return entered

    def _list_checkpoints(self):
        # Those that a generation which goes on after a loss has made since were not there for it.
        if self._recovers or time.monotonic() < self._listed_at + 0.1:
            return
        self._listed_at = time.monotonic()
        try:
            whole = [re.fullmatch(r"step-(\d+)", name) for name in os.listdir(self.checkpoints)]
        except FileNotFoundError:
            return
        self.checkpoint = max([self.checkpoint] + [int(found[1]) for found in whole if found])

    def _take(self, record):
        step, loss = record["step"], record["loss"]
        if step != self.step + 1:
            self.problems.append(f"step {step} follows step {self.step}")
        if self.losses.setdefault(step, loss) != loss:
            self.problems.append(f"step {step}: loss {loss!r}, elsewhere {self.losses[step]!r}")
        self.step, self.plan_gpus = step, record["gpus"]
        if record["generation"] <= self.reread:
            return
        self.seen += 1
        self.generation = record["generation"]
        self.began.setdefault(self.generation, step)
        now = time.monotonic()
        self._done_at[step] = now
        self.longest_pause = max(self.longest_pause, now - self.moved_at)
        self.moved_at = now

    def until(self, condition, seconds, pause=0.005):
        """Looks until condition(phases entered) holds; whether it did in time."""
        end = time.monotonic() + seconds
        while True:
            if condition(self.look()):
                return True
            if time.monotonic() > end:
                return False
            time.sleep(pause)

    def over(self):
        """Not while slurmctld is away: it has to say so."""
        return slurm.job_state(self.id) not in (None, "RUNNING", "PENDING", "COMPLETING", "CONFIGURING")

    def bases(self):
        """The Slurm jobs that are its bases, as ids; the base that it moves to among them."""
        try:
            return run("squeue", "-h", "-n", f"base-{self.id}", "-o", "%i").split()
        except RuntimeError:
            return []

    def move(self):
        """Asks for a move of its base to the other node."""
        try:
            nodes = run("squeue", "-h", "-j", ",".join(self.bases()), "-o", "%N").split()
        except RuntimeError:
            return
        as_user(f"{BOX}/bin/espalier", "migrate", self.id, "--nodes", "n1" if "n2" in nodes else "n2", check=False)

    def ask(self, what):
        as_user(f"{BOX}/bin/espalier", what, self.id, check=False)

    def said(self, words):
        """Whether its launcher has."""
        self.look()
        return any(words in line for line in self.messages)

    def since(self, moment):
        """What its launcher has said since, with the times of day at which it was read, and the planner's log of that time."""
        def clock(time_of):
            return time.strftime("%H:%M:%S", time.localtime(time_of)) + f".{int(time_of * 1000) % 1000:03d}"
        said = [f"{clock(at)} {line}" for at, line in zip(self.times, self.messages)
                if at >= moment and not line.startswith("step ")]
        return "\n".join(said + planner_log()[-40:])

    def tail(self, count=25):
        """What its launcher and the planner said last; of the steps' lines the last only."""
        said = [line for line in self.messages[:-1] if not line.startswith("step ")] + self.messages[-1:]
        return "\n".join(said[-count:] + planner_log()[-count:])
