// A problem's operands and its output in device memory, uploaded once and shared by every kernel that
// computes it.
#pragma once

#include <cstdint>
#include <vector>

#include "fp4lab/device.h"
#include "fp4lab/problem.h"

namespace fp4lab {

struct DeviceOperand {
  int rows = 0;
  int k = 0;
  DeviceBuffer codes;   // [rows][k / 2]
  DeviceBuffer scales;  // blocked 128x4, padded
};

struct DeviceGroup {
  Shape shape;
  DeviceOperand a, b, b2;  // b2 is empty unless dual
  DeviceBuffer c;          // fp16 [m][n]
};

class DeviceProblem {
 public:
  DeviceProblem(const Device& device, const Problem& problem);

  const Case& spec() const { return spec_; }
  const std::vector<DeviceGroup>& groups() const { return groups_; }
  // Every element of C becomes kHalfPoison (compare.h): what was never written shows.
  void poison();
  // C of one group as fp16 bits, row-major.
  std::vector<std::uint16_t> output(std::size_t group) const;

 private:
  Case spec_;
  std::vector<DeviceGroup> groups_;
};

}  // namespace fp4lab
