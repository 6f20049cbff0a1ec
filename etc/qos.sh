#!/bin/sh
# A QOS for extensions, for a site with slurmdbd. Run it once, as a Slurm administrator, and set in espalier.toml:
#   [extensions]
#   qos = "espalier"
# Where PreemptType is preempt/partition_prio this only makes extensions cost nothing and bounds them. Where it is
# preempt/qos, the last command also says who may take extensions back. There, name every QOS that jobs wait with:
# Espalier lends no GPU that a job of another QOS waits for.
set -e
# It may be there already: slurm.conf beside this file names it as the partition's QOS, too.
[ -n "$(sacctmgr -nP show qos espalier format=name)" ] || sacctmgr -i add qos espalier
# It is for extensions alone: name it in the DenyQos of every other partition in slurm.conf (PartitionName=main ...
# DenyQos=espalier). Where a partition has AllowQos, Slurm does not look at DenyQos: leave espalier out of AllowQos there.
# Elsewhere users would be charged nothing for ordinary jobs, either. `espalier doctor` names partitions that let it in.
# Extensions are not charged (UsageFactor), may be ended within 30 s (GraceTime), and one user has at most 64 of their GPUs.
sacctmgr -i modify qos espalier set UsageFactor=0 PreemptMode=cancel GraceTime=00:00:30 MaxTRESPerUser=gres/gpu=64 Flags=DenyOnLimit
# Every account may use it.
sacctmgr -i modify account root set QOS+=espalier
sacctmgr -i modify qos normal set Preempt+=espalier
