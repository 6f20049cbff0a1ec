// The container that a child process enters before it becomes its program: open descriptors of its namespaces.
#pragma once

namespace espalier::launcher {

// Owns nothing.
struct Entry {
  int user = -1;    // user namespace; -1: this process's own
  int mount = -1;   // mount namespace
  int root = -1;    // root folder
  int folder = -1;  // working folder
};

// Makes this process, which must have one thread, part of the container. false: errno says why. Async-signal-safe.
bool enter(const Entry& entry);

}  // namespace espalier::launcher
