"""What was struck, and what came of it: the table and the counts at a run's end, early or not."""
import collections

from faults import FAULTS


class Tally:
    def __init__(self, states, cells):
        self.states, self.cells = states, cells  # (kind of job, state), (kind of job, state, fault)
        self.hits, self.recovery = collections.Counter(), collections.defaultdict(list)
        self.again = collections.defaultdict(list)  # by what a job went on with: how many steps it did again
        self.misses = collections.Counter()  # by fault: nobody to do it to
        self.jobs = self.missed = self.never = self.excused = 0
        self.lost = self.hung = self.leaks = self.healed = 0
        self.problems = []

    def total(self):
        return sum(self.hits.values())

    def report(self):
        struck = [column for column in self.states if any(self.hits[(*column, name)] for name in FAULTS)]
        if struck:
            by = " ".join(f"{'' if kind == 'adopt' else kind[:9]:>9}" for kind, _ in struck)
            print(f"\n{'':46}{by}".rstrip())
            print(f"{'':46}" + " ".join(f"{state[:9]:>9}" for _, state in struck))
        for name in FAULTS:
            counts = [self.hits[(*column, name)] for column in struck]
            if not any(counts):
                continue
            times = sorted(self.recovery[name])
            middle = f"  pause: median {times[len(times) // 2]:.2f} s, worst {times[-1]:.2f} s" if times else ""
            print(f"{name:46}" + " ".join(f"{count or '-':>9}" for count in counts) + middle)
        if self.again:
            print("\nwhat jobs went on with, and how many steps they did again")
        for origin, steps in sorted(self.again.items()):
            steps.sort()
            print(f"{origin:46}{len(steps):5} times, {sum(1 for s in steps if s == 0)} without any; median "
                  f"{steps[len(steps) // 2]}, most {steps[-1]}")
        if self.never > max(3, self.total() // 10):
            self.problems.append("too many states were not reached")
        for name, count in self.misses.items():
            if count >= 5 and not any(self.hits[(*column, name)] for column in self.states):
                self.problems.append(f"{name}: {count} times there was nobody to do it to, and never anybody")
        if self.problems:
            print("\nproblems\n" + "\n".join(self.problems))
        print(f"\n{self.jobs} jobs; {self.missed} times there was nobody to do it to, {self.never} times a state was not reached; "
              f"{self.excused} times much was lost with what had kept it; "
              f"{len(self.problems)} problems")
        print(f"{sum(1 for cell in self.cells if self.hits[cell])} of {len(self.cells)} faults in a state were struck at least once")
        print(f"{self.total()} faults, {len(struck)} of {len(self.states)} states struck, {self.lost} jobs lost, {self.hung} hung, "
              f"{sum(sum(steps) for steps in self.again.values())} steps lost, {self.leaks} leaks, "
              f"Slurm healed {self.healed} times", flush=True)
