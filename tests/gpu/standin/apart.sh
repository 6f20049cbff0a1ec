#!/bin/bash
# apart.sh PROGRAM LIBRARIES: inside a box of one node with two GPUs. A job of both tries other plans, for which state changes its
# GPU. PROGRAM runs with the stand-ins of the folder LIBRARIES, whose GPUs do not reach each other.
set -euo pipefail
. "$BOX_HERE/jobs.bash"
cp -r "$2" "$BOX/share/standin"
cp "$1" "$BOX/share/trainer"
printf '#!/bin/bash\nexport STANDIN_GPUS=2 STANDIN_PEERS=none LD_LIBRARY_PATH=%s:%s\nexec %s "$@"\n' \
  "$BOX/share/standin" "$LD_LIBRARY_PATH" "$BOX/share/trainer" > "$BOX/share/apart-train"
chmod -R a+rX "$BOX/share" && chmod a+x "$BOX/share/apart-train"
sizes=(--set model.hidden=64 --set training.accuracy='"relaxed"' --data "$BOX/share/text" --set profile.every=5)
as_user tee "$BOX/home/A.sh" > /dev/null << J
#!/bin/bash
srun --elastic=2:2 $BOX/share/apart-train $BOX/share/examples/gpt-tiny.toml --metrics $BOX/home/A.jsonl ${sizes[@]@Q} --steps 100000
J
A=$(as_user sbatch --parsable -J A -o "$BOX/home/A.out" -N1 -n1 --gres=gpu:2 "$BOX/home/A.sh")
wait_for 120 "A trains" eval 'stepped_past A 5 || job_over "$A"'
wait_for 120 "A's trials of plans are over" eval 'grep -q "job $A: [0-9]* plans were measured" "$BOX/log/espalierd.log" || job_over "$A"'
last=$(step_of A)
wait_for 60 "A does 5 more steps" eval 'stepped_past A $((last + 5)) || job_over "$A"'
as_user scancel "$A"
wait_for 60 "A is over" job_over "$A"
cat "$BOX/home/A.out" "$BOX/log/espalierd.log"
