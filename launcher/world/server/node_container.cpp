#include "launcher/world/server/node_container.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "planner/core/error.hpp"

namespace espalier::launcher {

void NodeContainer::start(wire::Loop& loop, const std::string& fifo, const std::vector<std::string>& command,
                          ContainerStep::Callbacks callbacks) {
  ::unlink(fifo.c_str());  // of a server before this one
  if (::mkfifo(fifo.c_str(), 0600) == 0) alive_ = wire::Descriptor(::open(fifo.c_str(), O_RDWR | O_CLOEXEC));
  if (alive_.get() < 0)
    throw Error(fifo + ": " + std::strerror(errno) + "; launch.work_dir must be able to hold a FIFO");
  step_ = std::make_unique<ContainerStep>(loop, command, std::move(callbacks));
}

void NodeContainer::end() {
  alive_.reset();
  step_.reset();
}

bool NodeContainer::forget(int generation) {
  return std::erase_if(waiting_, [&](const wire::RunRanks& one) { return one.generation == generation; }) > 0;
}

}  // namespace espalier::launcher
