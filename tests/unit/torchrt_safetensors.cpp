#include <doctest/doctest.h>

#include <random>

#include "planner/core/error.hpp"
#include "tests/unit/torchrt_safetensors_cases.hpp"
#include "torchrt/safetensors/file.hpp"

using namespace espalier;
using namespace espalier::torchrt;

namespace {

std::vector<std::byte> stored(const SafetensorsFile& file, const StoredTensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes);
  file.read(tensor, 0, bytes);
  return bytes;
}

// The message about a file with this header, without the file's name.
std::string complaint(const std::string& header, std::size_t data_bytes) {
  const TestFolder folder;
  const std::string path = folder / "x.safetensors";
  write_raw(path, header, data_bytes);
  try {
    const SafetensorsFile file(path);
  } catch (const Error& problem) {
    const std::string prefix = "safetensors file " + path + ": ", text = problem.what();
    REQUIRE(text.rfind(prefix, 0) == 0);
    return text.substr(prefix.size());
  }
  return "";
}

std::string one(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("what is written is read back") {
  const TestFolder folder;
  const std::string path = folder / "x.safetensors";
  const std::vector<float> first = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint16_t> second = {7, 8, 9};
  SafetensorsWriter writer(path, {{"z.first", ElementType::f32, {2, 3}}, {"a.second", ElementType::bf16, {3}}},
                           {{"format", "pt"}});
  writer.append(std::as_bytes(std::span(first)));
  writer.append(std::as_bytes(std::span(second)));
  writer.finish();
  const SafetensorsFile file(path);
  REQUIRE(file.tensors().size() == 2);
  const StoredTensor* z = file.find("z.first");
  REQUIRE(z);
  CHECK(z->shape == std::vector<std::int64_t>{2, 3});
  CHECK(std::memcmp(stored(file, *z).data(), first.data(), 24) == 0);
  CHECK(file.find("a.second")->type == ElementType::bf16);
  CHECK(std::memcmp(stored(file, *file.find("a.second")).data(), second.data(), 6) == 0);
  CHECK(file.find("b") == nullptr);
  CHECK(text_of_file(path).find("\"__metadata__\":{\"format\":\"pt\"}") != std::string::npos);
}

TEST_CASE("a truncated file is refused, wherever it ends") {
  const TestFolder folder;
  const std::string path = folder / "x.safetensors";
  write_raw(path, one("F32", "[4]", "[0,16]"), 16);
  const std::string whole = text_of_file(path);
  CHECK(SafetensorsFile(path).tensors().size() == 1);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{30}, whole.size() - 1}) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, size);
    CHECK_THROWS_WITH_AS(SafetensorsFile{path}, doctest::Contains("truncated"), Error);
  }
}

TEST_CASE("a lying header is refused by tensor") {
  CHECK(complaint(one("F32", "[4]", "[0,16]"), 16) == "");
  CHECK(complaint(one("F32", "[5]", "[0,16]"), 16) == "tensor a: has 16 bytes, its shape needs 20");
  CHECK(complaint(one("F32", "[4]", "[0,32]"), 16) == "tensor a: ends at byte 32 of 16; the file is truncated");
  CHECK(complaint(one("F32", "[4]", "[16,0]"), 16) == "tensor a: data_offsets must be a begin and an end");
  CHECK(complaint(one("F32", "[4]", "[0]"), 16) == "tensor a: data_offsets must be a begin and an end");
  CHECK(complaint(one("F32", "[-4]", "[0,16]"), 16) == "tensor a: shape must be a list of numbers");
  CHECK(complaint(one("F32", "[4.5]", "[0,16]"), 16) == "tensor a: shape must be a list of numbers");
  CHECK(complaint(one("F32", "[4611686018427387904,4]", "[0,16]"), 16) == "tensor a: its shape is absurd");
  CHECK(complaint(one("F32", "[4]", "[0,99999999999999999999]"), 16) ==
        "tensor a: data_offsets must be a list of numbers");
  CHECK(complaint(one("F4", "[4]", "[0,16]"), 16) == "tensor a: unknown dtype \"F4\"");
  CHECK(complaint(R"({"a":{"shape":[4],"data_offsets":[0,16],"x":1}})", 16) == "tensor a: dtype is missing");
  CHECK(complaint(R"({"a":3})", 16) == "tensor a: its entry must hold dtype, shape and data_offsets");
  CHECK(complaint("[]", 0) == "its header is no JSON object");
  CHECK(complaint("{", 0) == "its header is no JSON object");
}

