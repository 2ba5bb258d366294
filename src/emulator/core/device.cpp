#include "emulator/core/machine.h"

namespace fp4lab::emu {
namespace {

struct Named {
  std::string_view name;
  DeviceModel model;
};
// B200: device query in pytorch/ao#4002 (148 SMs, 126.5 MB L2, 7680-bit memory at 3996 MHz), Blackwell tuning
// guide. H200: the same queries on an H200 with driver 580 (132 SMs, 50 MB L2, 6144-bit memory at 3201 MHz).
// The GPCs are inferred from published occupancy (about 34 clusters of 4 fit on a B200, 15 or 16 of 8 on an
// H100), not documented.
constexpr Named kModels[] = {
    {"b200",
     {"NVIDIA B200",
      10,
      0,
      148,
      233472,
      232448,
      2048,
      32,
      65536,
      512,
      0x380,
      16,
      191503138816,
      132644864,
      1965000,
      3996000,
      7680,
      {20, 20, 18, 18, 18, 18, 18, 18}}},
    {"h200",
     {"NVIDIA H200",
      9,
      0,
      132,
      233472,
      232448,
      2048,
      32,
      65536,
      0,
      0x210,
      16,
      150121545728,
      62914560,
      1980000,
      3201000,
      6144,
      {18, 18, 16, 16, 16, 16, 16, 16}}},
};

}  // namespace

const DeviceModel* device_model(std::string_view name) {
  for (const Named& n : kModels)
    if (n.name == name) return &n.model;
  return nullptr;
}

const DeviceModel* device_model(int major, int minor) {
  for (const Named& n : kModels)
    if (int(n.model.major) == major && int(n.model.minor) == minor) return &n.model;
  return nullptr;
}

std::vector<const DeviceModel*> device_models() {
  std::vector<const DeviceModel*> models;
  for (const Named& n : kModels) models.push_back(&n.model);
  return models;
}

std::string device_model_names() {
  std::string names;
  for (const Named& n : kModels) names += (names.empty() ? "" : ", ") + std::string(n.name);
  return names;
}

}  // namespace fp4lab::emu
