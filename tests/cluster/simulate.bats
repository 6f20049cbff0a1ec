# Simulations that ask a live Slurm.
# box: none
# beside

cd "$BATS_TEST_DIRNAME/../.."

@test "simulate --cluster=slurm: the nodes and GPUs of this cluster, whoever uses them" {
  run tests/cluster/box.sh -p -n 3 -g 4 bash -c '
    . "$BOX_HERE/jobs.bash"
    as_user sbatch -o /dev/null -N1 --gres=gpu:2 --wrap "sleep 60" > /dev/null
    "$BUILD/bin/espalier" simulate --cluster=slurm --trace=examples/simulate/trace.csv --policy=fifo --quiet'
  echo "$output"
  [ "$status" -eq 0 ]
  [[ "$output" == *"slurm: 3 nodes, 12 GPUs. "* ]]
}
