// Prints the faults of the GPUs with these bus ids, as espalier-ranks does in a process of its own.
#include "launcher/world/server/nvml.hpp"

int main(int argc, char** argv) { return argc == 2 ? espalier::launcher::print_gpu_faults(argv[1]) : 2; }
