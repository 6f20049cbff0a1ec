"""compare.py FOLDER ESPALIER: the mix that ran (mix.py) once more in the simulator, with what was measured in the run, and how far
the two are apart. Writes the simulator's inputs, its output (simulated.json) and the comparison (comparison.md) into FOLDER.
"""
import json
import pathlib
import statistics
import subprocess
import sys
from datetime import datetime

BATCH_SCHED = 3  # seconds: Slurm's batch_sched_delay, of which the box says nothing

folder, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
real = json.loads((folder / "real.json").read_text())
jobs = real["jobs"]
by_id = {job["id"]: job for job in jobs}
begin = jobs[0]["submitted"]
committed = [d for d in real["decisions"] if d["outcome"].startswith("committed") and d["job"] in by_id]


def mean(values, default=0.0):
    values = list(values)
    return statistics.fmean(values) if values else default


def running(job):
    """When the launcher let the first generation train."""
    return next(time for time, _, _, target, _ in job["transitions"] if target == "running")


# --- what was measured --------------------------------------------------------------------------------------------------
def started(decision):
    """Until all of the next generation are ready, in seconds, from when it has its GPUs; the job trains, and after it to the
    end of the step at hand."""
    moments = decision["moments"]
    return moments.get("proposed", moments["decided"]) - moments["decided"] + decision["phases_ms"].get("start", 0) / 1000


def gpus_of(plan):
    return sum(len(replica["gpus"]) for stage in plan["stages"] for replica in stage["replicas"])


def released(job):
    """The last release of GPUs that a job can have waited for; None: it waited for nothing that ended."""
    releases = [other["ended"] for other in jobs]
    releases += [d["moments"]["finished"] - d["phases_ms"]["first_step"] / 1000 for d in committed if d["kind"] == "shrink"]
    return max((time for time in releases if job["submitted"] < time < job["started"]), default=None)


def looked_at_soon(job):
    """Whether Slurm could look at it at once: it had not just looked because of another new job."""
    looks = [other["started"] for other in jobs if other["submitted"] < job["submitted"] and released(other) is None]
    return not looks or job["submitted"] - max(looks) > BATCH_SCHED


def settled_after(job, at):
    """For how many steps its plan of then had been trained, in a job whose profiles came to agree."""
    moment = datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%f").timestamp()
    generation = [(time, name) for time, _, _, target, name in job["transitions"] if target == "running" and time <= moment][-1]
    seconds = [step["seconds"] for step in job["metrics"] if step["generation"] == generation[1]]
    return (moment - generation[0]) / statistics.median(seconds)


profiled_after = mean((job["profiled"] - running(job)) / job["metrics"][0]["seconds"] for job in jobs if job["profiled"])
settled = [settled_after(by_id[int(job)], at) for at, job in real["settled"] if int(job) in by_id]
start = statistics.linear_regression([gpus_of(d["plan"]) for d in committed], [started(d) for d in committed])
if start.intercept < 0:
    start = statistics.linear_regression([gpus_of(d["plan"]) for d in committed], [started(d) for d in committed], proportional=True)
measured = {
    "queue": mean(job["started"] - job["submitted"] for job in jobs if released(job) is None and looked_at_soon(job)),
    "release": mean(job["started"] - released(job) for job in jobs if released(job) is not None),
    "launch": mean(running(job) - job["started"] for job in jobs),
    "end": mean(job["ended"] - job["last_step"] for job in jobs),
    # Until Slurm has granted a growth's extensions.
    "acquire": mean(d["phases_ms"]["acquire"] / 1000 for d in committed if d["kind"] == "grow"),
    "overlap": start.intercept,
    "overlap a GPU": start.slope,
    "pause": mean(d["pause_ms"] / 1000 for d in committed),
}
steps = {
    "profile": profiled_after,
    # Where profiles never agreed, nobody knew coefficients.
    "settle": mean(settled) - profiled_after if settled else 1e6,
}

# --- the simulator's inputs ---------------------------------------------------------------------------------------------
network = [line.split(".", 1)[1] for line in (folder / "espalier.toml").read_text().splitlines()
           if line.startswith("network.")]
