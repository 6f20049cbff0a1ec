// The process's context on a GPU, and the beginning of each call.
#pragma once

#include <cstddef>

namespace standin {

// Counts the call; returns the error that it must return at once, or 0. `starts`: the call makes the context where
// there is none yet.
int enter(const char* call, bool starts = true);
// Remembers the thread's last error.
int leave(int error);
int take_last_error();
int last_error();

int current_gpu();  // of the thread; a number of the machine, not an ordinal
int current_ordinal();
int choose(int ordinal);  // an error or 0
bool has_context();
int make_context();  // on the thread's GPU, where there is none yet; an error or 0

// Memory of this process on `gpu` that is no descriptor's: contexts, torch's cache, communicators. False: there is no
// room.
bool charge(int gpu, std::size_t bytes);
void discharge(int gpu, std::size_t bytes);
// Whether `bytes` more fit. Looks at all processes of the domain.
bool fits(int gpu, std::size_t bytes);
std::size_t used(int gpu);
// Of the GPU's state: it is another one when all contexts have ended meanwhile and persistence mode is off.
long epoch(int gpu);

}  // namespace standin
