# A PyTorch script with a package that is older or newer than the launcher: fields that are missing or unknown change nothing, and another
# version of the protocol is refused in words. The forms are tests/python/versions.py's.
# box: -n 2 -e 'planner.cooldown_seconds = 1' -e 'planner.poll_seconds = 1' -e 'planner.log_level = "debug"' -e 'launch.start_seconds = 120' -e 'launch.protocol_seconds = 120'
# beside
# limit: 1500
# each: 500

setup_file() { . "$BOX_HERE/pytorch.bash"; set_up_python; python_reference 3000; }
setup() { . "$BOX_HERE/pytorch.bash"; use_python_itself; script=versions.py; }
teardown() { clean_slate; }

form() { python_environment+=(ESPALIER_TEST_FORM="$1"); }
grows_and_loses_a_worker() {
  local generation
  python_cast 2:4
  finish near
  wait_for 300 "A runs on 4 GPUs" runs_on A 4
  wait_for 100 "it does 20 steps there" stepped_past A $(($(step_of A) + 20))
  as_user espalier hold "$A"
  generation=$(metric A generation)
  kill -KILL "$(processes python3 "ESPALIER_GENERATION=$generation" | head -n 1)"
  wait_for 300 "A trains in another generation" eval '[ "$(metric A generation)" -gt '"$generation"' ]'
  python_goes_on_well
}

# bats test_tags=long:4
@test "a package that is older than the launcher: it grows, loses a worker, and goes on" {
  form older-package,newer-launcher
  grows_and_loses_a_worker
  for said in older-package newer-launcher; do grep -q "versions: $said" "$BOX/home/A.out"; done
}

# bats test_tags=long:2
@test "a package that is newer than the launcher: it grows, loses a worker, and goes on" {
  form newer-package,older-launcher
  grows_and_loses_a_worker
  for said in newer-package older-launcher; do grep -q "versions: $said" "$BOX/home/A.out"; done
}

@test "another version of the protocol is refused in words, and the job ends with an error" {
  for version in 1 3; do
    rm -f "$BOX"/home/A.*
    python_environment=("${python_environment[@]/ESPALIER_TEST_FORM=*/}")
    form protocol-$version
    A=$(pytorch A 2:4 -N1 -n1 -w n1 --gres=gpu:2 -- --steps 100)
    wait_for 200 "A has ended" job_over "$A"
    grep -q "the launcher speaks protocol version 2, this package $version; install the package of the launcher's Espalier" "$BOX/home/A.out"
    [ "$(exit_code "$A")" != 0:0 ]
    [ ! -s "$BOX/home/A.jsonl" ]
    leaves_nothing 60
  done
}
