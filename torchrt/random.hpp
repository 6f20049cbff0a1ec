// Counter-based randomness: every value depends only on its coordinate, not on the layout or on
// earlier values.
#pragma once

#include <cstdint>
#include <string_view>

namespace espalier::torchrt {

// Mixes 64 bits well (splitmix64's finalizer).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(mix(a) ^ b); }

constexpr std::uint64_t hash_name(std::string_view name) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace espalier::torchrt