(folder / "cluster.toml").write_text(f"""# Written by compare.py, of what the run showed.
{''.join(f'''[[nodes]]
name = "n{n}"
gpus = 4
gpu_type = "h100"
switches = ["spine", "leaf{n}"]
''' for n in (1, 2))}[network]
{chr(10).join(network)}
[slurm]
queue_seconds = {measured['queue']:.3f}
batch_sched_seconds = {BATCH_SCHED}
release_seconds = {measured['release']:.3f}
acquire_seconds = {measured['acquire']:.3f}
preempt = "oldest"
launch_seconds = {measured['launch']:.3f}
end_seconds = {measured['end']:.3f}
[redeploy]
profile_seconds = 0
profile_steps = {steps['profile']:.2f}
settle_steps = {steps['settle']:.2f}
[redeploy.adopt]
overlap_seconds = {measured['overlap']:.3f}
overlap_seconds_per_gpu = {measured['overlap a GPU']:.3f}
pause_seconds = {measured['pause']:.4f}
""")
kinds = {}
for job in jobs:  # of each kind the last job, or the last whose profiles agreed
    said = json.loads((folder / f"job-{job['name']}.json").read_text())["job"]
    if said["coefficients_settled"] or job["kind"] not in kinds or not kinds[job["kind"]][1]:
        kinds[job["kind"]] = (job["name"], said["coefficients_settled"])
(folder / "jobs.toml").write_text("".join(f'[[jobs]]\nmodel = "{kind}"\nmeasured = "job-{name}.json"\n'
                                          for kind, (name, _) in sorted(kinds.items())))
gpus = {job["id"]: job["metrics"][0]["gpus"] for job in jobs}
(folder / "trace.csv").write_text("id,submit,seconds,gpus,model,steps\n" + "".join(
    f"{job['name']},{job['submitted'] - begin:.3f},{job['ended'] - job['started']:.3f},{gpus[job['id']]},{job['kind']},{job['steps']}\n"
    for job in jobs))
simulated = json.loads(subprocess.run(
    [tool, "simulate", "--cluster=cluster.toml", "--trace=trace.csv", "--jobs=jobs.toml", "--config=espalier.toml",
     "--policy=fifo,espalier", "--json", "--quiet"], cwd=folder, check=True, capture_output=True, text=True).stdout)
(folder / "simulated.json").write_text(json.dumps(simulated, indent=2) + "\n")
fifo, espalier = ({one["trace_id"]: one for one in policy["job_list"]} for policy in simulated["policies"])

# --- the comparison -----------------------------------------------------------------------------------------------------
lines = []


def tell(text=""):
    lines.append(text)
    print(text)


def percent(there, here):
    return f"{100 * (there - here) / here:+.1f}%"


tell("| job | GPUs | steps | JCT real, s | simulated | gap | waited real / simulated | most GPUs | changes | fifo (simulated) |")
tell("|---|---|---|---|---|---|---|---|---|---|")
rows = []
for job in jobs:
    one, alone = espalier[job["name"]], fifo[job["name"]]
    jct, there = job["ended"] - job["submitted"], one["end_s"] - one["submit_s"]
    rows.append((jct, there, alone["end_s"] - alone["submit_s"]))
    changes = sum(d["job"] == job["id"] for d in committed)
    most = max(step["gpus"] for step in job["metrics"])
    tell(f"| {job['name']} | {gpus[job['id']]} | {job['steps']} | {jct:.1f} | {there:.1f} | {percent(there, jct)} | "
         f"{job['started'] - job['submitted']:.1f} / {one['start_s'] - one['submit_s']:.1f} | {most} / {one['most_gpus']} | "
         f"{changes} / {one['redeployments']} | {rows[-1][2]:.1f} |")
averages = [mean(row[i] for row in rows) for i in range(3)]
tell(f"| average | | | {averages[0]:.1f} | {averages[1]:.1f} | {percent(averages[1], averages[0])} | | | "
     f"{len(committed)} / {sum(one['redeployments'] for one in espalier.values())} | {averages[2]:.1f} |")
tell(f"\nmean of the jobs' absolute gaps: {mean(100 * abs(b - a) / a for a, b, _ in rows):.1f}%")
tell("measured: " + ", ".join(f"{key} {value:.2f} s" for key, value in measured.items())
     + "; " + ", ".join(f"{key} {value:.1f} steps" for key, value in steps.items()))

tell("\nthe median step of each plan:")
plans = {}
for job in jobs:
    for step in job["metrics"][1:]:
        plans.setdefault((job["kind"], step["plan"].split(" | ")[0] + " | " + step["plan"].split(" | ")[1]), []).append(step["seconds"])
for (kind, plan), seconds in sorted(plans.items()):
    if len(seconds) >= 4:
        tell(f"  {kind:7} {plan:40} {statistics.median(seconds):7.3f} s  ({len(seconds)} steps)")
tell("\ndecisions of the run:")
for d in committed:
    tell(f"  {d['moments']['decided'] - begin:6.1f} s  {by_id[d['job']]['name']:3} {d['kind']:8} to {gpus_of(d['plan'])} GPUs, "
         f"predicted {d['predicted_step_seconds']:.3f} s, measured {d['measured_step_seconds']:.3f} s; started in {started(d):.2f} s, pause {d['pause_ms']:.0f} ms")
(folder / "comparison.md").write_text("\n".join(lines) + "\n")
