# Every bad --elastic is refused where it is typed, with one clear message, and changes nothing.
# box: -n 2 -d -c SchedulerParameters=bf_interval=1
# beside
load spank/common

setup_file() { load spank/common; setup_spank; }
setup() { before=$(next_job_id); }
teardown() { scancel -u boxuser; }

# refused TEXT COMMAND...: the command fails, says TEXT, and no job came to be.
refused() {
  local text=$1; shift
  run as_user timeout 20 "$@"
  echo "$output"
  [ "$status" -ne 0 ]
  [ "$status" -ne 124 ]
  [[ $output == *"espalier: elastic: "*"$text"* ]]
  [ "$(grep -c 'espalier:' <<< "$output")" = 1 ]
  [ "$(next_job_id)" = "$before" ]
}
refused_everywhere() { # VALUE TEXT
  refused "\"$1\": $2" srun --gres=gpu:2 --elastic="$1" true
  refused "\"$1\": $2" sbatch --gres=gpu:2 --elastic="$1" --wrap true
  refused "\"$1\": $2" salloc --gres=gpu:2 --elastic="$1" true
}

@test "8:4: MAX below MIN" { refused_everywhere 8:4 "MAX is below MIN; write --elastic=MIN:MAX"; }
@test "abc: not MIN:MAX" { refused_everywhere abc "not MIN:MAX; write --elastic=MIN:MAX"; }
@test "0: not MIN:MAX" { refused_everywhere 0 "not MIN:MAX; write --elastic=MIN:MAX"; }
@test "-1:4: MIN is no number of GPUs" { refused_everywhere -1:4 "MIN is not a number of GPUs"; }
@test "4:x: MAX is no number of GPUs" { refused_everywhere 4:x "MAX is not a number of GPUs"; }
@test "an unknown key" { refused_everywhere 2:8,colour=red "unknown key"; }
@test "an unknown accuracy" { refused_everywhere 2:8,accuracy=good "the accuracy is neither bitwise nor relaxed"; }
@test "a deadline that is no time" { refused_everywhere 2:8,deadline=tomorrow "the deadline is not a time"; }
@test "a deadline that is over" { refused_everywhere 2:8,deadline=2020-02-29T12:00 "the deadline is over already; give a later deadline, or leave deadline= out"; }
@test "a deadline is over by the time zone of who submits, and a step of a job that runs is not refused for it" {
  local soon
  soon=$(TZ=UTC date -d "+1 hour" +%Y-%m-%dT%H:%M)
  TZ=UTC-6 refused "the deadline is over already" sbatch --gres=gpu:2 --elastic="2:8,deadline=$soon" --wrap true
  refused "the deadline is over already" srun --gres=gpu:2 --elastic=2:8,deadline=2020-02-29T12:00 echo --jobid=99999
  TZ=UTC as_user sbatch --gres=gpu:2 --hold --elastic="2:8,deadline=$soon" --wrap true
  run as_user env SLURM_JOB_ID=99999 timeout 20 srun --elastic=2:8,deadline=2020-02-29T12:00 true
  echo "$output"
  [[ $output != *"the deadline is over already"* ]]
  # The same from a shell outside of the job.
  run as_user timeout 20 srun --jobid=99999 --elastic=2:8,deadline=2020-02-29T12:00 true
  echo "$output"
  [[ $output != *"the deadline is over already"* ]]
}
@test "a deadline that is over is for the launcher to judge where the site only warns" {
  plugstack late_deadlines=warn
  run as_user sbatch --hold --gres=gpu:2 --elastic=2:8,deadline=2020-02-29T12:00 --wrap true
  echo "$output"
  plugstack
  [ "$status" -eq 0 ]
}
@test "more than the site allows" { refused_everywhere 2:17 "17 GPUs are above this site's limit of 16; ask for less"; }
@test "a default of the environment is checked like the option" {
  SLURM_SPANK__SLURM_SPANK_OPTION_espalier_elastic=8:4 refused "MAX is below MIN" srun --gres=gpu:2 true
}

