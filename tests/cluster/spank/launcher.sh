#!/bin/bash
# Stands where espalier-launch would be, and shows what the plugin hands to it: argv, environment, who is launcher and keeper.
if [ -n "${ESPALIER_TASK:-}" ]; then
  task=$ESPALIER_TASK program=$ESPALIER_PROGRAM
else # from Slurm 23.11 on
  task=$1 program=$3
  shift 3
fi
unset ESPALIER_TASK ESPALIER_PROGRAM
echo "task $SLURM_PROCID is $task of $program:$(printf ' [%s]' "$@")"
echo "min=$ESPALIER_MIN max=$ESPALIER_MAX accuracy=$ESPALIER_ACCURACY deadline=$ESPALIER_DEADLINE active=${ESPALIER_ACTIVE/%"$SLURM_JOB_ID"/job}"
case $task in
  run) "$program" "$@" ;;
  keeper) # slow to listen, as on a busy node: a signal that comes before must not be lost, and not kill
    sleep 0.3
    exec python3 -c 'import os, signal; signal.sigwait({signal.SIGHUP}); print("keeper", os.environ["SLURM_PROCID"], "ends")' ;;
esac
