"""known.py OUTPUT: how soon a job is planned on measured coefficients, whether a restart of espalierd forgets them, and
whether a second job like the first starts on more devices than its own.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

from box_jobs import box, decisions, end, of_job, say, steps, train, wait_for

output = pathlib.Path(sys.argv[1])
figures = {}
SECTIONS = {
    "model": {"layers": 8, "hidden": 32, "heads": 4, "sequence": 32, "vocabulary": 256},
    "training": {"steps": 60, "global_batch": 8, "micro_batches": 4, "learning_rate": 1e-3},
    "device": {"gflops": 0.3},
}
OPTIONS = ["-N1", "-n1", "-w", "n1", "--gres=gpu:2"]


def planner(word):
    subprocess.run([os.environ["BOX_HERE"] + "/planner.sh", word], check=True)


first = train("first", "2:2", OPTIONS, SECTIONS | {"training": SECTIONS["training"] | {"steps": 100000}})
wait_for(180, "the first job is measured", lambda: of_job(first).get("coefficients_settled"))
log = (box / "log/espalierd.log").read_text()
step = int(re.search(rf"job {first}: measured after step (\d+) ", log).group(1))
figures["steps_until_measured"] = step
figures["seconds_until_measured"] = sum(s["seconds"] for s in steps("first")[:step])
before = of_job(first)["coefficients"]
planner("kill")
planner("start")
after = wait_for(60, "espalierd knows the job again", lambda: of_job(first).get("coefficients"))
figures["same_coefficients_after_restart"] = before == after
end(first)

second = train("second", "2:4", OPTIONS, SECTIONS | {"training": SECTIONS["training"] | {"steps": 100000}})
wait_for(120, "the second job trains", lambda: steps("second"))
figures["second_job_starts_wide"] = steps("second")[0]["gpus"] > 2
say(str(figures))
if not figures["second_job_starts_wide"]:
    say("\n".join(d["reason"] for d in decisions(second)))
end(second)
output.write_text(json.dumps(figures))
