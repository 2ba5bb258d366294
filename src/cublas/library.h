// Shared parts of libcublas.so.13 and libcublasLt.so.13.
#pragma once

#include "cublas/product.h"

namespace fp4lab::blas {

// The target of a cublasHandle_t.
struct Handle {
  CUstream stream = nullptr;
  int math_mode = 0, pointer_mode = 0, atomics_mode = 0;
};

inline constexpr int kVersion = 130100;  // 13.1.0, that of CUDA 13.0

// Makes the device's primary context current if there is no current one. False: there is no device.
bool have_context();

// libraryPropertyType: major, minor, patch level.
Status property(int type, int* value);

const char* status_name(int);
const char* status_text(int);

}  // namespace fp4lab::blas
