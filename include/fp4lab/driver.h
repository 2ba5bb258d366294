// The CUDA driver API as a table of functions, filled at run time from a shared library that exports the C
// symbols of cuda.h: the system's libcuda.so.1, or the emulator's library of the same name. Nothing links a
// driver.
//
//   auto driver = Driver::open("auto", "sm_100a");
//   driver->cuMemAlloc(&pointer, bytes);                 // throws with call, arguments, CUDA error name and
//   text CUresult r = driver->cuEventQuery.status(event);     // the plain result, for calls whose "failure"
//   is an answer
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fp4lab/emulator.h"
#include "fp4lab/error.h"

// One list is the one source: member, type and exported name. cuda.h maps plain names to versioned ones by
// macros (cuMemAlloc -> cuMemAlloc_v2); the list is expanded by those same macros, so the name looked up in
// the library and the type belong together, and `driver.cuMemAlloc(...)` in user code lands on the same
// member. Not here on purpose: cuCtxCreate, whose signature differs between the toolkits that are supported
// (the lab uses the device's primary context).
// clang-format off
#define FP4LAB_DRIVER_CALLS(X) \
  X(cuInit) X(cuDriverGetVersion) \
  X(cuGetErrorName) X(cuGetErrorString) \
  X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetAttribute) \
  X(cuDeviceTotalMem) \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) \
  X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize) X(cuCtxSetLimit) \
  X(cuCtxGetLimit) \
  X(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) \
  X(cuModuleGetGlobal) \
  X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuFuncSetCacheConfig) \
  X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemGetAddressRange) X(cuMemHostAlloc) \
  X(cuMemFreeHost) \
  X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoD) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) \
  X(cuMemcpyDtoDAsync) \
  X(cuMemsetD8) X(cuMemsetD16) X(cuMemsetD32) X(cuMemsetD8Async) X(cuMemsetD16Async) \
  X(cuMemsetD32Async) \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery) \
  X(cuStreamWaitEvent) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamIsCapturing) \
  X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy) \
  X(cuGraphGetNodes) \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) \
  X(cuEventElapsedTime) \
  X(cuLaunchKernel) X(cuLaunchKernelEx) \
  X(cuTensorMapEncodeTiled) X(cuTensorMapEncodeIm2col) X(cuTensorMapReplaceAddress) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuOccupancyMaxActiveClusters) \
  X(cuOccupancyMaxPotentialClusterSize)
// clang-format on

namespace fp4lab {

struct Driver;

/// Finds the address of an exported name; nullptr when there is none.
using SymbolLookup = std::function<void*(const char* name)>;

namespace detail {
[[noreturn]] void driver_call_missing(const Driver& driver, const char* name);
[[noreturn]] void driver_call_failed(const Driver& driver, const char* name, const std::string& arguments,
                                     CUresult);
std::string describe_argument(const void* pointer);

template <class T>
std::string describe_argument(T value) {
  if constexpr (std::is_pointer_v<T>)
    return describe_argument(reinterpret_cast<const void*>(value));
  else if constexpr (std::is_enum_v<T>)
    return fmt::format("{}", static_cast<std::int64_t>(value));
  else
    return fmt::format("{}", value);
}
}  // namespace detail

/// One entry of the table. A missing symbol is an error of its first use, not of opening the library: an
/// older driver or a partial implementation serves whoever does not need the call.
template <class F>
class DriverCall;

template <class... Args>
class DriverCall<CUresult (*)(Args...)> {
 public:
  using Function = CUresult (*)(Args...);

  DriverCall(const Driver& driver, const char* name) : driver_(driver), name_(name) {}
  DriverCall(const DriverCall&) = delete;

  /// Calls; throws Error with the call, its arguments, the CUDA error's name and text unless it returns
  /// CUDA_SUCCESS.
  void operator()(Args... args) const {
    if (CUresult result = status(args...); result != CUDA_SUCCESS) {
      std::string list;
      ((list += (list.empty() ? "" : ", ") + detail::describe_argument(args)), ...);
      detail::driver_call_failed(driver_, name_, list, result);
    }
  }

