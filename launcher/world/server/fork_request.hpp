// A request to a spare that is a fork server: make one more spare. A process that has loaded its libraries is copied in
// milliseconds; loading them again would take a whole start.
#pragma once

namespace espalier::launcher {

// Sends the new process its socket, standard output and standard error; the sender keeps its own descriptors. Does not
// wait. False: the fork server is gone, or has too many requests.
bool ask_for_fork(int fork_server, int socket, int output, int errors);

}  // namespace espalier::launcher
