// What this process's user is called outside of all containers, where MUNGE and the launcher are.
#pragma once

#include <sys/types.h>

namespace espalier::wire {

// $ESPALIER_UID, which the rank server sets for ranks in a container: in there the user may be called root. Else the
// effective uid of this thread. Only a job's own environment says it, and a job that lies here cannot log in: MUNGE
// names the user that it sees.
uid_t host_uid();

}  // namespace espalier::wire
