"""main.py [--seed N] [--count N] [--state STATE] [--kind KIND] [--fault TEXT] [--tied]: inside a box, injects faults into
elastic trainings, each in a chosen state of the launcher, and demands after each that the training goes on without a lost
or repeated step and with the same losses, or, when the launcher itself or its Slurm job is ended, that all is gone. What
had to be done again is counted: the jobs keep snapshots every few steps, and no more than a few of these intervals may be
lost to a generation that had time to keep some, and never more than what lies between two checkpoints; jobs whose state is handed over by checkpoint lose nothing that a
checkpoint held. Prints a line for each, a table, what broke (exit status 1 then) and a line of counts; all but the rest of
the faults also when it is ended early, by a signal or, with --tied, by the end of standard input (exit status 130 where
nothing broke)."""
import argparse
import os
import random
import signal
import sys
import threading
import time
import traceback

import faults
import leaks
import processes
import slurm
from job import MINUTES, Job, make_disk
from shell import run
from tally import Tally

# By the kind of job (job.py). The first state is that of a job that has not trained yet.
STATES = {"adopt": ["launching", "running", "acquiring", "starting", "ready", "switching", "committed", "recovering"],
          "checkpoint": ["running", "saving", "restarting", "recovering"],
          "overlap": ["ready", "switching"], "spread": ["running", "switching", "recovering"],
          "movable": ["launching", "running", "acquiring", "starting", "ready", "switching", "committed", "recovering"]}
LIVES = 20  # faults, then another job takes its place
MOVES = 5  # the same of a movable one: espalierd moves none more than six times an hour
SURVIVES, GONE, STEPS = 90, 15, 5
SETTLES = 4  # seconds for which Slurm must be wrong: jobs come and go between two questions
MOST_LOST = 60 * MINUTES + 60  # seconds of training: what lies between two checkpoints, and what writing one takes
SLOW = 15  # seconds without a step after which what was said meanwhile is printed
BOTH_HELD = 90  # after a move; espalier-launch(1)
HOW_TO_GO_ON = "submit the job again to go on from its newest checkpoint"
COMPLETES = 150  # a job that ended on a node that was cut off just then: Slurm asks the node again after two minutes


def chosen_cells(options):
    """(kind, state, fault)"""
    return [(kind, state, name) for kind, states in STATES.items() for state in states for name, fault in faults.FAULTS.items()
            if options.kind in (None, kind) and options.state in (None, state) and kind in (fault.kinds or STATES)
            and (options.fault is None or options.fault in name) and (state != "launching" or fault.launching)]


