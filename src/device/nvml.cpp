#include "fp4lab/nvml.h"

#include <dlfcn.h>

#include <algorithm>

namespace fp4lab {

// The C interface as NVIDIA documents it (NVML API reference, r580); nvml.h is not part of what the build
// needs.
using NvmlDevice = void*;
struct Nvml::State {
  int (*init)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*handle_by_bus)(const char*, NvmlDevice*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*max_clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;  // milliwatts
  int (*power_limit)(NvmlDevice, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  NvmlDevice device = nullptr;
};

namespace {
constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;

struct ClockReason {
  std::int64_t bit;
  const char* name;
};
constexpr ClockReason kReasons[] = {
    {0x1, "idle"},
    {0x2, "application clocks"},
    {0x4, "power cap"},
    {0x8, "hardware"},
    {0x10, "sync boost"},
    {0x20, "thermal (software)"},
    {0x40, "thermal (hardware)"},
    {0x80, "power brake"},
    {0x100, "display clocks"},
};
}  // namespace

std::string slowdown_names(std::int64_t bits) {
  if (bits < 0) return "unknown";
  std::string text;
  for (const ClockReason& r : kReasons)
    if (bits & r.bit) {
      text += (text.empty() ? "" : ", ") + std::string(r.name);
      bits &= ~r.bit;
    }
  if (bits) text += fmt::format("{}{:#x}", text.empty() ? "" : ", ", bits);
  return text.empty() ? "none" : text;
}

GpuSpan span_of(const std::vector<GpuState>& readings) {
  GpuSpan span;
  span.readings = readings.size();
  std::vector<int> clocks;
  for (const GpuState& r : readings) {
    if (r.sm_mhz >= 0) clocks.push_back(r.sm_mhz);
    span.memory_mhz = std::max(span.memory_mhz, r.memory_mhz);
    span.watts_max = std::max(span.watts_max, r.watts);
    span.celsius_max = std::max(span.celsius_max, r.celsius);
    if (r.slowdown > 0) span.slowdown |= r.slowdown;
  }
  std::sort(clocks.begin(), clocks.end());
  if (!clocks.empty())
    span.sm_mhz_min = clocks.front(), span.sm_mhz_median = clocks[clocks.size() / 2],
    span.sm_mhz_max = clocks.back();
  return span;
}

Nvml::Nvml(const Device& device, const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* text = dlerror();
    why_ = fmt::format("clocks and power are not recorded: {}", text ? text : library);
    return;
  }
  auto state = std::make_shared<State>();
  const auto find = [&](auto& call, std::initializer_list<const char*> names) {
    for (const char* name : names)
      if ((call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(handle, name)))) return;
  };
  find(state->init, {"nvmlInit_v2"});
  find(state->error_string, {"nvmlErrorString"});
  find(state->handle_by_bus, {"nvmlDeviceGetHandleByPciBusId_v2"});
  find(state->clock, {"nvmlDeviceGetClockInfo"});
  find(state->max_clock, {"nvmlDeviceGetMaxClockInfo"});
  find(state->power, {"nvmlDeviceGetPowerUsage"});
  find(state->power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  find(state->temperature, {"nvmlDeviceGetTemperature"});
  find(state->reasons,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  find(state->driver_version, {"nvmlSystemGetDriverVersion"});
  if (!state->init || !state->handle_by_bus || !state->error_string) {
    why_ = fmt::format("clocks and power are not recorded: {} is not NVML", library);
    return;
  }
  if (const int r = state->init(); r != 0) {
    why_ = fmt::format("clocks and power are not recorded: nvmlInit: {}", state->error_string(r));
    return;
  }
  // NVML counts devices its own way (CUDA_VISIBLE_DEVICES does not reach it): the bus tells which is meant.
  char bus[32] = "";
  const auto bus_of =
      reinterpret_cast<CUresult (*)(char*, int, CUdevice)>(device.driver().symbol("cuDeviceGetPCIBusId"));
  CUdevice ordinal = 0;
  device.driver().cuDeviceGet(&ordinal, device.ordinal());
  if (!bus_of || bus_of(bus, sizeof bus, ordinal) != CUDA_SUCCESS) {
    why_ = "clocks and power are not recorded: the driver does not give the device's PCI bus";
    return;
  }
  if (const int r = state->handle_by_bus(bus, &state->device); r != 0) {
    why_ = fmt::format("clocks and power are not recorded: NVML does not know the device {}: {}", bus,
                       state->error_string(r));
    return;
  }
  state_ = std::move(state);
}

GpuState Nvml::read() const {
  GpuState out;
  if (!state_) return out;
  const State& s = *state_;
  unsigned value = 0;
  unsigned long long bits = 0;
  if (s.clock && s.clock(s.device, kClockSm, &value) == 0) out.sm_mhz = int(value);
  if (s.clock && s.clock(s.device, kClockMemory, &value) == 0) out.memory_mhz = int(value);
  if (s.power && s.power(s.device, &value) == 0) out.watts = value / 1e3;
  if (s.temperature && s.temperature(s.device, kTemperatureGpu, &value) == 0) out.celsius = int(value);
  if (s.reasons && s.reasons(s.device, &bits) == 0) out.slowdown = std::int64_t(bits);
  return out;
}

std::string Nvml::driver_version() const {
  char text[96] = "";
  return state_ && state_->driver_version && state_->driver_version(text, sizeof text) == 0 ? text : "";
}

double Nvml::power_limit_watts() const {
  unsigned value = 0;
  return state_ && state_->power_limit && state_->power_limit(state_->device, &value) == 0 ? value / 1e3 : -1;
}

int Nvml::max_sm_mhz() const {
  unsigned value = 0;
  return state_ && state_->max_clock && state_->max_clock(state_->device, kClockSm, &value) == 0 ? int(value)
                                                                                                 : -1;
}

}  // namespace fp4lab