TEST_CASE("tensors that overlap, leave a hole or leave bytes over are refused") {
  const auto two = [](const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[2],"data_offsets":)" +
           second + "}}";
  };
  CHECK(complaint(two("[16,24]"), 24) == "");
  CHECK(complaint(two("[12,20]"), 20) == "tensor b: overlaps another");
  CHECK(complaint(two("[0,8]"), 16) == "tensor a: overlaps another");
  CHECK(complaint(two("[20,28]"), 28) == "tensor b: there is a hole before it");
  CHECK(complaint(two("[16,24]"), 30) == "has 6 bytes that belong to no tensor");
}

TEST_CASE("however a header is mutated, it is refused or its tensors lie inside the file") {
  const std::string good = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                           R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[16,28]}})";
  const TestFolder folder;
  const std::string path = folder / "x.safetensors";
  std::mt19937 random(3);
  int refused = 0, taken = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string header = good;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = random() % header.size();
      const char with = "0123456789-.,:[]{}\"eFab "[random() % 24];
      if (random() % 2 == 0) header[at] = with;
      else header.insert(at, 1, with);
    }
    write_raw(path, header, 28);
    try {
      const SafetensorsFile file(path);
      std::size_t bytes = 0;
      for (const auto& [name, tensor] : file.tensors()) {
        for (const std::byte byte : stored(file, tensor)) CHECK(byte == std::byte{0});
        bytes += tensor.bytes;
      }
      CHECK(bytes == 28);
      ++taken;
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
  CHECK(taken > 10);
}

TEST_CASE("a header that claims to be huge is not read") {
  const TestFolder folder;
  const std::string path = folder / "x.safetensors";
  const std::uint64_t length = std::uint64_t{1} << 62;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&length), sizeof length);
  CHECK_THROWS_WITH_AS(SafetensorsFile{path}, doctest::Contains("its header would be of"), Error);
}

TEST_CASE("a file that cannot be made says which and why") {
  CHECK_THROWS_WITH_AS(SafetensorsWriter("/nonexistent/x", {}),
                       "/nonexistent/x: cannot be written: No such file or directory", Error);
  CHECK_THROWS_WITH_AS(SafetensorsFile{"/nonexistent/x"}, doctest::Contains("No such file or directory"), Error);
}

TEST_CASE("half-precision numbers become the same floats, floats the nearest bfloat16") {
  CHECK(f16_to_float(0x3c00) == 1.0F);
  CHECK(f16_to_float(0xc500) == -5.0F);
  CHECK(f16_to_float(0x7bff) == 65504.0F);
  CHECK(f16_to_float(0x0001) == 0x1p-24F);
  CHECK(f16_to_float(0x03ff) == 0x1.ff8p-15F);
  CHECK(f16_to_float(0xfc00) < -3e38F);
  CHECK(f16_to_float(0x7e00) != f16_to_float(0x7e00));
  CHECK(bf16_to_float(0x3f80) == 1.0F);
  CHECK(float_to_bf16(1.0F) == 0x3f80);
  CHECK(float_to_bf16(1.00390625F) == 0x3f80);  // halfway: rounds to even
  CHECK(float_to_bf16(1.01171875F) == 0x3f82);  // halfway: rounds up to even
  CHECK(float_to_bf16(1.0039065F) == 0x3f81);
  CHECK(bf16_to_float(float_to_bf16(-3e38F)) < 0);
  const float not_a_number = bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001u)));
  CHECK(not_a_number != not_a_number);
}
