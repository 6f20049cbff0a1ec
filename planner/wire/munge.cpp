#include "planner/wire/munge.hpp"

#include <munge.h>

#include <cstdlib>
#include <memory>

#include "planner/core/error.hpp"

namespace espalier::wire {
namespace {
struct FreeBytes {
  void operator()(void* bytes) const { std::free(bytes); }
};
}  // namespace

std::string munge_seal(const std::string& payload) {
  char* text = nullptr;
  const munge_err_t error = munge_encode(&text, nullptr, payload.data(), static_cast<int>(payload.size()));
  const std::unique_ptr<char, FreeBytes> owner(text);
  if (error != EMUNGE_SUCCESS)
    throw Error(std::string("munge: cannot make a credential: ") + munge_strerror(error) +
                "; check that munged runs here");
  return text;
}

Credential munge_open(const std::string& credential) {
  void* bytes = nullptr;
  int size = 0;
  Credential result{{}, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  const munge_err_t error = munge_decode(credential.c_str(), nullptr, &bytes, &size, &result.uid, &result.gid);
  const std::unique_ptr<void, FreeBytes> owner(bytes);
  if (error != EMUNGE_SUCCESS)
    throw Error(std::string("munge: credential refused: ") + munge_strerror(error) +
                "; check munge.key and the clocks of both nodes");
  if (bytes != nullptr && size > 0)
    result.payload.assign(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
  return result;
}

}  // namespace espalier::wire
