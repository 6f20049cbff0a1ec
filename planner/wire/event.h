/* Events of the slurmctld and slurmd plugins, one datagram each. This header is plain C: no
 * allocation, no dependency.
 *
 * An event is text of at most ESPALIER_EVENT_MAX bytes: "ESP1 NAME key=value key=value". Over
 * the planner's local datagram socket it is sent as it is, and the kernel names the sender. Over
 * UDP it is the payload of a MUNGE credential. The planner accepts events only from root,
 * SlurmUser and its own user. It learns by polling what a lost datagram would have told.
 *
 *   job_submitted uid=U gpus=N nodes=N elastic=0|1     from job_submit, local datagram
 *   gpus_released job=J node=NAME gpus=0,1 exit=CODE   from slurmd's epilog, UDP
 */
#ifndef ESPALIER_WIRE_EVENT_H
#define ESPALIER_WIRE_EVENT_H

#define ESPALIER_EVENT_MAX 1024
#define ESPALIER_EVENT_MAGIC "ESP1"
#define ESPALIER_DEFAULT_PORT 7321       /* TCP streams and UDP events of espalierd */
#define ESPALIER_RUN_DIR "/run/espalier" /* control.sock (stream), events.sock (datagram) */
#define ESPALIER_CONFIG "/etc/espalier/espalier.toml"

#endif
