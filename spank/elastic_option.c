#include "spank/elastic_option.h"

#include <stdio.h>
#include <string.h>

static const char kSyntax[] =
    "write "
    "--elastic=MIN:MAX[,accuracy=bitwise|relaxed][,deadline=YYYY-MM-DDTHH:MM][,node_setup=/PROGRAM]"
    "[,movable[,base=GPUS][,types=TYPE+TYPE][,time=TIME]], in GPUs";

void espalier_elastic_refusal(const char* text, const char* problem, const char* remedy, char* out, size_t size) {
  char shown[64] = "";
  size_t n = 0;
  for (; text && text[n] && n < sizeof(shown) - 1; n++)
    shown[n] = text[n] >= ' ' && text[n] <= '~' && text[n] != '"' ? text[n] : '?';
  shown[n] = '\0';
  snprintf(out, size, "espalier: elastic: \"%s%s\": %s; %s", shown, text && text[n] ? "..." : "", problem, remedy);
}

static int refuse(const char* text, const char* problem, const char* remedy, char* why, size_t size) {
  espalier_elastic_refusal(text, problem, remedy, why, size);
  return -1;
}

/* Reads `length` digits. -1 when a character is not a digit or the number is above `limit`. */
static long number(const char* digits, size_t length, long limit) {
  long value = 0;
  if (length == 0) return -1;
  for (size_t i = 0; i < length; i++) {
    if (digits[i] < '0' || digits[i] > '9') return -1;
    value = value * 10 + (digits[i] - '0');
    if (value > limit) return -1;
  }
  return value;
}

/* "MIN:MAX". Either side may be left out. */
static const char* parse_bounds(const char* item, size_t length, struct espalier_elastic* e) {
  const char* colon = memchr(item, ':', length);
  if (!colon) return "not MIN:MAX";
  size_t left = (size_t)(colon - item), right = length - left - 1;
  long min = left ? number(item, left, ESPALIER_GPUS_LIMIT) : 0;
  long max = right ? number(colon + 1, right, ESPALIER_GPUS_LIMIT) : 0;
  if (min < 0 || (left && min == 0)) return "MIN is not a number of GPUs from 1 up";
  if (max < 0 || (right && max == 0)) return "MAX is not a number of GPUs from 1 up";
  if (min && max && max < min) return "MAX is below MIN";
  e->min = (int)min;
  e->max = (int)max;
  return NULL;
}

static int days_of(long year, long month) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && ((year % 4 == 0 && year % 100 != 0) || year % 400 == 0) ? 29 : days[month - 1];
}

/* "YYYY-MM-DD[THH:MM[:SS]]" */
static const char* parse_deadline(const char* time, size_t length, struct espalier_elastic* e) {
  static const char* const problem = "the deadline is not a time";
  static const char form[] = "dddd-dd-ddTdd:dd:dd";
  if (length != 10 && length != 16 && length != 19) return problem;
  for (size_t i = 0; i < length; i++)
    if (form[i] == 'd' ? time[i] < '0' || time[i] > '9' : time[i] != form[i]) return problem;
  long year = number(time, 4, 9999), month = number(time + 5, 2, 12), day = number(time + 8, 2, 31);
  long hour = length > 10 ? number(time + 11, 2, 23) : 0, minute = length > 10 ? number(time + 14, 2, 59) : 0;
  long second = length > 16 ? number(time + 17, 2, 59) : 0;
  if (year < 2000 || month < 1 || day < 1 || day > days_of(year, month) || hour < 0 || minute < 0 || second < 0)
    return problem;
  /* Its own digits; what was left out is 0. */
  snprintf(e->deadline, sizeof(e->deadline), "%.*s%s", (int)length, time, &"0000-00-00T00:00:00"[length]);
  return NULL;
}

static int is(const char* item, size_t length, const char* word) {
  return length == strlen(word) && memcmp(item, word, length) == 0;
}

/* "h100+a100". */
static const char* parse_types(const char* types, size_t length, struct espalier_elastic* e) {
  if (length == 0 || length >= sizeof(e->types)) return "types is empty or too long";
  for (size_t i = 0; i < length; i++) {
    const char c = types[i];
    const int plus = c == '+', last = i + 1 == length;
    if (plus && (i == 0 || last || types[i - 1] == '+')) return "types is not TYPE+TYPE";
    if (!plus && !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                   c == '.'))
      return "types is not TYPE+TYPE";
  }
  memcpy(e->types, types, length);
  e->types[length] = '\0';
  return NULL;
}

/* A path without spaces: it goes through environments and messages. */
static const char* parse_node_setup(const char* path, size_t length, struct espalier_elastic* e) {
  if (length == 0 || length >= sizeof(e->node_setup)) return "node_setup is empty or too long";
  if (path[0] != '/') return "node_setup is not an absolute path";
  for (size_t i = 0; i < length; i++)
    if (path[i] <= ' ' || path[i] > '~' || path[i] == '"')
      return "node_setup has a space, a quote or no printable character";
  memcpy(e->node_setup, path, length);
  e->node_setup[length] = '\0';
  return NULL;
}

static const char* parse_base(const char* digits, size_t length, struct espalier_elastic* e) {
  const long gpus = number(digits, length, ESPALIER_GPUS_LIMIT);
  if (gpus <= 0) return "base is not a number of GPUs from 1 up";
  e->base = (int)gpus;
  return NULL;
}

