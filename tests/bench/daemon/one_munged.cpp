// All launchers of the benchmark ask one munged, where a cluster has one on each node. It refuses when too many ask at
// once, so that they take turns.
#include <dlfcn.h>
#include <munge.h>

#include <semaphore>

namespace {
std::counting_semaphore<64> turns(64);
}

extern "C" munge_err_t munge_encode(char** credential, munge_ctx_t context, const void* payload, int size) {
  static const auto real = reinterpret_cast<decltype(&munge_encode)>(::dlsym(RTLD_NEXT, "munge_encode"));
  turns.acquire();
  const munge_err_t result = real(credential, context, payload, size);
  turns.release();
  return result;
}

extern "C" munge_err_t munge_decode(const char* credential, munge_ctx_t context, void** payload, int* size, uid_t* uid,
                                    gid_t* gid) {
  static const auto real = reinterpret_cast<decltype(&munge_decode)>(::dlsym(RTLD_NEXT, "munge_decode"));
  turns.acquire();
  const munge_err_t result = real(credential, context, payload, size, uid, gid);
  turns.release();
  return result;
}
