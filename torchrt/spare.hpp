// A worker that was started ahead: it has loaded its libraries and waits to be told who it is.
#pragma once

namespace espalier::torchrt {

// The first call of main(). Returns at once unless ESPALIER_SPARE is set. Then it waits for this process's environment
// on the socket of that number and puts it in the place of the present one. Ends the process when whoever started it is
// gone, or needs it no longer. Where ESPALIER_SPARE_FORKS is set too, this process becomes a fork server if it can, and
// the call returns in the processes that it makes.
void wait_as_spare();

}  // namespace espalier::torchrt
