// libevent's base, as the product's loops have it in a history.
#pragma once

#include "tests/sim/timeline.hpp"

// Loop keeps a pointer to libevent's base. Here the base is the process that the loop belongs to.
struct event_base {
  espalier::sim::PartyPtr party;
};
