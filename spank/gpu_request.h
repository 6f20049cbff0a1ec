/* Counts the GPUs of a job description from Slurm's TRES strings, e.g. "gres:gpu:h100:2",
 * "gres/gpu=4" or "gpu:1,nic:2". Pure: no allocation, no I/O. Safe in any thread. */
#ifndef ESPALIER_SPANK_GPU_REQUEST_H
#define ESPALIER_SPANK_GPU_REQUEST_H

#ifdef __cplusplus
extern "C" {
#endif

/* GPUs of all types in one TRES string (NULL: none). At most ESPALIER_GPUS_LIMIT. */
long espalier_gpus_in(const char* tres);

/* What is wrong with `tres` for an elastic job that needs whole GPUs: it asks for shards, MPS shares or MIG slices.
 * NULL: nothing. */
const char* espalier_gpu_parts_in(const char* tres);

struct espalier_shape {
  const char *per_job, *per_node, *per_socket, *per_task; /* TRES strings or NULL */
  long nodes, tasks, sockets_per_node, tasks_per_gpu;     /* 0: not given */
};

/* GPUs of the whole request. Where no GPUs are named, --ntasks-per-gpu asks for some. `*exact` is 0 when Slurm derives
 * the number later, because GPUs are given per socket without a number of sockets. The result is then the least
 * possible number. */
long espalier_gpus_requested(const struct espalier_shape* shape, int* exact);

#ifdef __cplusplus
}
#endif

#endif
