#include "planner/wire/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAC_BYTES 32
static const char kForm[] = "espalier-grant-1";

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

static int from_hex(const char* text, size_t length, unsigned char* out, size_t bytes) {
  if (length != 2 * bytes) return -1;
  for (size_t i = 0; i < bytes; i++) {
    int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
    if (high < 0 || low < 0) return -1;
    out[i] = (unsigned char)(high << 4 | low);
  }
  return 0;
}

/* The value of "NAME=VALUE" at the beginning of a line; -1: there is no such line. */
static int value_of(const char* text, const char* name, const char** value, size_t* length) {
  size_t known = strlen(name);
  for (const char* line = text; *line;) {
    size_t end = strcspn(line, "\n");
    if (end > known && strncmp(line, name, known) == 0 && line[known] == '=') {
      *value = line + known + 1;
      *length = end - known - 1;
      return 0;
    }
    line += end + (line[end] == '\n');
  }
  return -1;
}

static int read_file(const char* path, char* text, size_t size, char* why, size_t why_size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && errno == ENOENT) return 0;
  if (fd < 0) {
    snprintf(why, why_size, "%s: cannot be read: %s; give it to SlurmUser", path, strerror(errno));
    return -1;
  }
  struct stat status;
  ssize_t got = -1;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) snprintf(why, why_size, "%s: is no regular file", path);
  else if ((status.st_mode & 077) != 0 || (status.st_uid != 0 && status.st_uid != geteuid()))
    snprintf(why, why_size, "%s: others than SlurmUser may read it or own it; chown it to SlurmUser, chmod 0600", path);
  else if ((got = read(fd, text, size - 1)) < 0)
    snprintf(why, why_size, "%s: cannot be read: %s", path, strerror(errno));
  close(fd);
  if (got < 0) return -1;
  text[got] = '\0';
  return 1;
}

int espalier_grant_key_read(const char* path, struct espalier_grant_key* key, char* why, size_t size) {
  char text[1024];
  const char* value;
  size_t length;
  int found = read_file(path, text, sizeof(text), why, size);
  if (found <= 0) return found;
  memset(key, 0, sizeof(*key));
  found = -1;
  if (value_of(text, "partition", &value, &length) != 0 || length == 0 || length >= sizeof(key->partition) ||
      memchr(value, ' ', length))
    snprintf(why, size, "%s: has no line \"partition=NAME\"", path);
  else if (memcpy(key->partition, value, length),
           value_of(text, "key", &value, &length) != 0 || from_hex(value, length, key->key, sizeof(key->key)) != 0)
    snprintf(why, size, "%s: has no line \"key=\" with 64 hex digits", path);
  else found = 1;
  OPENSSL_cleanse(text, sizeof(text));
  return found;
}

static int mac_of(const char* text, size_t length, const struct espalier_grant_key* key, unsigned char mac[MAC_BYTES]) {
  unsigned int size = 0;
  return HMAC(EVP_sha256(), key->key, (int)sizeof(key->key), (const unsigned char*)text, length, mac, &size) &&
                 size == MAC_BYTES
             ? 0
             : -1;
}

/* Names of nodes are not trusted to hold no colon: such a node gets no grant. */
static int is_name(const char* text) {
  size_t length = strlen(text);
  return length > 0 && length < ESPALIER_GRANT_NODE_MAX && !text[strcspn(text, ":\n ")];
}

static int is_id(const char* text) {
  unsigned char bytes[ESPALIER_GRANT_ID / 2];
  return from_hex(text, strlen(text), bytes, sizeof(bytes)) == 0;
}

int espalier_grant_make(const struct espalier_grant* grant, const struct espalier_grant_key* key,
                        char text[ESPALIER_GRANT_MAX]) {
  unsigned char mac[MAC_BYTES];
  if (!is_id(grant->id) || !is_name(grant->node) || grant->gpus < 1 || grant->minutes < 1 || grant->expiry < 0)
    return -1;
  int length = snprintf(text, ESPALIER_GRANT_MAX, "%s:%s:%u:%u:%s:%ld:%ld:%lld", kForm, grant->id, grant->uid,
                        grant->anchor, grant->node, grant->gpus, grant->minutes, (long long)grant->expiry);
  if (length < 0 || length + 2 + 2 * MAC_BYTES > ESPALIER_GRANT_MAX) return -1;
  if (mac_of(text, (size_t)length, key, mac) != 0) return -1;
  text[length++] = ':';
  for (int i = 0; i < MAC_BYTES; i++) length += sprintf(text + length, "%02x", mac[i]);
  return 0;
}

/* Takes one part of the text, up to the next colon, and moves `at` behind it. */
static int take(const char** at, char* out, size_t size) {
  size_t length = strcspn(*at, ":");
  if (length == 0 || length >= size || (*at)[length] != ':') return -1;
  memcpy(out, *at, length);
  out[length] = '\0';
  *at += length + 1;
  return 0;
}

static int take_number(const char** at, int64_t most, int64_t* value) {
  char digits[20], *end;
  if (take(at, digits, sizeof(digits)) != 0 || digits[strspn(digits, "0123456789")]) return -1;
  errno = 0;
  *value = strtoll(digits, &end, 10);
  return errno == 0 && *value <= most ? 0 : -1;
}

int espalier_grant_open(const char* text, const struct espalier_grant_key* key, struct espalier_grant* grant) {
  unsigned char expected[MAC_BYTES], given[MAC_BYTES];
  size_t length = strnlen(text, ESPALIER_GRANT_MAX);
  const char* last = strrchr(text, ':');
  if (length >= ESPALIER_GRANT_MAX || !last) return -1;
  if (from_hex(last + 1, strlen(last + 1), given, sizeof(given)) != 0 ||
      mac_of(text, (size_t)(last - text), key, expected) != 0 || CRYPTO_memcmp(given, expected, MAC_BYTES) != 0)
    return -1;
  /* The text is espalierd's own from here on. */
  char form[sizeof(kForm)];
  int64_t uid, anchor, gpus, minutes;
  memset(grant, 0, sizeof(*grant));
  if (take(&text, form, sizeof(form)) != 0 || strcmp(form, kForm) != 0 ||
      take(&text, grant->id, sizeof(grant->id)) != 0 || take_number(&text, UINT32_MAX, &uid) != 0 ||
      take_number(&text, UINT32_MAX, &anchor) != 0 || take(&text, grant->node, sizeof(grant->node)) != 0 ||
      take_number(&text, INT32_MAX, &gpus) != 0 || take_number(&text, INT32_MAX, &minutes) != 0 ||
      take_number(&text, INT64_MAX, &grant->expiry) != 0)
    return -1;
  grant->uid = (uint32_t)uid;
  grant->anchor = (uint32_t)anchor;
  grant->gpus = (long)gpus;
  grant->minutes = (long)minutes;
  return 0;
}
