/* Containers that Slurm or another plugin starts around a step's tasks: pyxis by --container-image, Slurm's own OCI
 * containers by --container. The launcher cannot be started in there, so such a step cannot be elastic. A program that
 * enters a container itself can. */
#ifndef ESPALIER_SPANK_CONTAINER_H
#define ESPALIER_SPANK_CONTAINER_H

#ifdef __cplusplus
extern "C" {
#endif

#define ESPALIER_CONTAINER_REMEDY \
  "let the program itself enter the container, as in `apptainer exec IMAGE PROGRAM` (espalier-spank(8), CONTAINERS)"

/* Where srun tells its steps of the container option that it was given. */
#define ESPALIER_CONTAINER_ENV "ESPALIER_CONTAINER"

/* The container option among srun's own `arguments` (NULL-terminated, the command's name first), without its value;
 * NULL: none. `elastic` is set to whether --elastic is among them. What follows the program's name is not looked at. */
const char* espalier_container_option(char* const* arguments, int* elastic);

/* The same for this process, whose command line it reads; $SLURM_CONTAINER counts as --container. */
const char* espalier_container_of_command(int* elastic);

/* Identifies the mount namespace of this process; 0: unknown. */
unsigned long espalier_mount_namespace(void);

#ifdef __cplusplus
}
#endif

#endif