@test "no GPUs requested" {
  refused "no GPUs requested; add --gres=gpu:N" srun --elastic=2:8 true
  refused "no GPUs requested; add --gres=gpu:N" sbatch --elastic --wrap true
  refused "no GPUs requested; add --gres=gpu:N" salloc --elastic=2:8 true
}

@test "MIN above the request, however GPUs are requested" {
  refused "MIN is 4, but the job requests 2 GPUs" srun --gres=gpu:2 --elastic=4:8 true
  refused "MIN is 4, but the job requests 2 GPUs" sbatch --gpus=2 --elastic=4:8 --wrap true
  refused "MIN is 4, but the job requests 3 GPUs" salloc --gres=gpu:h100:3 --elastic=4:8 true
  refused "MIN is 5, but the job requests 4 GPUs" sbatch -N2 --gpus-per-node=2 --elastic=5:8 --wrap true
  refused "MIN is 5, but the job requests 4 GPUs" sbatch -n4 --gpus-per-task=1 --elastic=5:8 --wrap true
  refused "MIN is 3, but the job requests 2 GPUs" sbatch -n8 --ntasks-per-gpu=4 --elastic=3:8 --wrap true
  refused "MIN is 3, but the job requests 2 GPUs" sbatch -N2 --ntasks-per-gpu=4 --elastic=3:8 --wrap true
}

@test "MAX below the request" {
  refused "MAX is 3, but the job requests 4 GPUs" sbatch -N2 --gres=gpu:2 --elastic=2:3 --wrap true
}

@test "a script inside a container of Slurm's own" {
  refused "--container puts the script into a container" sbatch --container=/bundle --gres=gpu:2 --elastic=2:8 --wrap true
}

@test "heterogeneous jobs" {
  refused "heterogeneous jobs cannot be elastic" srun --elastic=1:2 --gres=gpu:1 true : --gres=gpu:1 true
  refused "heterogeneous jobs cannot be elastic" sbatch --elastic=1:2 --gres=gpu:1 : --gres=gpu:1 --wrap true
  refused "heterogeneous jobs cannot be elastic" salloc --elastic=1:2 --gres=gpu:1 : --gres=gpu:1 true
}

@test "inside an allocation the step is refused, and the allocation goes on" {
  run as_user salloc -Q --gres=gpu:2 bash -c 'srun --elastic=4:8 true; srun --elastic=1:1 true; srun echo still here'
  [[ $output == *'espalier: elastic: "4:8": MIN is 4, but the job requests 2 GPUs'* ]]
  [[ $output == *'espalier: elastic: "1:1": MAX is 1, but the job requests 2 GPUs'* ]]
  [[ $output == *'still here'* ]]
  run as_user salloc -Q bash -c 'srun --elastic=2:8 true; srun echo still here'
  [[ $output == *'espalier: elastic: "2:8": no GPUs requested'* ]]
  [[ $output == *'still here'* ]]
  run as_user salloc -Q --gres=gpu:1 : --gres=gpu:1 bash -c 'srun --elastic=1:8 true; srun echo still here'
  [[ $output == *'espalier: elastic: "1:8": heterogeneous jobs cannot be elastic'* ]]
  [[ $output == *'still here'* ]]
}

@test "a bad comment of a submission without SPANK is refused, an extension's own is not read" {
  refused "MAX is below MIN" sbatch --gres=gpu:2 --comment=espalier:8:4 --wrap true
  refused "MIN is 4, but the job requests 2 GPUs" sbatch --gres=gpu:2 --comment=espalier:4:8 --wrap true
  completed -o /dev/null --comment=espalier:ext:12:abcdef --wrap true
  completed -o /dev/null --comment='espalier is nice' --wrap true
}

@test "--help tells of the option" {
  for command in srun sbatch salloc; do as_user "$command" --help | grep -q -- '--elastic'; done
}
