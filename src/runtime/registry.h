// What nvcc's host code registers before main(): fat binaries, and for each the host addresses that stand for
// its kernels and variables. A fat binary is loaded when something of it is used first.
#pragma once

#include <vector>

#include "runtime/runtime.h"

namespace fp4lab::cudart {

// The driver's function for what a program calls a kernel: the address of its host stub, a cudaKernel_t or a
// cudaFunction_t. Loads the fat binary. cudaErrorInvalidDeviceFunction: no such kernel.
cudaError_t find_function(const void* kernel, CUfunction* function);

// What the program calls that function: its host stub, else the function's own handle.
const void* find_kernel(CUfunction);

// The device address and size of the variable that a host symbol stands for. cudaErrorInvalidSymbol: none is
// registered.
cudaError_t find_variable(const void* symbol, CUdeviceptr* address, size_t* bytes);

// The wrappers of the fat binaries that are registered now.
std::vector<const void*> registered_images();

}  // namespace fp4lab::cudart
