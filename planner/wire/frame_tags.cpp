#include "planner/wire/frame_tags.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>

#include "planner/core/error.hpp"

namespace espalier::wire {
namespace {

// How far check() looks for the place of a frame that is out of its place, and in how large a frame: a peer must not
// make this process hash much for nothing.
constexpr std::uint64_t kNear = 64;
constexpr std::size_t kSmall = 4096;

struct FreeMac {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
};

const unsigned char* bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// When the process ends, OpenSSL frees what it keeps for each thread, also of threads that still run. A thread that
// waits for MUNGE may end at that moment, and would free the same once more. So OpenSSL is told to free nothing. The
// first use of OpenSSL in a process decides.
void keep_at_exit() { [[maybe_unused]] static const int asked = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

EVP_MAC_CTX* make_context(std::string_view key) {
  keep_at_exit();
  const std::unique_ptr<EVP_MAC, FreeMac> mac(EVP_MAC_fetch(nullptr, OSSL_MAC_NAME_HMAC, nullptr));
  EVP_MAC_CTX* const context = mac ? EVP_MAC_CTX_new(mac.get()) : nullptr;
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                   OSSL_PARAM_construct_end()};
  if (context == nullptr || EVP_MAC_init(context, bytes(key), key.size(), parameters) != 1) {
    EVP_MAC_CTX_free(context);
    throw Error("stream: libcrypto has no HMAC-SHA256");
  }
  return context;
}

}  // namespace

void FrameTags::Free::operator()(evp_mac_ctx_st* context) const { EVP_MAC_CTX_free(context); }

Key hmac(std::string_view key, std::string_view message) {
  EVP_MAC_CTX* const context = make_context(key);
  Key result{};
  std::size_t size = 0;
  const bool done = EVP_MAC_update(context, bytes(message), message.size()) == 1 &&
                    EVP_MAC_final(context, result.data(), &size, result.size()) == 1 && size == result.size();
  EVP_MAC_CTX_free(context);
  if (!done) throw Error("stream: libcrypto cannot make an HMAC");
  return result;
}

FrameTags::FrameTags(const Key& key)
    : context_(make_context({reinterpret_cast<const char*>(key.data()), key.size()})) {}

std::string FrameTags::tag_of(std::uint64_t counter, std::string_view frame) {
  unsigned char count[8], tag[kKeyBytes];
  for (int i = 0; i < 8; ++i) count[i] = static_cast<unsigned char>(counter >> (56 - 8 * i));
  std::size_t size = 0;
  // A copy for each tag: before OpenSSL 3.0.3 a context that has made one cannot be reset.
  const std::unique_ptr<evp_mac_ctx_st, Free> mac(EVP_MAC_CTX_dup(context_.get()));
  if (!mac || EVP_MAC_update(mac.get(), count, sizeof count) != 1 ||
      EVP_MAC_update(mac.get(), bytes(frame), frame.size()) != 1 ||
      EVP_MAC_final(mac.get(), tag, &size, sizeof tag) != 1 || size != sizeof tag)
    throw Error("stream: libcrypto cannot make an HMAC");
  return {reinterpret_cast<const char*>(tag), kTagBytes};
}

std::string FrameTags::next(std::string_view frame) { return tag_of(counter_++, frame); }

bool FrameTags::matches(std::uint64_t counter, std::string_view frame, std::string_view tag) {
  return tag.size() == kTagBytes && CRYPTO_memcmp(tag_of(counter, frame).data(), tag.data(), kTagBytes) == 0;
}

void FrameTags::check(std::string_view frame, std::string_view tag) {
  if (matches(counter_, frame, tag)) {
    ++counter_;
    return;
  }
  const std::string what = "stream: message " + std::to_string(counter_) + " was not sent as it came: ";
  for (std::uint64_t near = 1; near <= kNear && frame.size() <= kSmall; ++near) {
    if (near <= counter_ && matches(counter_ - near, frame, tag))
      throw Error(what + "it repeats message " + std::to_string(counter_ - near));
    if (matches(counter_ + near, frame, tag))
      throw Error(what + "it is message " + std::to_string(counter_ + near) + ", and others before it are missing");
  }
  throw Error(what + "it has been altered on the way, or somebody else has sent it");
}

}  // namespace espalier::wire
