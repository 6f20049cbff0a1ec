/* Does what pyxis does, in pyxis's order: --container-image in srun, and on the node the task's own user and mount
 * namespaces, with the image's files, in slurm_spank_task_init. The image is an empty folder with one file, /mnt/image.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

SPANK_PLUGIN(container_plugin, 1)

static int wanted;

static int take(int val, const char* text, int remote) {
  (void)val, (void)text, (void)remote;
  wanted = 1;
  return 0;
}

int slurm_spank_init(spank_t spank, int argc, char** argv) {
  (void)argc, (void)argv;
  static char name[] = "container-image", argument[] = "IMAGE", usage[] = "run the tasks in an image";
  struct spank_option option = {name, argument, usage, 1, 0, take};
  return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

static int put(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_CREAT, 0644);
  int bad = fd < 0 || write(fd, text, strlen(text)) < 0;
  if (fd >= 0) close(fd);
  return bad;
}

int slurm_spank_task_init(spank_t spank, int argc, char** argv) {
  (void)spank, (void)argc, (void)argv;
  if (!wanted) return 0;
  char map[64], groups[64];
  prctl(PR_SET_DUMPABLE, 1); /* the task was root until now, so that its uid_map would be root's */
  snprintf(map, sizeof map, "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
  snprintf(groups, sizeof groups, "%u %u 1", (unsigned)getgid(), (unsigned)getgid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || put("/proc/self/uid_map", map) ||
      put("/proc/self/setgroups", "deny") || put("/proc/self/gid_map", groups) ||
      mount("image", "/mnt", "tmpfs", 0, NULL) != 0 || put("/mnt/image", "inside\n")) {
    slurm_spank_log("container_plugin: %m");
    return -1;
  }
  return 0;
}
