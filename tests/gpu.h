// The system's GPU, for tests that compare it with the emulator.
#pragma once

#include <memory>
#include <string>

#include "fp4lab/driver.h"
#include "fp4lab/error.h"

namespace fp4lab {

// The system's driver with the context of the first device that runs `arch` code current; null where there is
// none.
inline std::shared_ptr<Driver> open_gpu(const char* arch = "sm_90a") {
  try {
    auto d = Driver::open("cuda");
    const int ordinal = find_device(*d, arch);
    if (ordinal < 0) return nullptr;
    CUdevice device;
    CUcontext context;
    d->cuDeviceGet(&device, ordinal);
    d->cuDevicePrimaryCtxRetain(&context, device);
    d->cuCtxSetCurrent(context);
    return d;
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace fp4lab
