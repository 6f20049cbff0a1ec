/* srun --multi-prog puts the text of its configuration file where the program's name would be. */
#ifndef ESPALIER_SPANK_MULTI_PROG_H
#define ESPALIER_SPANK_MULTI_PROG_H

#define ESPALIER_MULTI_PROG_MESSAGE \
  "espalier: elastic: --multi-prog starts several programs; the step runs without elasticity"

#ifdef __cplusplus
extern "C" {
#endif

/* Lines "RANKS PROGRAM ..." with RANKS like "0", "1-3,5", "*"; comments and blank lines between. */
int espalier_is_multi_prog(const char* program);

#ifdef __cplusplus
}
#endif

#endif
