// The registrations of nvcc's host code before main(): fat binaries, and the host addresses of their kernels
// and variables. A fat binary is loaded at its first use.
#pragma once

#include <vector>

#include "runtime/runtime.h"

namespace fp4lab::cudart {

// The driver's function for a program's kernel: the address of its host stub, a cudaKernel_t or a
// cudaFunction_t. Loads the fat binary. cudaErrorInvalidDeviceFunction: no such kernel.
cudaError_t find_function(const void* kernel, CUfunction* function);

// The program's handle of that function: its host stub, else the function itself.
const void* find_kernel(CUfunction);

// The device address and size of the variable of a host symbol. cudaErrorInvalidSymbol: not registered.
cudaError_t find_variable(const void* symbol, CUdeviceptr* address, size_t* bytes);

// The wrappers of the currently registered fat binaries.
std::vector<const void*> registered_images();

}  // namespace fp4lab::cudart
