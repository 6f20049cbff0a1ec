/* On the node, a step of srun --multi-prog has its configuration file as the program and that file's text as the
 * argument; nothing else tells it from other steps. */
#ifndef ESPALIER_SPANK_MULTI_PROG_H
#define ESPALIER_SPANK_MULTI_PROG_H

#ifdef __cplusplus
extern "C" {
#endif

/* Whether an argument is such a text: whole lines "RANKS PROGRAM ..." with RANKS like "0", "1-3,5", "*", and comments.
 */
int espalier_is_multi_prog(const char* argument);

#ifdef __cplusplus
}
#endif

#endif
