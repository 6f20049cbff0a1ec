/* Does what pyxis does, in pyxis's order. srun gets --container-image, --container-mounts, --container-workdir and
 * --[no-]container-remap-root, also from PYXIS_CONTAINER_IMAGE. Once on each node, in slurm_spank_user_init, a process
 * of the user makes the container: user and mount namespaces of its own, a root folder with the image's files, where
 * /tmp and /run are empty, and the environment of the image. It stops itself, and the plugin takes its namespaces and
 * its environment. Each task enters them in slurm_spank_task_init. At the end of the step the image's files are
 * removed. The image is this machine's /usr, /etc and so on, with a file /image that holds its name. It sets IMAGE and
 * PATH, and has a program only-here. There is no image named "missing". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(container_plugin, 1)

static struct {
  char image[256], mounts[4096], workdir[1024];
  int keeps_user; /* --no-container-remap-root */
  int user, mount, folder, root;
  int failed;
} container = {.user = -1, .mount = -1, .folder = -1, .root = -1};

enum { kImage, kMounts, kWorkdir, kRoot, kNoRoot };

static int take(int option, const char* text, int remote) {
  (void)remote;
  if (option == kImage) snprintf(container.image, sizeof container.image, "%s", text);
  if (option == kMounts) snprintf(container.mounts, sizeof container.mounts, "%s", text);
  if (option == kWorkdir) snprintf(container.workdir, sizeof container.workdir, "%s", text);
  if (option == kNoRoot) container.keeps_user = 1;
  return 0;
}

int slurm_spank_init(spank_t spank, int argc, char** argv) {
  (void)argc, (void)argv;
  static struct spank_option options[] = {{"container-image", "IMAGE", "the image", 1, kImage, take},
                                          {"container-mounts", "SRC:DST", "mounts", 1, kMounts, take},
                                          {"container-workdir", "PATH", "working folder", 1, kWorkdir, take},
                                          {"container-remap-root", NULL, "be root", 0, kRoot, take},
                                          {"no-container-remap-root", NULL, "be the user", 0, kNoRoot, take}};
  if (spank_context() == S_CTX_ALLOCATOR) return 0;
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
    if (spank_option_register(spank, &options[i]) != ESPANK_SUCCESS) return -1;
  return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char** argv) {
  (void)argc, (void)argv;
  char text[sizeof container.image];
  if (spank_context() == S_CTX_REMOTE && !container.image[0] &&
      spank_getenv(spank, "PYXIS_CONTAINER_IMAGE", text, sizeof text) == ESPANK_SUCCESS)
    take(kImage, text, 1);
  return 0;
}

static void must(int worked, const char* what) {
  if (worked) return;
  fprintf(stderr, "container_plugin: %s: %s\n", what, strerror(errno));
  _exit(1);
}

static void put(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC | O_CREAT, 0644);
  must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
  close(fd);
}

static void bind_there(const char* from, const char* to) { /* below the new root */
  char path[8192];
  snprintf(path, sizeof path, "/mnt%s", to);
  for (char* slash = strchr(path + 5, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0755);
    *slash = '/';
  }
  mkdir(path, 0755);
  must(mount(from, path, NULL, MS_BIND | MS_REC, NULL) == 0, path);
}

