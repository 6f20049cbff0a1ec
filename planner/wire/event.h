/* The one-datagram events of slurmctld and slurmd plugins. C-safe: no allocation, no dependency.
 *
 * Text of at most ESPALIER_EVENT_MAX bytes: "ESP1 NAME key=value key=value". Over the planner's local datagram socket
 * as it is (the kernel names the sender); over UDP as the payload of a MUNGE credential. Accepted from root and
 * SlurmUser only. The planner learns by polling what a lost datagram did not tell it.
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
