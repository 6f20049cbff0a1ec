// The number of this process's user outside of containers. MUNGE and the launcher know the user by this number.
#pragma once

#include <sys/types.h>

namespace espalier::wire {

// $ESPALIER_UID, which the rank server sets for ranks in a container: inside it the user may have the number 0. Else
// the effective uid of this thread. A job may set the variable to another number. It then cannot log in, because MUNGE
// tells the number that it sees.
uid_t host_uid();

}  // namespace espalier::wire
