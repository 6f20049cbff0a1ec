// The options with which pyxis makes the container of a job's ranks, as the plugin hands them over (spank/pyxis.h).
// Pure.
#pragma once

#include <string>
#include <vector>

namespace espalier::launcher {

// An image may have to be fetched and unpacked first. So the generations of a job in a container have this much longer
// to start.
constexpr int kImageSeconds = 600;

// The options in ESPALIER_PYXIS, which has each ended by a newline.
std::vector<std::string> container_options(const std::string& text);

// The options of a container in which programs of this job find the launcher: with `folders` of the node mounted at the
// same place. pyxis takes one --container-mounts only, so all mounts become one.
std::vector<std::string> with_mounts(const std::vector<std::string>& options, const std::vector<std::string>& folders);

// What the step that holds the container runs. It prints "espalier-container PID", ignores SIGTERM, as ranks do, and
// ends when nobody has `fifo` open for writing any more, however its rank server has ended.
std::vector<std::string> container_program(const std::string& fifo);

// The paths by which a program of this name is looked for, by the PATH of `environment`; itself where it has a slash.
std::vector<std::string> paths_of(const std::string& program, const std::vector<std::string>& environment);

// The process id in a line of its output; -1: it is another line.
long container_pid(const std::string& line);

// The environment of a rank in the container. `own`: what the rank has outside. `inside`: that of the container's own
// process, which was started with `given`. What pyxis and the image have set there counts, apart from what Slurm tells
// a step.
std::vector<std::string> environment_inside(const std::vector<std::string>& own, const std::vector<std::string>& inside,
                                            const std::vector<std::string>& given);

}  // namespace espalier::launcher