/* Slurm's forms: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S. Seconds count as a whole minute. */
static const char* parse_time(const char* time, size_t length, struct espalier_elastic* e) {
  static const char* const problem = "the time is not one of Slurm's, as 90, 1:30:00 or 2-12";
  const char *dash = memchr(time, '-', length), *end = time + length, *at = dash ? dash + 1 : time;
  const long days = dash ? number(time, (size_t)(dash - time), ESPALIER_DAYS_LIMIT) : 0;
  long fields[3] = {0, 0, 0};
  int count = 0;
  for (const char* next = at; at <= end; at = next + 1) {
    next = memchr(at, ':', (size_t)(end - at));
    if (!next) next = end;
    if (count == 3) return problem;
    fields[count] = number(at, (size_t)(next - at), ESPALIER_DAYS_LIMIT * 1440L);
    if (fields[count++] < 0) return problem;
  }
  if (days < 0) return problem;
  const int with_hours = dash || count == 3;
  const long hours = with_hours ? fields[0] : 0, minutes = with_hours ? fields[1] : fields[0];
  const long seconds = with_hours ? fields[2] : fields[1];
  const long all = days * 1440 + hours * 60 + minutes + (seconds + 59) / 60;
  if (all < 1) return "the time is 0";
  if (all > ESPALIER_DAYS_LIMIT * 1440L) return problem;
  e->minutes = all;
  return NULL;
}

static const char* parse_key(const char* item, size_t length, struct espalier_elastic* e) {
  const char* equals = memchr(item, '=', length);
  size_t key = (size_t)(equals - item), value = length - key - 1;
  if (is(item, key, "accuracy")) {
    e->accuracy_given = 1;
    e->relaxed = is(equals + 1, value, "relaxed");
    return e->relaxed || is(equals + 1, value, "bitwise") ? NULL : "the accuracy is neither bitwise nor relaxed";
  }
  if (is(item, key, "deadline")) return parse_deadline(equals + 1, value, e);
  if (is(item, key, "base")) return parse_base(equals + 1, value, e);
  if (is(item, key, "types")) return parse_types(equals + 1, value, e);
  if (is(item, key, "time")) return parse_time(equals + 1, value, e);
  if (is(item, key, "node_setup")) return parse_node_setup(equals + 1, value, e);
  return "unknown key";
}

static const char* parse_word(const char* item, size_t length, struct espalier_elastic* e) {
  if (!is(item, length, "movable")) return "what follows MIN:MAX is neither key=value nor movable";
  e->movable = 1;
  return NULL;
}

int espalier_elastic_parse(const char* text, struct espalier_elastic* elastic, char* why, size_t size) {
  struct espalier_elastic e;
  memset(&e, 0, sizeof(e));
  if (!text || strcmp(text, "(null)") == 0) text = "";
  if (strnlen(text, ESPALIER_VALUE_MAX) >= ESPALIER_VALUE_MAX) return refuse(text, "too long", kSyntax, why, size);
  int first = 1;
  for (const char* item = text; *text; first = 0) {
    size_t length = strcspn(item, ",");
    const char* problem = memchr(item, '=', length) ? parse_key(item, length, &e)
                          : first                   ? parse_bounds(item, length, &e)
                                                    : parse_word(item, length, &e);
    if (problem) return refuse(text, problem, kSyntax, why, size);
    if (item[length] == '\0') break;
    item += length + 1;
  }
  if (e.types[0] && !e.movable)
    return refuse(text, "types is for movable jobs", "add movable, or leave types out", why, size);
  if (e.minutes && !e.movable)
    return refuse(text, "time is for movable jobs", "add movable, or give the job's limit with --time", why, size);
  if (e.movable && e.min == 0)
    return refuse(text, "a movable job needs MIN", "give the number of GPUs that its base gets", why, size);
  if (e.base && !e.movable)
    return refuse(text, "base is for movable jobs", "add movable, or leave base out", why, size);
  if (e.base && (e.base < e.min || (e.max && e.base > e.max)))
    return refuse(text, "base is not between MIN and MAX",
                  "give the GPUs that training is to have when they are granted", why, size);
  *elastic = e;
  return 0;
}

int espalier_elastic_fits_site(const char* text, const struct espalier_elastic* elastic, int site_max, char* why,
                               size_t size) {
  char problem[96];
  int most = elastic->max > elastic->min ? elastic->max : elastic->min;
  if (elastic->base > most) most = elastic->base;
  if (site_max <= 0 || most <= site_max) return 0;
  snprintf(problem, sizeof(problem), "%d GPUs are above this site's limit of %d", most, site_max);
  return refuse(text, problem, "ask for less", why, size);
}

int espalier_elastic_fits_request(const char* text, const struct espalier_elastic* elastic, long gpus, char* why,
                                  size_t size) {
  char problem[96];
  if (elastic->movable) {
    if (gpus <= 0) return 0;
    snprintf(problem, sizeof(problem), "a movable job requests no GPUs itself, but this one requests %ld", gpus);
    return refuse(text, problem, "leave out --gres and --gpus: Espalier submits a job with MIN GPUs, its base", why,
                  size);
  }
  if (gpus <= 0) return refuse(text, "no GPUs requested", "add --gres=gpu:N or --gpus=N", why, size);
  if (elastic->min > gpus) {
    snprintf(problem, sizeof(problem), "MIN is %d, but the job requests %ld GPU%s", elastic->min, gpus,
             gpus == 1 ? "" : "s");
    return refuse(text, problem, "request at least MIN GPUs or lower MIN", why, size);
  }
  if (elastic->max && elastic->max < gpus) {
    snprintf(problem, sizeof(problem), "MAX is %d, but the job requests %ld GPUs", elastic->max, gpus);
    return refuse(text, problem, "request at most MAX GPUs or raise MAX", why, size);
  }
  return 0;
}
