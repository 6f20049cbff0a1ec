/* The value of --elastic[=MIN:MAX[,accuracy=bitwise|relaxed][,deadline=TIME]]: one parser for every place it is read,
 * because each of them may be handed a forged one. Pure: no allocation, no clock, no I/O; safe in any thread. */
#ifndef ESPALIER_SPANK_ELASTIC_OPTION_H
#define ESPALIER_SPANK_ELASTIC_OPTION_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ESPALIER_OPTION_NAME "elastic"
#define ESPALIER_GPUS_LIMIT 1000000 /* no request is larger */
#define ESPALIER_VALUE_MAX 128      /* bytes of a value; longer ones are refused */
#define ESPALIER_MESSAGE_MAX 512    /* enough for every refusal */
#define ESPALIER_DEADLINE_MAX 20    /* "YYYY-MM-DDTHH:MM:SS" */

struct espalier_elastic {
  int min;                              /* GPUs; 0: as many as requested */
  int max;                              /* GPUs; 0: the site's limit */
  int relaxed;                          /* 0: losses stay bit-identical; 1: gradients may be summed in another order */
  char deadline[ESPALIER_DEADLINE_MAX]; /* local time "YYYY-MM-DDTHH:MM:SS"; empty: none */
};

/* Reads `text` (NULL and "" mean: all defaults; "(null)" is what Slurm makes of a missing argument in a job's
 * environment). Returns 0, or -1 with `elastic` untouched and one message in `why` (`size` bytes). */
int espalier_elastic_parse(const char* text, struct espalier_elastic* elastic, char* why, size_t size);

/* 0, or -1 and `why`: MIN or MAX is above what the site allows (0: no limit). */
int espalier_elastic_fits_site(const char* text, const struct espalier_elastic* elastic, int site_max, char* why,
                               size_t size);

/* 0, or -1 and `why`: no GPUs requested, MIN above the request, or MAX below it. `gpus` is the whole request. */
int espalier_elastic_fits_request(const char* text, const struct espalier_elastic* elastic, long gpus, char* why,
                                  size_t size);

/* `out` gets "espalier: elastic: "TEXT": PROBLEM; REMEDY" with everything unprintable in TEXT replaced. */
void espalier_elastic_refusal(const char* text, const char* problem, const char* remedy, char* out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
