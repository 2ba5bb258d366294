// What the GPU was doing while it was timed: clocks, power, temperature and the reasons for lower clocks,
// from the driver's management library (libnvidia-ml.so.1), which is opened at run time. Read only: nothing
// here changes a setting.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fp4lab/device.h"

namespace fp4lab {

/// One reading; a value that the library did not give is -1.
struct GpuState {
  int sm_mhz = -1, memory_mhz = -1;
  double watts = -1;
  int celsius = -1;
  std::int64_t slowdown = -1;  // bits, see slowdown_names
};

/// Readings of a span of time in short.
struct GpuSpan {
  size_t readings = 0;
  int sm_mhz_min = -1, sm_mhz_median = -1, sm_mhz_max = -1, memory_mhz = -1;
  double watts_max = -1;
  int celsius_max = -1;
  std::int64_t slowdown = 0;  // or of all
};
GpuSpan span_of(const std::vector<GpuState>& readings);

/// "power cap, thermal (hardware)"; "none" for 0. Idle and the application's own clock setting are named too:
/// NVML reference, nvmlClocksEventReasons.
std::string slowdown_names(std::int64_t bits);

class Nvml {
 public:
  /// Never throws: without the library, or where it does not know the device, present() is false and why()
  /// says what was tried.
  explicit Nvml(const Device& device, const std::string& library = "libnvidia-ml.so.1");

  bool present() const { return state_ != nullptr; }
  const std::string& why() const { return why_; }
  GpuState read() const;
  /// What does not change during a run; empty or -1 where unknown.
  std::string driver_version() const;  // "580.159.04"
  double power_limit_watts() const;
  int max_sm_mhz() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::string why_;
};

}  // namespace fp4lab
