/* On the node, a step of srun --multi-prog has its configuration file as its program and that
 * file's text as its argument. Nothing else tells it from other steps. */
#ifndef ESPALIER_SPANK_MULTI_PROG_H
#define ESPALIER_SPANK_MULTI_PROG_H

#ifdef __cplusplus
extern "C" {
#endif

/* Whether `argument` is such a text. It has whole lines: comments, and "RANKS PROGRAM ..." with
 * RANKS like "0", "1-3,5" or "*". */
int espalier_is_multi_prog(const char* argument);

#ifdef __cplusplus
}
#endif

#endif
