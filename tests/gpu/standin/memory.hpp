// Memory of GPUs: memfds, so that other processes map it by descriptor, and it outlives its maker.
#pragma once

#include <cuda.h>

#include <cstddef>

namespace standin {

enum class Kind { host, pinned, device, fault };  // fault: reserved, or not open to the GPU that is to use it

// Of [memory, memory + bytes), for code on `gpu`.
Kind kind_of(const void* memory, std::size_t bytes, int gpu);
void note_memory(void* memory, std::size_t bytes, Kind kind, int gpu);
void forget_memory(const void* memory);

int allocate(void** memory, std::size_t bytes);  // on the current GPU
int release(void* memory);

// The driver's functions, all of them; each returns a CUresult.
void* driver_function(const char* name);

}  // namespace standin
