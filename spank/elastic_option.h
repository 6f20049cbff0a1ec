/* The value of --elastic[=MIN:MAX[,accuracy=bitwise|relaxed][,deadline=TIME][,node_setup=PROGRAM]
 * [,movable[,base=N][,types=A+B][,time=T]]].
 * Every place that reads it uses this parser, because any of them may get a forged value. Pure: no allocation, no
 * clock, no I/O. Safe in any thread. */
#ifndef ESPALIER_SPANK_ELASTIC_OPTION_H
#define ESPALIER_SPANK_ELASTIC_OPTION_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ESPALIER_OPTION_NAME "elastic"
#define ESPALIER_GPUS_LIMIT 1000000 /* largest request */
#define ESPALIER_VALUE_MAX 384      /* bytes; a longer value is refused */
#define ESPALIER_MESSAGE_MAX 512    /* enough for every refusal */
#define ESPALIER_DEADLINE_MAX 20    /* "YYYY-MM-DDTHH:MM:SS" */
#define ESPALIER_DAYS_LIMIT 36500   /* longest time= */
#define ESPALIER_TYPES_MAX 64       /* bytes of types=, with the final 0 */
#define ESPALIER_SETUP_MAX 256      /* bytes of node_setup=, with the final 0 */

struct espalier_elastic {
  int min;                              /* GPUs; 0: as many as requested */
  int max;                              /* GPUs; 0: the site's limit */
  int accuracy_given;                   /* 0: the user left it to the default, bitwise */
  int relaxed;                          /* 0: losses stay bit-identical; 1: gradients may be summed in another order */
  char deadline[ESPALIER_DEADLINE_MAX]; /* local time "YYYY-MM-DDTHH:MM:SS"; empty: none */
  int movable;                          /* the job holds no GPUs itself; Espalier submits its base */
  int base;                             /* GPUs of the base of a movable job; 0: MIN */
  char types[ESPALIER_TYPES_MAX];       /* GPU types that a movable job may run on, "h100+a100"; empty: any */
  long minutes;                         /* that the bases of a movable job may run together; 0: as the job itself */
  char node_setup[ESPALIER_SETUP_MAX];  /* the path of a program that prepares each node; empty: none */
};

/* Reads `text`. NULL and "" mean all defaults. So does "(null)", which Slurm puts into a job's
 * environment for a missing argument. Returns 0. On error returns -1, leaves `elastic` untouched
 * and writes one message into `why` (`size` bytes). */
int espalier_elastic_parse(const char* text, struct espalier_elastic* elastic, char* why, size_t size);

/* Returns 0. Returns -1 and `why` when MIN, MAX or base is above `site_max` (0: no limit). */
int espalier_elastic_fits_site(const char* text, const struct espalier_elastic* elastic, int site_max, char* why,
                               size_t size);

/* Returns 0. Returns -1 and `why` when no GPUs are requested, MIN is above the request or MAX is
 * below it. A movable job must request none. `gpus`: the whole request. */
int espalier_elastic_fits_request(const char* text, const struct espalier_elastic* elastic, long gpus, char* why,
                                  size_t size);

/* Writes "espalier: elastic: "TEXT": PROBLEM; REMEDY" to `out`. Unprintable bytes and quotes of
 * TEXT become '?', and a long TEXT is cut. */
void espalier_elastic_refusal(const char* text, const char* problem, const char* remedy, char* out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
