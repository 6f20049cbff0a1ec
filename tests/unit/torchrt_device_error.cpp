#include <doctest/doctest.h>

#include "torchrt/device/device_error.hpp"

using espalier::torchrt::loses_device;

TEST_CASE("what CUDA says of a GPU that fails is told from what it says of a program") {
  for (const int lost : {46, 214, 220, 226, 700, 702, 719, 802, 803, 999}) CHECK(loses_device(lost));
  for (const int not_lost : {0, 1, 2, 101, 600, 710, 800, 804}) CHECK_FALSE(loses_device(not_lost));
}
