/* Containers that Slurm or another plugin starts around a step's tasks: pyxis by --container-image, Slurm's own OCI
 * containers by --container. An elastic step starts outside of pyxis's container, and its ranks enter it (pyxis.h). A
 * step that starts inside of a container cannot be elastic: the launcher is not there. */
#ifndef ESPALIER_SPANK_CONTAINER_H
#define ESPALIER_SPANK_CONTAINER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ESPALIER_CONTAINER_REMEDY                                                                                 \
  "use pyxis (--container-image without --container-save), or let the program itself enter the container, as in " \
  "`apptainer exec IMAGE PROGRAM` (espalier-spank(8), CONTAINERS)"

/* Where srun tells its steps of the container option that it was given. */
#define ESPALIER_CONTAINER_ENV "ESPALIER_CONTAINER"

/* The container option among srun's own `arguments` (NULL-terminated, the command's name first), without its value;
 * NULL: none. `elastic` is set to whether --elastic is among them. What follows the program's name is not looked at. */
const char* espalier_container_option(char* const* arguments, int* elastic);

/* Where srun's own `arguments` end: the place of the program's name, of "--" or of the final NULL. */
size_t espalier_container_options_end(char* const* arguments);

/* Takes pyxis's options out of srun's `arguments`. `rest` gets the other arguments and NULL: as many places as
 * `arguments` has. `text` gets the options, "--name" or "--name=value", each ended by a newline. Returns how many it
 * has taken; -1: `text` is too small, a value has a newline, or one is --container-save, which every node would write.
 */
int espalier_container_take(char* const* arguments, char** rest, char* text, size_t size);

/* The arguments of this process, NULL-terminated, in memory that the caller keeps. `count`: their number. NULL: they
 * could not be read. */
char** espalier_container_arguments(size_t* count);

/* espalier_container_option() for this process, whose command line it reads; $SLURM_CONTAINER counts as --container,
 * and the variables by which pyxis gets an image as --container-image. */
const char* espalier_container_of_command(int* elastic);

/* Identifies the mount namespace of this process; 0: unknown. */
unsigned long espalier_mount_namespace(void);

#ifdef __cplusplus
}
#endif

#endif
