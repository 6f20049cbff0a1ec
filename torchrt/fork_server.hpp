// A worker that was started ahead and has loaded its libraries may be a fork server: it makes further workers by fork()
// instead of having each load the same libraries (as Python's multiprocessing "forkserver" does).
#pragma once

namespace espalier::torchrt {

// `socket`: the one of ESPALIER_SPARE. Serves on it until whoever started this process closes it, and then ends the
// process. Returns in each process that it has made: the socket on which that one is told who it is. Returns `socket`
// in this process, at once and without a word, when this process must not fork: it has other threads.
//
// The new processes are children of this process's parent, which is a "child subreaper" (PR_SET_CHILD_SUBREAPER), and
// die with it. Each has a process group of its own.
int serve_forks(int socket);

}  // namespace espalier::torchrt