def cells(chosen, seed, count, wanted):
    """Every one as often as the others, give or take one, in random order but for the kinds, which take turns of some cells, for
    as long as wanted()."""
    order, turn = random.Random(seed), max(1, min(LIVES, count // 4))
    while True:
        turns = []
        for kind in STATES:
            own = [cell for cell in chosen if cell[0] == kind]
            order.shuffle(own)
            turns += [own[at:at + turn] for at in range(0, len(own), turn)]
        order.shuffle(turns)
        for cell in sum(turns, []):
            if not wanted():
                return
            yield cell


class Ended(BaseException):
    """Early, from outside."""


class Matrix:
    def __init__(self, options, chosen):
        self.options, self.chosen = options, chosen
        self.random = random.Random(options.seed)
        self.losses, self.job, self.lived = {}, None, 0
        self.tally = Tally([(kind, state) for kind, states in STATES.items() for state in states], chosen)
        self.controller_struck = self.nodes_struck = False  # since nothing was left of any job
        self.copies_taken = False

    def new_job(self, kind):
        self.tally.jobs += 1
        self.lived = 0
        self.copies_taken = False  # since a generation of this job has had the time to make its own
        self.job = Job(f"A{self.tally.jobs}", self.losses, kind)

    def fresh_job(self, kind):
        for _ in range(3):
            self.new_job(kind)
            if self.job.until(lambda _: self.job.step >= 5, 60):
                return
            # Seen once: a slurmctld that had been killed gave a job no GPUs, though it had asked for some.
            self.problem(f"{self.job.name} does not train")
            print("        " + slurm.says().replace("\n", "\n        "), flush=True)
            self.end_job()
        raise RuntimeError("no job trains")

    def end_job(self):
        run("scancel", self.job.id, check=False)
        self.over(f"{self.job.name}: at its end")

    def check_gone(self, when):
        start, left = time.monotonic(), ["?"]
        end = start + GONE
        while left and time.monotonic() < end:
            time.sleep(0.2)
            left = leaks.leaks()
            if self.nodes_struck and left and all(what.endswith(" COMPLETING") for what in left) and not slurm.is_done():
                time.sleep(0.5)
                end = max(end, min(time.monotonic() + GONE, start + COMPLETES))
        if left:
            self.tally.leaks += 1
            self.problem(f"{when}: left behind: " + "; ".join(left))
            print("        " + slurm.says().replace("\n", "\n        "), flush=True)
            run("pkill", "-KILL", "-u", "boxuser", check=False)
            run("scancel", "-u", "boxuser", check=False)
        else:
            self.heal_slurm(when)
            self.controller_struck = self.nodes_struck = False  # nothing is left that this could explain

    def heal_slurm(self, when):
        """Where Slurm itself is wrong about its nodes after its controller was killed, that is put right and counted, unless
        anything that it does not know still runs: that would be left behind by us."""
        try:
            found = slurm.wrong()
            if not found:
                return
            start = time.monotonic()
            end = start + SETTLES
            while found and time.monotonic() < end:
                if self.job:
                    self.job.look()
                time.sleep(0.2)
                if not slurm.is_done():
                    end = min(time.monotonic() + SETTLES, start + COMPLETES)
                now = slurm.wrong()
                found = {node: what for node, what in found.items() if now.get(node) == what}
            if not found:
                return
            words = "; ".join(what for _, what in found.values())
            unknown = slurm.unknown_processes()
            if unknown:
                self.tally.leaks += 1
                return self.problem(f"{when}: {words}; and there is still: " + "; ".join(unknown))
            said = "\n        " + slurm.says().replace("\n", "\n        ")
            if self.controller_struck and all(kind in slurm.OWN_FAULTS for kind, _ in found.values()):
                print(f"      {when}: {words}: Slurm's own fault, it is mended{said}", flush=True)
                self.tally.healed += 1
            else:
                self.problem(f"{when}: {words}; slurmctld was {'' if self.controller_struck else 'not '}killed before")
                print(said[1:], flush=True)
            slurm.heal(found)
            left = {node: what for node, what in slurm.wrong().items() if found.get(node) == what}
            if left:
                self.problem(f"{when}: it is still so: " + "; ".join(what for _, what in left.values()))
        except (RuntimeError, OSError) as away:
            self.problem(f"{when}: Slurm: {away}")

    def unreached(self, number, state):
        """Such as a job whose workers were killed so often that its own GPUs count as unfit: nothing is taken back then. No
        loss, but it should be rare."""
        job = self.job
        if job.until(lambda _: self.quiet(), 30):
            self.tally.never += 1
            print(f"{number:4d} {state:10} was not reached; the job trains\n        " + job.tail(3).replace("\n", "\n        "),
                  flush=True)
        else:
            self.problem(f"{number}: never was {state}, and the job does not train")

    def problem(self, what):
        self.tally.problems.append(what)
        print(f"      {what}", flush=True)
        if self.job:
            print("        " + self.job.tail(15).replace("\n", "\n        "), flush=True)

    def quiet(self):
        # A step of before the phase says nothing about it.
        return self.job.phase == "running" and self.job.moved_at > self.job.entered_at + 0.05 and time.monotonic() - self.job.moved_at < 2

    def reach(self, state):
        """Brings the job into the state; whether it got there."""
        job = self.job
        if state == "launching":
            begun = job.until(lambda _: processes.launchers() or job.phase != state, 30, 0.05)
            job.until(lambda _: job.phase != state, self.random.uniform(0, 0.6))
            return begun and job.phase == state
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
        for _ in range(3):
            if self.turn(state):
                return True
            self.heal_slurm(f"{job.name} was not {state}")
        return False

    def turn(self, state):
        """Asks for a change of the layout; whether the job got into the state on its way."""
        job = self.job
        job.until(lambda _: slurm.is_done(), COMPLETES, 0.5)
        if job.kind == "movable":
            if not job.until(lambda _: len(job.bases()) == 1, BOTH_HELD, 0.5):
                return False
            job.move()
            return job.until(lambda entered: state in entered, 30, 0.001)
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
        job, tally = self.job, self.tally
        if not self.reach(state):
            self.unreached(number, state)
            return False
        fault = faults.FAULTS[name]
        where = f"{number}: {name} while {state}" + (f", {job.kind}" if job.kind != "adopt" else "")
        before, at, struck = job.seen, time.monotonic(), time.time()
        entered = len(job.phases) - job.phases[::-1].index(state) if state in job.phases else len(job.phases)
        undo, found = None, False

        def strike(_):  # what a state is about to start may not be there yet
            nonlocal undo, found
            try:
                undo, found = fault.strike(job, self.random), True
            except faults.NoTarget:
                pass
            except Exception as error:  # of the driver: the run goes on
                self.problem(f"{where}: {error!r}")
                return True
            return found or job.phase != state
        job.until(strike, 5, 0.02)
        if not found:
            tally.missed += 1
            tally.misses[name] += 1
            return True
        self.controller_struck = self.controller_struck or fault.by_slurmctld
        self.nodes_struck = self.nodes_struck or fault.hides_node or fault.by_slurmctld
        self.copies_taken = self.copies_taken or fault.takes_copies
        job.longest_pause = 0.0
        tally.hits[(job.kind, state, name)] += 1
        # What a fault breaks may show a little later.
        job.until(lambda _: False, 1)
        if undo:
            undoing = threading.Thread(target=undo)
            undoing.start()
            job.until(lambda _: not undoing.is_alive(), 60)
            undoing.join()
        may_end = state == "launching" and fault.launching == faults.MAY_END
        if not fault.survives:
            gone = job.until(lambda _: job.over(), GONE + 10, 0.2)
            verdict = f"ended in {time.monotonic() - at:.1f} s"
            if not gone:
                self.problem(f"{where}: the job goes on")
                run("scancel", job.id, check=False)
            self.over(where)
        else:
            # Some steps after the fault, at rest.
            well = job.until(lambda _: (job.seen >= before + STEPS and self.quiet()) or
                             ((fault.may_end or job.seen <= before + STEPS) and int(time.monotonic() * 5) % 5 == 0 and job.over()), SURVIVES)
            over = job.over()
            if over and may_end and "running" not in job.phases:
                verdict = f"ended in {time.monotonic() - at:.1f} s, never trained"
                self.over(where)
            elif over and fault.may_end and job.said(HOW_TO_GO_ON):
                verdict = f"ended in {time.monotonic() - at:.1f} s, and said how to go on"
                self.over(where)
            elif not well or over:
                verdict = "LOST" if over else "HANGS"
                tally.lost, tally.hung = tally.lost + over, tally.hung + (not over)
                self.problem(f"{where}: the job " + ("is over" if over else f"hangs in {job.phase} at step {job.step}"))
                print("        " + slurm.says().replace("\n", "\n        "), flush=True)
                self.end_job()
            else:
                verdict = f"went on, longest pause {job.longest_pause:.2f} s"
                tally.recovery[name].append(job.longest_pause)
                if fault.of_next and state in ("starting", "ready", "switching"):
                    self.spared(where, job.phases[entered:])
                self.invariants(where)
                self.heal_slurm(where)
        print(f"{number:4d} {state:10} {name:46} {verdict}", flush=True)
        if fault.survives and self.job and job.longest_pause > SLOW:
            print("        " + job.since(struck).replace("\n", "\n        "), flush=True)
        return True

    def over(self, where):
        """It has ended, or is about to: is all of it gone?"""
        self.check_gone(where)
        self.job.forget()
        self.job = None

    def spared(self, where, entered):
        """What befalls a generation before it is committed costs the one that trains nothing."""
        if "recovering" in entered and "committed" not in entered[:entered.index("recovering")]:
            self.problem(f"{where}: the running generation was lost too")

    def invariants(self, where):
        job, tally = self.job, self.tally
        # The old generation may be on its way out.
        if not job.until(lambda _: len(processes.generations()) <= 1 or not self.quiet(), 12, 0.1):
            tally.leaks += 1
            self.problem(f"{where}: generations {sorted(processes.generations())} live")
        if job.kind == "movable" and not job.until(lambda _: len(job.bases()) == 1, BOTH_HELD, 0.5):
            tally.leaks += 1
            self.problem(f"{where}: bases {job.bases()} are there")
        for origin, steps, done, seconds in job.again:
            tally.again[origin].append(steps)
            if steps <= 3 * job.kept_every:
                continue
            words = f"{where}: {steps} steps, {seconds:.0f} s, were lost by a generation that had done {done} (it went on with {origin})"
            if self.copies_taken and done <= 3 * job.kept_every and seconds <= MOST_LOST:
                tally.excused += 1
                print(f"      {words}", flush=True)
            else:
                self.problem(words)
        if any(done > 3 * job.kept_every for _, _, done, _ in job.again):
            self.copies_taken = False
        job.again.clear()
        try:
            strays = leaks.stray_extensions(job.id) + leaks.gpus_twice()
        except RuntimeError as away:
            strays = [f"Slurm does not answer: {away}"]
        tally.leaks += len(strays)
        for problem in strays + job.problems:
            self.problem(f"{where}: {problem}")
        job.problems.clear()

    def run(self):
        tally = self.tally
        def wanted():  # a cell whose target is never there must not keep us for ever
            return tally.total() < self.options.count and tally.missed + tally.never < self.options.count

        count = self.options.count
        for number, (kind, state, name) in enumerate(cells(self.chosen, self.options.seed, count, wanted), start=1):
            if self.job and (self.job.kind != kind or state == "launching"):
                self.end_job()
            if state == "launching":
                self.new_job(kind)
            elif self.job is None:
                self.fresh_job(kind)
            self.lived += 1
            if (not self.inject(number, state, name) or self.lived >= (MOVES if kind == "movable" else LIVES)) and self.job:
                self.end_job()
        if self.job:
            self.end_job()


def end_early(*_):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise Ended


def end_with_input():
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="default: each fault once in each state of each kind of job")
    parser.add_argument("--state", choices=sorted({state for states in STATES.values() for state in states}))
    parser.add_argument("--kind", choices=list(STATES))
    parser.add_argument("--fault")
    parser.add_argument("--tied", action="store_true")
    options = parser.parse_args()
    chosen = chosen_cells(options)
    if not chosen:
        sys.exit("main.py: no such state, kind or fault")
    if options.count is None:
        options.count = len(chosen)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_early)
    if options.tied:
        threading.Thread(target=end_with_input, daemon=True).start()
    make_disk()
    matrix, early = Matrix(options, chosen), False
    try:
        matrix.run()
    except Ended:
        early = True
        print("\nended early; so far:")
    except Exception as error:  # of the driver: what was found so far is told all the same
        matrix.tally.problems.append(f"the run ended: {error!r}")
        traceback.print_exc()
    matrix.tally.report()
    sys.exit(1 if matrix.tally.problems else 130 if early else 0)


if __name__ == "__main__":
    main()
