// The heap behind malloc and free in kernels (CUDA C++ Programming Guide, "Dynamic Global Memory
// Allocation"). Both are called in the serial phase, so that the same seed gives the same addresses.
#pragma once

#include <cstdint>

namespace fp4lab::emu {

class GlobalMemory;

// 16-byte aligned memory of the device's heap; 0 if too little is left, or for 0 bytes.
uint64_t device_malloc(GlobalMemory&, uint64_t bytes);
// False if malloc did not return this address. Null is valid.
bool device_free(GlobalMemory&, uint64_t address);

}  // namespace fp4lab::emu
