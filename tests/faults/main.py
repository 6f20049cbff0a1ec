"""main.py [--seed N] [--count N] [--state STATE] [--fault TEXT]: inside a box, injects faults into elastic trainings, each
in a chosen state of the launcher, and demands after each that the training goes on without a lost or repeated step and with the
same losses, or, when the launcher itself or its Slurm job is ended, that all is gone. What had to be done again is counted: the
jobs keep snapshots every few steps, and no more than a few of these intervals may be lost to a generation that had time to keep
some. Prints a line for each, a table, and what broke; exit status 1 then."""
import argparse
import collections
import os
import random
import sys
import threading
import time

import faults
import leaks
import processes
from job import SNAPSHOT_STEPS, Job
from shell import BOX, HOME, run

STATES = ["running", "acquiring", "starting", "ready", "switching", "committed", "recovering"]
SURVIVES, GONE, STEPS = 90, 15, 5
SLOW = 15  # seconds without a step after which what was said meanwhile is printed
COMPLETES = 150  # a job that ended on a node that was cut off just then: Slurm asks the node again after two minutes


def cells(seed, wanted, state, fault):
    """(state, fault), every pair as often as the others, give or take one, in random order, for as long as wanted()."""
    chosen = [(s, f) for s in STATES for f in faults.FAULTS if state in (None, s) and (fault is None or fault in f)]
    if not chosen:
        sys.exit("main.py: no such state or fault")
    order = random.Random(seed)
    while True:
        order.shuffle(chosen)
        for cell in chosen:
            if not wanted():
                return
            yield cell


