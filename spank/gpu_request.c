#include "spank/gpu_request.h"

#include <stddef.h>
#include <string.h>

#include "spank/elastic_option.h"

/* Slurm's suffixes for counts are powers of 1024. */
static long count_of(const char* digits, size_t length) {
  long value = 0;
  for (size_t i = 0; i < length; i++) {
    if (digits[i] >= '0' && digits[i] <= '9') value = value * 10 + (digits[i] - '0');
    else if ((digits[i] == 'k' || digits[i] == 'K') && i > 0 && i + 1 == length) value *= 1024;
    else return -1; /* the item ends in a type, not a count */
    if (value > ESPALIER_GPUS_LIMIT) value = ESPALIER_GPUS_LIMIT;
  }
  return length ? value : -1;
}

/* One item without "gres:" or "gres/". It is name[:type][:count] or name[:type]=count. */
static long gpus_of_item(const char* item, size_t length) {
  if (length < 3 || memcmp(item, "gpu", 3) != 0) return 0;
  item += 3;
  length -= 3;
  if (length == 0) return 1;
  if (*item != ':' && *item != '=') return 0;
  size_t last = length;
  while (item[last - 1] != ':' && item[last - 1] != '=') last--;
  long count = count_of(item + last, length - last);
  return count < 0 ? 1 : count;
}

long espalier_gpus_in(const char* tres) {
  long sum = 0;
  while (tres && *tres) {
    size_t length = strcspn(tres, ",;"), skip = 0;
    if (length > 5 && (memcmp(tres, "gres:", 5) == 0 || memcmp(tres, "gres/", 5) == 0)) skip = 5;
    sum += gpus_of_item(tres + skip, length - skip);
    if (sum > ESPALIER_GPUS_LIMIT) sum = ESPALIER_GPUS_LIMIT;
    tres += length;
    if (*tres) tres++;
  }
  return sum;
}

/* NVIDIA names a MIG slice "1g.10gb", and Slurm's AutoDetect "a100_1g.10gb". */
static int names_slice(const char* item, size_t length) {
  for (size_t i = 1; i + 2 < length; i++) {
    if (item[i] != 'g' || item[i + 1] != '.' || item[i - 1] < '0' || item[i - 1] > '9') continue;
    size_t end = i + 2;
    while (end < length && item[end] >= '0' && item[end] <= '9') end++;
    if (end > i + 2 && end + 1 < length && item[end] == 'g' && item[end + 1] == 'b') return 1;
  }
  return 0;
}

static int is_named(const char* item, size_t length, const char* name) {
  size_t n = strlen(name);
  return length >= n && memcmp(item, name, n) == 0 && (length == n || item[n] == ':' || item[n] == '=');
}

const char* espalier_gpu_parts_in(const char* tres) {
  while (tres && *tres) {
    size_t length = strcspn(tres, ",;"), skip = 0;
    if (length > 5 && (memcmp(tres, "gres:", 5) == 0 || memcmp(tres, "gres/", 5) == 0)) skip = 5;
    const char* item = tres + skip;
    if (is_named(item, length - skip, "shard")) return "shards are parts of GPUs";
    if (is_named(item, length - skip, "mps")) return "MPS shares are parts of GPUs";
    if (is_named(item, length - skip, "gpu") && names_slice(item, length - skip)) return "MIG slices are parts of GPUs";
    tres += length;
    if (*tres) tres++;
  }
  return NULL;
}

static long at_least_one(long n) { return n > 0 ? n : 1; }

/* Both factors are positive or 0. A user chooses them, and the product may not fit into a long. */
static long product(long a, long b) {
  long result;
  return __builtin_mul_overflow(a, b, &result) || result > ESPALIER_GPUS_LIMIT ? ESPALIER_GPUS_LIMIT : result;
}

long espalier_gpus_requested(const struct espalier_shape* shape, int* exact) {
  long nodes = at_least_one(shape->nodes);
  long per_job = espalier_gpus_in(shape->per_job), per_node = product(espalier_gpus_in(shape->per_node), nodes);
  long per_task = product(espalier_gpus_in(shape->per_task), at_least_one(shape->tasks));
  long per_socket = product(product(espalier_gpus_in(shape->per_socket), nodes), at_least_one(shape->sockets_per_node));
  *exact = per_job || per_node || per_task || per_socket == 0 || shape->sockets_per_node > 0;
  /* If a job gives several, Slurm requires that they agree. */
  long named = per_job ? per_job : per_node ? per_node : per_task ? per_task : per_socket;
  if (named || shape->tasks_per_gpu <= 0) return named;
  long sharing = at_least_one(shape->tasks) / shape->tasks_per_gpu;
  return product(at_least_one(sharing), 1);
}
