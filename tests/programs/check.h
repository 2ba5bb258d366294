// For the programs of this folder: each checks itself, says what is wrong and exits with 1.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define EXPECT(condition)                                                 \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                       \
    }                                                                     \
  } while (0)

#define CUDA(call)                                                                           \
  do {                                                                                       \
    const cudaError_t error_ = (call);                                                       \
    if (error_ != cudaSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      std::exit(1);                                                                          \
    }                                                                                        \
  } while (0)

// The call must give exactly this error, which it must also leave behind.
#define FAILS(code, call)                                                                  \
  do {                                                                                     \
    const cudaError_t error_ = (call);                                                     \
    if (error_ != (code)) {                                                                \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error_)); \
      std::exit(1);                                                                        \
    }                                                                                      \
    EXPECT(cudaPeekAtLastError() == (code) && cudaGetLastError() == (code));               \
  } while (0)
