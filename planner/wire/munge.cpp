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
struct FreeContext {
  void operator()(munge_ctx_t context) const { munge_ctx_destroy(context); }
};
using Context = std::unique_ptr<munge_ctx, FreeContext>;

Context make_context() {
  Context context(munge_ctx_create());
  if (!context) throw Error("munge: no memory for a context");
  return context;
}

}  // namespace

std::string munge_seal(const std::string& payload, uid_t reader) {
  const Context context = make_context();
  char* text = nullptr;
  munge_err_t error = munge_ctx_set(context.get(), MUNGE_OPT_CIPHER_TYPE, static_cast<int>(MUNGE_CIPHER_AES256));
  if (error == EMUNGE_SUCCESS) error = munge_ctx_set(context.get(), MUNGE_OPT_UID_RESTRICTION, reader);
  if (error == EMUNGE_SUCCESS)
    error = munge_encode(&text, context.get(), payload.data(), static_cast<int>(payload.size()));
  const std::unique_ptr<char, FreeBytes> owner(text);
  if (error != EMUNGE_SUCCESS)
    throw Error(std::string("munge: cannot make a credential: ") + munge_strerror(error) +
                "; check that munged runs here");
  return text;
}

Credential munge_open(const std::string& credential) {
  const Context context = make_context();
  void* bytes = nullptr;
  int size = 0;
  Credential result{{}, static_cast<uid_t>(-1), static_cast<gid_t>(-1), std::nullopt};
  const munge_err_t error = munge_decode(credential.c_str(), context.get(), &bytes, &size, &result.uid, &result.gid);
  const std::unique_ptr<void, FreeBytes> owner(bytes);
  if (error != EMUNGE_SUCCESS)
    throw Error(std::string("munge: credential refused: ") + munge_strerror(error) +
                "; check munge.key and the clocks of both nodes");
  if (bytes != nullptr && size > 0)
    result.payload.assign(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
  constexpr auto kAnybody = static_cast<uid_t>(MUNGE_UID_ANY);
  uid_t reader = kAnybody;
  if (munge_ctx_get(context.get(), MUNGE_OPT_UID_RESTRICTION, &reader) == EMUNGE_SUCCESS && reader != kAnybody)
    result.reader = reader;
  int cipher = MUNGE_CIPHER_NONE;
  result.encrypted =
      munge_ctx_get(context.get(), MUNGE_OPT_CIPHER_TYPE, &cipher) == EMUNGE_SUCCESS && cipher != MUNGE_CIPHER_NONE;
  return result;
}

}  // namespace espalier::wire