class Matrix:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.losses, self.jobs, self.job = {}, 0, None
        self.again = collections.defaultdict(list)  # by what a job went on with: how many steps it did again
        self.hits, self.recovery = collections.Counter(), collections.defaultdict(list)
        self.problems, self.missed, self.never = [], 0, 0

    def fresh_job(self):
        for _ in range(3):
            self.jobs += 1
            self.job = Job(f"A{self.jobs}", self.losses)
            if self.job.until(lambda _: self.job.step >= 5, 60):
                return
            # Seen once: a slurmctld that had been killed gave a job no GPUs, though it had asked for some.
            self.problem(f"{self.job.name} does not train")
            self.end_job()
        raise RuntimeError("no job trains")

    def end_job(self):
        run("scancel", self.job.id, check=False)
        self.check_gone("at its end")
        self.job = None

    def check_gone(self, when):
        start, left = time.monotonic(), ["?"]
        end = start + GONE
        while left and time.monotonic() < end:
            time.sleep(0.2)
            left = leaks.leaks()
            if left and all(what.endswith(" COMPLETING") for what in left) and not leaks.slurm_is_done():
                time.sleep(0.5)
                end = max(end, min(time.monotonic() + GONE, start + COMPLETES))
        if left:
            self.problem(f"{when}: left behind: " + "; ".join(left))
            run("pkill", "-KILL", "-u", "boxuser", check=False)
            run("scancel", "-u", "boxuser", check=False)

    def unreached(self, number, state):
        """Such as a job whose workers were killed so often that its own GPUs count as unfit: nothing is taken back then. No
        loss, but it should be rare."""
        job = self.job
        if job.until(lambda _: self.quiet(), 30):
            self.never += 1
            print(f"{number:4d} {state:10} was not reached; the job trains\n        " + job.tail(3).replace("\n", "\n        "),
                  flush=True)
        else:
            self.problem(f"{number}: never was {state}, and the job does not train")

    def problem(self, what):
        self.problems.append(what)
        print(f"      {what}", flush=True)
        if self.job:
            print("        " + self.job.tail(15).replace("\n", "\n        "), flush=True)

    def quiet(self):
        # A step of before the phase says nothing about it.
        return self.job.phase == "running" and self.job.moved_at > self.job.entered_at + 0.05 and time.monotonic() - self.job.moved_at < 2

    def reach(self, state):
        """Brings the job into the state; whether it got there."""
        job = self.job
        if not job.until(lambda _: self.quiet(), 60):
            return False
        if state == "running":
            # There is something to lose. A planner that has just started may not know the job yet.
            for _ in range(5):
                if job.plan_gpus < 4:
                    job.ask("release")
                if job.until(lambda _: job.plan_gpus >= 4 and self.quiet(), 10):
                    return True
            return False
        if state == "recovering":
            pids = processes.of_generation("espalier-train", job.generation)
            if pids:
                os.kill(self.random.choice(pids), 9)
            return job.until(lambda entered: state in entered, 30, 0.001)
        # The planner may have other things to do first, such as to learn of the job again.
        return any(self.turn(state) for _ in range(3))

    def turn(self, state):
        """Asks for a change of the layout; whether the job got into the state on its way."""
        job = self.job
        job.until(lambda _: leaks.slurm_is_done(), COMPLETES, 0.5)
        if job.plan_gpus > 2:
            job.ask("hold")
            job.ask("reclaim")
            if state != "acquiring":
                return job.until(lambda entered: state in entered, 20, 0.001)
            if not job.until(lambda _: job.plan_gpus <= 2 and self.quiet(), 30):
                return False
        job.ask("release")
        return job.until(lambda entered: state in entered, 20, 0.001)

    def inject(self, number, state, name):
        job = self.job
        if not self.reach(state):
            self.unreached(number, state)
            return False
        fault, survives = faults.FAULTS[name]
        before, at, struck = job.seen, time.monotonic(), time.time()
        undo, found = None, False

        def strike(_):  # what a state is about to start may not be there yet
            nonlocal undo, found
            try:
                undo, found = fault(job, self.random), True
            except faults.NoTarget:
                pass
            except Exception as error:  # of the driver: the run goes on
                self.problem(f"{number}: {name} while {state}: {error!r}")
                return True
            return found or job.phase != state
        job.until(strike, 5, 0.02)
        if not found:
            self.missed += 1
            return True
        job.longest_pause = 0.0
        self.hits[(state, name)] += 1
        # What a fault breaks may show a little later.
        job.until(lambda _: False, 1)
        if undo:
            undoing = threading.Thread(target=undo)
            undoing.start()
            job.until(lambda _: not undoing.is_alive(), 60)
            undoing.join()
        if not survives:
            gone = job.until(lambda _: job.over(), GONE + 10, 0.2)
            verdict = f"ended in {time.monotonic() - at:.1f} s"
            if not gone:
                self.problem(f"{number}: {name} while {state}: the job goes on")
                run("scancel", job.id, check=False)
            self.job = None
            self.check_gone(f"{number}: {name} while {state}")
        else:
            # Some steps after the fault, at rest.
            well = job.until(lambda _: (job.seen >= before + STEPS and self.quiet()) or
                             (job.seen <= before + STEPS and int(time.monotonic() * 5) % 5 == 0 and job.over()), SURVIVES)
            verdict = f"went on, longest pause {job.longest_pause:.2f} s"
            if not well or job.over():
                verdict = "LOST" if job.over() else "HANGS"
                self.problem(f"{number}: {name} while {state}: the job " + ("is over" if job.over() else f"hangs in {job.phase} at step {job.step}"))
                self.end_job()
            else:
                self.recovery[name].append(job.longest_pause)
                self.invariants(f"{number}: {name} while {state}")
        print(f"{number:4d} {state:10} {name:42} {verdict}", flush=True)
        if survives and self.job and job.longest_pause > SLOW:
            print("        " + job.since(struck).replace("\n", "\n        "), flush=True)
        return True

    def invariants(self, where):
        job = self.job
        # The old generation may be on its way out.
        if not job.until(lambda _: len(processes.generations()) <= 1 or not self.quiet(), 12, 0.1):
            self.problem(f"{where}: generations {sorted(processes.generations())} live")
        for origin, steps, done in job.again:
            self.again[origin].append(steps)
            if steps > 3 * SNAPSHOT_STEPS and done > 3 * SNAPSHOT_STEPS:
                self.problem(f"{where}: {steps} steps were lost (it went on with {origin})")
        job.again.clear()
        for problem in leaks.stray_extensions(job.id) + leaks.gpus_twice() + job.problems:
            self.problem(f"{where}: {problem}")
        job.problems.clear()

    def run(self):
        lived = 0
        def wanted():  # a cell whose target is never there must not keep us for ever
            return sum(self.hits.values()) < self.options.count and self.missed + self.never < self.options.count

        for number, (state, name) in enumerate(cells(self.options.seed, wanted, self.options.state, self.options.fault),
                                               start=1):
            if self.job is None:
                self.fresh_job()
                lived = 0
            lived += 1
            if not self.inject(number, state, name) or (self.job and lived >= 20):
                self.end_job()
        if self.job:
            self.end_job()
        self.report()

    def report(self):
        total = sum(self.hits.values())
        print(f"\n{'':44}" + " ".join(f"{state[:9]:>9}" for state in STATES))
        for name in faults.FAULTS:
            counts = [self.hits[(state, name)] for state in STATES]
            times = sorted(self.recovery[name])
            middle = f"  pause: median {times[len(times) // 2]:.2f} s, worst {times[-1]:.2f} s" if times else ""
            print(f"{name:44}" + " ".join(f"{count or '-':>9}" for count in counts) + middle)
        print("\nwhat jobs went on with, and how many steps they did again")
        for origin, steps in sorted(self.again.items()):
            steps.sort()
            print(f"{origin:44}{len(steps):5} times, {sum(1 for s in steps if s == 0)} without any; median "
                  f"{steps[len(steps) // 2]}, most {steps[-1]}")
        if self.never > max(3, total // 10):
            self.problem("too many states were not reached")
        print(f"\n{total} faults in {self.jobs} jobs, {self.missed} times there was nobody to do it to, "
              f"{self.never} times a state was not reached, "
              f"{len(self.problems)} problems")
        sys.exit(1 if self.problems else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--state", choices=STATES)
    parser.add_argument("--fault")
    Matrix(parser.parse_args()).run()


main()
