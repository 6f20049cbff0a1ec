// Files for the tests of safetensors, in a new folder.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "torchrt/safetensors/writer.hpp"

namespace espalier::torchrt {

class TestFolder {
 public:
  TestFolder() {
    char name[] = "/tmp/espalier-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A file that anybody may have made: any header text and any number of zero bytes.
inline void write_raw(const std::string& path, const std::string& header, std::size_t data_bytes) {
  std::ofstream out(path, std::ios::binary);
  const std::uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << std::string(data_bytes, '\0');
}

inline std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void flip_byte(const std::string& path, std::size_t position) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(position));
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(position));
  file.put(byte);
}

}  // namespace espalier::torchrt
