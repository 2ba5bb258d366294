#include "runtime/runtime.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "fp4lab/emulator.h"
#include "runtime/registry.h"

namespace fp4lab::cudart {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local bool entered = false;

// An extension of the emulator's driver; null in a driver for real devices.
#define OF_EMULATOR(function) reinterpret_cast<decltype(&function)>(dlsym(RTLD_DEFAULT, #function))

// Selects the device model that the program was built for. Examining all fat binaries takes time, so it is
// only done if their number has changed.
void choose_machine() {
  static std::atomic<size_t> seen = 0;
  const std::vector<const void*> images = registered_images();
  if (images.size() == seen.exchange(images.size()) || images.empty()) return;
  if (const auto select = OF_EMULATOR(fp4lab_emulator_select_for)) select(images.data(), images.size());
}

// The driver may be used before the runtime. Fat binaries register themselves after this library's own
// constructors and before main().
__attribute__((constructor)) void offer_choice() {
  if (const auto select_by = OF_EMULATOR(fp4lab_emulator_select_by)) select_by(choose_machine);
}
__attribute__((destructor)) void withdraw_choice() {
  if (const auto select_by = OF_EMULATOR(fp4lab_emulator_select_by)) select_by(nullptr);
}

// The primary context is retained for the process's life, as the runtime does.
CUresult primary(CUcontext* context) {
  static CUcontext shared = nullptr;
  static const CUresult result = [] {
    if (CUresult r = cuInit(0)) return r;
    CUdevice device;
    if (CUresult r = cuDeviceGet(&device, 0)) return r;
    return cuDevicePrimaryCtxRetain(&shared, device);
  }();
  *context = shared;
  return result;
}

}  // namespace

int refuse(const char* name, std::atomic<bool>& said);

CUresult enter() {
  if (entered) return CUDA_SUCCESS;
  CUcontext context, current = nullptr;
  if (CUresult r = primary(&context)) return r;
  if (CUresult r = cuCtxGetCurrent(&current)) return r;
  if (!current)
    if (CUresult r = cuCtxSetCurrent(context)) return r;
  entered = true;
  return CUDA_SUCCESS;
}

CUresult set_device(int ordinal) {
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  CUcontext context;
  if (CUresult r = primary(&context)) return r;
  entered = true;
  return cuCtxSetCurrent(context);
}

// The runtime's error codes have the driver's numbers (driver_types.h), even where the runtime's name
// differs: 3, 201 and 500 are cudaErrorInitializationError, cudaErrorDeviceUninitialized and
// cudaErrorSymbolNotFound.
cudaError_t from_driver(CUresult r) { return static_cast<cudaError_t>(r); }
static_assert(int(cudaErrorInitializationError) == int(CUDA_ERROR_NOT_INITIALIZED));
static_assert(int(cudaErrorNoKernelImageForDevice) == int(CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(int(cudaErrorDeviceUninitialized) == int(CUDA_ERROR_INVALID_CONTEXT));
static_assert(int(cudaErrorSymbolNotFound) == int(CUDA_ERROR_NOT_FOUND));
static_assert(int(cudaErrorIllegalAddress) == int(CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(int(cudaErrorLaunchFailure) == int(CUDA_ERROR_LAUNCH_FAILED));
static_assert(int(cudaErrorCooperativeLaunchTooLarge) == int(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE));
static_assert(int(cudaErrorInvalidClusterSize) == int(CUDA_ERROR_INVALID_CLUSTER_SIZE));

cudaError_t finish(cudaError_t e) {
  if (e != cudaSuccess) last_error = e;
  return e;
}

int refuse(const char* name, std::atomic<bool>& said) {
  if (!said.exchange(true))
    explain(cudaErrorNotSupported, "%s is not emulated; it returns cudaErrorNotSupported", name);
  return finish(cudaErrorNotSupported);
}

cudaError_t explain(cudaError_t code, const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::fputs("fp4lab runtime: ", stderr);
  std::vfprintf(stderr, format, values);
  std::fputc('\n', stderr);
  va_end(values);
  return code;
}

}  // namespace fp4lab::cudart

using namespace fp4lab::cudart;

// A faulted context's error is sticky: the driver keeps it, so it returns after being read.
cudaError_t cudaGetLastError() {
  const cudaError_t e = last_error;
  last_error = cudaSuccess;
  return e;
}

cudaError_t cudaPeekAtLastError() { return last_error; }
