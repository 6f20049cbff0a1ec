#include "spank/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef ESPALIER_SLURM_BIN
#define ESPALIER_SLURM_BIN "/usr/bin"
#endif

static void close_all(void) {
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; fd++) dup2(null, fd);
#ifdef SYS_close_range
  if (syscall(SYS_close_range, 3U, ~0U, 0U) == 0) return;
#endif
  long most = sysconf(_SC_OPEN_MAX);
  if (most < 0 || most > 65536) most = 65536;
  for (int fd = 3; fd < most; fd++) close(fd);
}

/* Makes only async-signal-safe calls, because the caller may have threads. */
int espalier_detach(unsigned seconds) {
  pid_t first = fork();
  if (first < 0) return -1;
  if (first > 0) {
    int status = 0;
    while (waitpid(first, &status, 0) < 0 && errno == EINTR) continue;
    return 0;
  }
  sigset_t none;
  struct sigaction standard;
  memset(&standard, 0, sizeof(standard));
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; number++) sigaction(number, &standard, NULL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid(); /* leaves the process group that slurmd kills after an epilog */
  if (fork() != 0) _exit(0);
  if (chdir("/") != 0) _exit(1);
  close_all();
  alarm(seconds); /* survives exec */
  return 1;
}

enum { kPlaces = 4, kLongestPath = 4096 };
typedef char espalier_path[kLongestPath];

/* Where words[0] may be. The caller may allocate no memory after a fork, so it has the space. */
static size_t places_of(const char* program, espalier_path* paths) {
  static const char* const places[kPlaces] = {"", ESPALIER_SLURM_BIN "/", "/usr/bin/", "/usr/local/bin/"};
  size_t n = 0;
  for (size_t i = program[0] != '/'; i < kPlaces; i++) {
    if (strlen(places[i]) + strlen(program) < sizeof(paths[n])) stpcpy(stpcpy(paths[n++], places[i]), program);
    if (program[0] == '/') break;
  }
  return n;
}

static void detach_exec(const uid_t* uid, const char* const* words, unsigned seconds) {
  static const gid_t nobodys = 65534; /* an epilog does not know the user's group */
  espalier_path paths[kPlaces];
  size_t n = places_of(words[0], paths);
  if (espalier_detach(seconds) != 1) return;
  if (uid && (setgroups(1, &nobodys) != 0 || setgid(nobodys) != 0 || setuid(*uid) != 0)) _exit(126);
  for (size_t i = 0; i < n; i++) execv(paths[i], (char* const*)words);
  _exit(127);
}

/* 0: it has succeeded. */
static int run_once(espalier_path* paths, size_t n, const char* const* words, unsigned seconds) {
  pid_t pid = fork();
  if (pid == 0) {
    alarm(seconds);
    for (size_t i = 0; i < n; i++) execv(paths[i], (char* const*)words);
    _exit(127);
  }
  int status = -1;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

static time_t now(void) {
  struct timespec time = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec;
}

void espalier_detach_exec_until_heard(const char* const* words, unsigned seconds, unsigned all_seconds) {
  static const time_t quick = 3; /* a slurmctld that is away takes longer to be given up */
  static const int most_refusals = 3;
  static const struct timespec pause = {5, 0};
  espalier_path paths[kPlaces];
  size_t n = places_of(words[0], paths);
  if (espalier_detach(all_seconds) != 1) return;
  for (int refusals = 0; refusals < most_refusals;) {
    time_t began = now();
    if (run_once(paths, n, words, seconds) == 0) break;
    if (now() - began < quick) refusals++;
    nanosleep(&pause, NULL);
  }
  _exit(0);
}

void espalier_detach_exec(const char* const* words, unsigned seconds) { detach_exec(NULL, words, seconds); }

void espalier_detach_exec_as(uid_t uid, const char* const* words, unsigned seconds) {
  detach_exec(&uid, words, seconds);
}
