#include "fp4lab/device_problem.h"

#include "fp4lab/compare.h"

namespace fp4lab {
namespace {

DeviceOperand upload(const Device& device, const Operand& operand) {
  DeviceOperand out{operand.rows, operand.k, {}, {}};
  if (operand.rows == 0) return out;
  out.codes = DeviceBuffer::from(device, std::span<const std::uint8_t>(operand.codes));
  out.scales = DeviceBuffer::from(device, std::span<const std::uint8_t>(operand.blocked));
  return out;
}

}  // namespace

DeviceProblem::DeviceProblem(const Device& device, const Problem& problem) : spec_(problem.spec) {
  for (const GroupData& g : problem.groups)
    groups_.push_back({g.shape, upload(device, g.a), upload(device, g.b), upload(device, g.b2),
                       DeviceBuffer(device, std::size_t(g.shape.m) * g.shape.n * 2)});
  poison();
}

void DeviceProblem::poison() {
  for (DeviceGroup& g : groups_) g.c.fill(kHalfPoison & 0xff);
}

std::vector<std::uint16_t> DeviceProblem::output(std::size_t group) const {
  return groups_.at(group).c.values<std::uint16_t>();
}

}  // namespace fp4lab
