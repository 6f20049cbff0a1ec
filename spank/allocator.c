#include "spank/allocator.h"

#include "spank/option.h"

void espalier_allocator_init(spank_t spank) { espalier_option_register(spank); }
