#!/bin/bash
# story.sh FOLDER: the story, told inside a box. Leaves its facts in FOLDER for report.py.
set -euo pipefail
demo=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../../tests/cluster/box/jobs.bash
. "$BOX_HERE/jobs.bash"
# shellcheck source=telling.bash
. "$here/telling.bash"
measured() { espalier show job "$1" --json | grep -q '"coefficients_settled": *true'; }
preempted() { scontrol show job "$1" | grep -q 'PreemptTime=[0-9]'; }
keep() { cp "$BOX/home/$1".* "$demo/"; }

{ readlink /proc/self/ns/pid; for node in /run/netns/*; do nsenter --net="$node" readlink /proc/self/ns/net; done; } > "$demo/namespaces"
tell "slurmctld, $BOX_NODES slurmd with $BOX_GPUS fake GPUs each, munge and espalierd are up"

as_user cp "$here/train.toml" "$BOX/share/text" .
steps=${DEMO_STEPS:-180}

# 1. A trains on two GPUs while plain jobs hold all others.
B=$(plain B -N3 --ntasks-per-node=1 -w n1,n2,n3 --gres=gpu:2)
F=$(plain F -N2 --ntasks-per-node=1 -w n2,n3 --gres=gpu:2)
G=$(plain G -N1 -n1 -w n4 --gres=gpu:4)
as_user tee A.sh > /dev/null <<S
#!/bin/bash
srun --elastic=2:8 espalier-train train.toml --steps $steps --metrics A.jsonl
S
A=$(as_user sbatch --parsable -J A -o A.out -N1 -n1 -w n1 --gres=gpu:2 A.sh)
tell "A (job $A) is submitted with srun --elastic=2:8; plain jobs B ($B), F ($F), G ($G) hold the other 14 GPUs"
must 60 "A trains" stepped_past A 5
head -n 1 /proc/stat > "$demo/cpu"
watch_progress A "$steps"
tell "A trains on 2 GPUs of n1"
must 60 "A has a rhythm" stepped_past A 12
must 60 "A is planned by what was measured" measured "$A"
tell "the planner has measured A: its coefficients agree"

# 2. B ends: its GPUs, two of them on A's own node, go to A.
finish B
tell "B ends and releases 6 GPUs on n1, n2 and n3"
must 60 "A runs on 8 GPUs" runs_on A 8
extensions_of "$A" | xargs -I{} squeue -h -j {} -o '%N' | sort | xargs > "$demo/extension_nodes"
tell "A runs on 8 GPUs, with extensions on $(cat "$demo/extension_nodes")"
must 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))

# 3. C arrives and needs GPUs.
C=$(plain C -N2 --ntasks-per-node=1 --gres=gpu:2)
submitted=$EPOCHREALTIME
tell "C (job $C) arrives and needs 2 GPUs on each of 2 nodes"
must 60 "C starts" job_is "$C" RUNNING
awk -v from="$submitted" -v to="$EPOCHREALTIME" 'BEGIN { print to - from }' > "$demo/wait_of_c"
must 60 "A runs on 4 GPUs" runs_on A 4
tell "A has shrunk to 4 GPUs, C runs"
must 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))

# 4. The planner dies; D arrives; Slurm alone preempts, A shrinks by itself.
"$BOX_HERE/planner.sh" kill
tell "espalierd is killed with SIGKILL"
extension=$(extensions_of "$A")
D=$(plain D -N1 -n1 --gres=gpu:2)
tell "D (job $D) arrives and needs 2 GPUs; there is no planner"
must 60 "Slurm preempts the extension" preempted "$extension"
echo "$extension" >> "$demo/preempted"
tell "Slurm preempts A's extension (SIGTERM, GraceTime 30 s)"
must 60 "A runs on 2 GPUs" runs_on A 2
tell "A has shrunk by itself to 2 GPUs"
must 60 "D starts" job_is "$D" RUNNING
tell "D starts"
must 60 "A does 20 steps there" stepped_past A $(($(step_of A) + 20))
"$BOX_HERE/planner.sh" start
tell "espalierd is started again"
finish C
tell "C ends and releases 4 GPUs"
must 60 "A runs on more than 2 GPUs again" eval '[ "$(gpus_of A)" -gt 2 ]'
tell "the planner has decided again: A runs on $(gpus_of A) GPUs"

# 5. The end.
must 60 "A does 10 steps there" stepped_past A $(($(step_of A) + 10))
espalier show job "$A" -o > "$demo/show-job"
espalier show job "$A" --json > "$demo/job.json"
must 200 "A finishes" job_over "$A"
stop_watching
tell "A has finished"
keep A
espalier show decisions > "$demo/show-decisions"
espalier show decisions --json > "$demo/decisions.json"
for job in D F G; do finish $job; done
must 30 "the plain jobs are over" eval '[ -z "$(squeue -h)" ]'
wait_for 5 "nothing of the jobs is left" nothing_left || true
leaked_jobs > "$demo/leaked_jobs"
{ leaked_processes; leaked_objects; } > "$demo/leaked_processes"
tell "looked for jobs, processes, sockets and shared memory that were left behind"

# 6. The same training without elasticity on the same two GPUs, at full speed; and one whose tensor parallelism may change: with
# two samples a step there are two replicas at most.
baseline=$(as_user sbatch --parsable -J baseline -o baseline.out -N1 -n2 -w n1 --gres=gpu:2 --wrap \
  "mpirun --oversubscribe --bind-to none -np 2 espalier-train train.toml --set device.gflops=0 --steps $steps --metrics baseline.jsonl")
must 200 "the run without elasticity is over" job_over "$baseline"
keep baseline
tell "the same training has run on A's first 2 GPUs without elasticity"
relaxed="--set training.global_batch=2 --set training.micro_batches=2 --set training.accuracy=relaxed"
as_user tee R.sh > /dev/null <<S
#!/bin/bash
srun --elastic=2:4,accuracy=relaxed espalier-train train.toml $relaxed --set device.gflops=0.5 --steps 100000 --metrics R.jsonl
S
H=$(plain H -N1 -n1 -w n1 --gres=gpu:2)
R=$(as_user sbatch --parsable -J R -o R.out -N1 -n1 -w n1 --gres=gpu:2 R.sh)
must 60 "R trains" stepped_past R 10
finish H
must 100 "R runs on 4 GPUs" runs_on R 4
must 60 "R does 20 steps there" stepped_past R $(($(step_of R) + 20))
espalier show decisions --job "$R" --json > "$demo/decisions-R.json"
as_user scancel "$R"
must 30 "R is gone" nothing_left
head -n 1 /proc/stat >> "$demo/cpu"
keep R
done_by_r=$(wc -l < "$demo/R.jsonl")
as_user mpirun --oversubscribe --bind-to none -np 1 espalier-train train.toml $relaxed --set device.gflops=0 \
  --set training.minimum_learning_rate=2e-4 --steps 100000 --metrics alone.jsonl > "$BOX/log/alone.log" 2>&1 &
alone=$!
must 60 "the same training as R's, alone, has come as far" stepped_past alone "$done_by_r"
kill "$alone"
wait "$alone" || true
keep alone
tell "R (job $R), allowed to change tensor parallelism, has grown to 4 GPUs and done 20 more steps"
echo "$steps" > "$demo/steps"
