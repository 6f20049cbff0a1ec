// Whether this host has MUNGE, by which programs on different hosts prove their users to each other.
#pragma once

#include <string>

namespace espalier::wire {

// Why this host's munged makes no credential that it opens again; empty: it does. Waits for libmunge, which gives up
// after some seconds where munged does not answer. Any thread.
std::string munge_problem();

// Whether a site gives its programs no MUNGE at all, so that nothing will come of waiting for it. `auth_type`: AuthType
// of Slurm, empty where it is not known. `problem`: munge_problem().
bool lacks_munge(const std::string& auth_type, const std::string& problem);

// A sentence for the log or the user: what cannot work, and the remedy. `problem` is not empty.
std::string without_munge(const std::string& auth_type, const std::string& problem);

}  // namespace espalier::wire
