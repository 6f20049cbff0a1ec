#!/bin/bash
# Stands where espalier-launch would be, and shows what the plugin hands to it: argv, environment, who is launcher and keeper.
task=$ESPALIER_TASK program=$ESPALIER_PROGRAM
unset ESPALIER_TASK ESPALIER_PROGRAM
echo "task $SLURM_PROCID is $task of $program:$(printf ' [%s]' "$@")"
echo "min=$ESPALIER_MIN max=$ESPALIER_MAX accuracy=$ESPALIER_ACCURACY deadline=$ESPALIER_DEADLINE active=${ESPALIER_ACTIVE/%"$SLURM_JOB_ID"/job}"
case $task in
  run) "$program" "$@" ;;
  keeper) trap 'echo "keeper $SLURM_PROCID ends"; exit 0' HUP; while :; do read -rt 0.1 <> <(:); done ;;
esac
