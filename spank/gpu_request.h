/* How many GPUs a job description asks for, from Slurm's TRES strings ("gres:gpu:h100:2", "gres/gpu=4", "gpu:1,nic:2").
 * Pure: no allocation, no I/O; safe in any thread. */
#ifndef ESPALIER_SPANK_GPU_REQUEST_H
#define ESPALIER_SPANK_GPU_REQUEST_H

#ifdef __cplusplus
extern "C" {
#endif

/* GPUs in one TRES string (NULL: none), of all types together; at most ESPALIER_GPUS_LIMIT. */
long espalier_gpus_in(const char* tres);

struct espalier_shape {
  const char *per_job, *per_node, *per_socket, *per_task; /* TRES strings or NULL */
  long nodes, tasks, sockets_per_node;                    /* 0: not given */
};

/* The whole request. `*exact` is 0 when Slurm will derive the number later (per socket without sockets): the result is
 * then the least it can be. */
long espalier_gpus_requested(const struct espalier_shape* shape, int* exact);

#ifdef __cplusplus
}
#endif

#endif
