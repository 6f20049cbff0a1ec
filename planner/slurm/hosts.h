/* Slurm's host lists: "n[1-3,7]". From 23.11 on hostlist_t is a structure, before it is a pointer.
 * A list belongs to one thread at a time. */
#ifndef ESPALIER_SLURM_HOSTS_H
#define ESPALIER_SLURM_HOSTS_H

#ifdef __cplusplus
extern "C" {
#endif

struct espalier_hosts; /* never defined: libslurm's own list under one name */

/* The names of `text`, or an empty list for NULL. Returns NULL when libslurm refuses the text. The caller destroys the
 * list. */
struct espalier_hosts* espalier_hosts_create(const char* text);
void espalier_hosts_destroy(struct espalier_hosts* hosts);

/* Removes the first name and returns it, or NULL from an empty list. The caller frees it with free(). */
char* espalier_hosts_shift(struct espalier_hosts* hosts);

void espalier_hosts_push(struct espalier_hosts* hosts, const char* name);

/* Sorts the list, removes what is there twice and returns it as text, or NULL without memory. The caller frees the text
 * with free(). */
char* espalier_hosts_fold(struct espalier_hosts* hosts);

#ifdef __cplusplus
}
#endif

#endif
