/* The grant of an extension: a text by which espalierd tells the job_submit plugin that it has decided this extension.
 * Both know a key, and users do not. So a user cannot make a grant, and cannot use one for another job than it names.
 * Plain C, no allocation, no I/O but in espalier_grant_key_read. Safe in any thread.
 *
 *   espalier-grant-1:ID:UID:ANCHOR:NODE:GPUS:MINUTES:EXPIRY:MAC
 *
 * MAC: HMAC-SHA256(key, all before its colon), 64 hex digits. The grant travels in the variable ESPALIER_GRANT_ENV of
 * the extension's environment, and its ID is the last part of the extension's comment "espalier:ext:ANCHOR:ID". */
#ifndef ESPALIER_WIRE_GRANT_H
#define ESPALIER_WIRE_GRANT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where espalierd and the plugin find the key. Without this file there are no grants. */
#define ESPALIER_GRANT_KEY "/etc/espalier/grant.key"
#define ESPALIER_GRANT_ENV "ESPALIER_GRANT"
#define ESPALIER_GRANT_SECONDS 120 /* from its making to its expiry */
#define ESPALIER_GRANT_MAX 512     /* bytes of a grant, with the terminating zero */
#define ESPALIER_GRANT_ID 16       /* hex digits */
#define ESPALIER_GRANT_NODE_MAX 256
#define ESPALIER_PARTITION_MAX 64

/* The file has two lines: "partition=NAME", the partition for extensions, and "key=", 64 hex digits. */
struct espalier_grant_key {
  char partition[ESPALIER_PARTITION_MAX];
  unsigned char key[32];
};

/* Returns 1 when the file was read, 0 when there is none. Returns -1 and writes one sentence to `why` when it is not
 * such a file, when somebody else than its owner may read it, or when its owner is neither root nor this user. */
int espalier_grant_key_read(const char* path, struct espalier_grant_key* key, char* why, size_t size);

struct espalier_grant {
  char id[ESPALIER_GRANT_ID + 1];
  uint32_t uid;    /* who may submit the extension */
  uint32_t anchor; /* Slurm job */
  char node[ESPALIER_GRANT_NODE_MAX];
  long gpus;
  long minutes;   /* the longest time limit */
  int64_t expiry; /* seconds since the epoch */
};

/* Returns 0, or -1 when a part does not fit its form or libcrypto fails. */
int espalier_grant_make(const struct espalier_grant* grant, const struct espalier_grant_key* key,
                        char text[ESPALIER_GRANT_MAX]);
/* Returns 0, or -1 when the text was not made with this key. Says nothing about time and use. */
int espalier_grant_open(const char* text, const struct espalier_grant_key* key, struct espalier_grant* grant);

#ifdef __cplusplus
}
#endif

#endif