static void make_container(uid_t uid, gid_t gid) {
  char map[64];
  must(setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0, "user");
  prctl(PR_SET_DUMPABLE, 1); /* it was root until now, so that its uid_map would be root's */
  must(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "unshare");
  put("/proc/self/setgroups", "deny");
  snprintf(map, sizeof map, "%u %u 1", container.keeps_user ? (unsigned)uid : 0, (unsigned)uid);
  put("/proc/self/uid_map", map);
  snprintf(map, sizeof map, "%u %u 1", container.keeps_user ? (unsigned)gid : 0, (unsigned)gid);
  put("/proc/self/gid_map", map);
  must(mount("image", "/mnt", "tmpfs", 0, "mode=755") == 0, "tmpfs");
  static const char* const folders[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64",
                                        "/etc", "/opt", "/proc", "/sys", "/dev"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
    if (access(folders[i], F_OK) == 0) bind_there(folders[i], folders[i]);
  must(mkdir("/mnt/tmp", 0755) == 0 && mkdir("/mnt/run", 0755) == 0, "mkdir");
  char name[300];
  snprintf(name, sizeof name, "%s\n", container.image);
  put("/mnt/image", name);
  must(mkdir("/mnt/image-bin", 0755) == 0, "mkdir");
  put("/mnt/image-bin/only-here", "#!/bin/sh\necho only here\n");
  must(chmod("/mnt/image-bin/only-here", 0755) == 0, "chmod");
  for (char *rest = container.mounts, *one; (one = strsep(&rest, ",")) != NULL && *one;) {
    char* to = one;
    const char* from = strsep(&to, ":");
    bind_there(from, to ? strsep(&to, ":") : from);
  }
  must(chdir("/mnt") == 0 && syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0,
       "pivot_root");
  setenv("IMAGE", container.image, 1);
  setenv("PATH", "/image-bin:/usr/local/bin:/usr/bin:/bin", 1);
  unsetenv("BASH_ENV");
  execl("/bin/sh", "sh", "-c", "kill -STOP $$; exit 0", (char*)NULL);
  must(0, "sh");
}

static int handle_of(pid_t pid, const char* what, int flags) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
  return open(path, flags | O_CLOEXEC);
}

static void take_environment(spank_t spank, pid_t pid) {
  static char text[1 << 17];
  const int fd = handle_of(pid, "environ", O_RDONLY);
  const ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  for (char* at = text; at < text + size; at += strlen(at) + 1) {
    char* value = strchr(at, '=');
    if (!value) continue;
    *value = '\0';
    spank_setenv(spank, at, value + 1, 1);
    *value = '=';
  }
  close(fd);
}

int slurm_spank_user_init(spank_t spank, int argc, char** argv) {
  (void)argc, (void)argv;
  uid_t uid = 0;
  gid_t gid = 0;
  char** environment = NULL;
  int status = 0;
  if (!container.image[0]) return 0;
  spank_get_item(spank, S_JOB_UID, &uid);
  spank_get_item(spank, S_JOB_GID, &gid);
  spank_get_item(spank, S_JOB_ENV, &environment);
  slurm_spank_log("container_plugin: importing image: %s", container.image);
  container.failed = 1; /* as with pyxis, the first task tells */
  if (strcmp(container.image, "missing") == 0) {
    slurm_spank_log("container_plugin: there is no image %s", container.image);
    return 0;
  }
  const pid_t pid = fork();
  if (pid == 0) {
    if (seteuid(0) != 0) _exit(1);
    clearenv();
    for (char** variable = environment; variable && *variable; variable++) putenv(*variable);
    make_container(uid, gid);
  }
  if (pid < 0 || waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status)) return 0;
  container.user = handle_of(pid, "ns/user", O_RDONLY);
  container.mount = handle_of(pid, "ns/mnt", O_RDONLY);
  container.folder = handle_of(pid, "cwd", O_RDONLY);
  container.root = handle_of(pid, "root", O_RDONLY);
  take_environment(spank, pid);
  kill(pid, SIGCONT);
  waitpid(pid, &status, 0);
  container.failed = container.user < 0 || container.mount < 0 || container.folder < 0 || container.root < 0;
  return 0;
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char** argv) {
  (void)spank, (void)argc, (void)argv;
  if (!container.image[0]) return 0;
  return container.failed ? -1 : 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char** argv) {
  (void)spank, (void)argc, (void)argv;
  if (!container.image[0]) return 0;
  if (setns(container.user, CLONE_NEWUSER) == 0 && setns(container.mount, CLONE_NEWNS) == 0 &&
      (container.workdir[0] ? chdir(container.workdir) : fchdir(container.folder)) == 0)
    return 0;
  slurm_spank_log("container_plugin: %m");
  return -1;
}

int slurm_spank_exit(spank_t spank, int argc, char** argv) {
  (void)spank, (void)argc, (void)argv;
  if (spank_context() == S_CTX_REMOTE && container.root >= 0) unlinkat(container.root, "image", 0);
  return 0;
}