  /// Calls and gives the result as it is. Throws only when the library does not export the symbol.
  CUresult status(Args... args) const {
    if (!function_) detail::driver_call_missing(driver_, name_);
    return function_(args...);
  }

  bool available() const { return function_ != nullptr; }
  const char* name() const { return name_; }
  void fill(const SymbolLookup& lookup) { function_ = reinterpret_cast<Function>(lookup(name_)); }

 private:
  const Driver& driver_;
  const char* name_;
  Function function_ = nullptr;
};

#define FP4LAB_STRING_EXPANDED(text) #text
#define FP4LAB_STRING(name) FP4LAB_STRING_EXPANDED(name)

struct Driver {
  /// Fills the table through `lookup`. `label` names the filling in messages ("cuda", "emulator", a test's
  /// own).
  Driver(std::string label, std::string loaded_from, const SymbolLookup& lookup);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Loads a shared library and fills the table from it. Throws with the loader's text.
  static std::shared_ptr<Driver> load(std::string label, const std::string& library);

  /// The system's driver (`libcuda.so.1` by the loader's rules, then the usual folders). Throws Error saying
  /// what was tried and what to do. Opening it twice gives the same table.
  static std::shared_ptr<Driver> cuda();
  /// The emulator's library: FP4LAB_EMULATOR, else emulator/libcuda.so.1 next to the executable or one folder
  /// up.
  static std::shared_ptr<Driver> emulator();
  /// `name` is cuda, emulator or auto. auto is cuda when a driver and a device that can run `arch` are there
  /// ("sm_100a"; an empty arch takes any device), otherwise the emulator.
  static std::shared_ptr<Driver> open(std::string_view name, std::string_view arch = "");

  /// "CUDA_ERROR_INVALID_VALUE (1): invalid argument"
  std::string describe(CUresult result) const;
  bool is_emulator() const { return fp4lab_emulator_report != nullptr; }
  /// Address of any exported symbol, nullptr when there is none: for what the emulator offers beside the
  /// driver API (fp4lab/emulator.h).
  void* symbol(const char* name) const { return lookup_(name); }
  /// For a result that stands for a failed kernel on the emulator: a newline and its report. Otherwise empty.
  std::string fault_report(CUresult result) const;

  std::string label;        ///< cuda, emulator
  std::string loaded_from;  ///< path the table was filled from

#define FP4LAB_DRIVER_MEMBER(call) DriverCall<decltype(&::call)> call{*this, FP4LAB_STRING(call)};
  FP4LAB_DRIVER_CALLS(FP4LAB_DRIVER_MEMBER)
#undef FP4LAB_DRIVER_MEMBER

 private:
  SymbolLookup lookup_;
  decltype(&::fp4lab_emulator_report) fp4lab_emulator_report =
      nullptr;  // the emulator's mark; no driver has it
};

/// Path of the emulator's library that Driver::emulator() would load; empty when there is none. The second
/// form also says where it looked.
std::string emulator_library();
std::string emulator_library(std::vector<std::string>& looked_at);

/// A compute target as the toolkit names it. An `a` target (sm_100a) runs on exactly that compute capability,
/// a plain one on its own major number from its minor on.
struct Arch {
  int major = 0, minor = 0;  ///< 0.0 stands for "any device"
  bool exact = false;
  bool runs_on(int device_major, int device_minor) const {
    if (major == 0) return true;
    return device_major == major && (exact ? device_minor == minor : device_minor >= minor);
  }
};
/// "sm_100a", "sm_90"; "" is any device. Throws for anything else.
Arch parse_arch(std::string_view arch);

/// Ordinal of the first device of `driver` that runs code for `arch`, -1 when none. Calls cuInit.
int find_device(const Driver& driver, std::string_view arch);

}  // namespace fp4lab
