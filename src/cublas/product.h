// Matrix products as cuBLAS defines them, computed by the host in stream order, as a reference for programs
// on the emulator. Sums are rounded in fp32 (fp64 for fp64 and for integers, which are exact) in an order of
// their own, so the bits are not those of NVIDIA's library.
#pragma once

#include <cuda.h>
#include <library_types.h>

#include <cstdint>
#include <functional>
#include <string>

namespace fp4lab::blas {

// cublasStatus_t (cublas_api.h of CUDA 13.0).
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kInternalError = 14,
  kNotSupported = 15
};

// cublasLtMatmulMatrixScale_t (cublasLt.h of CUDA 13.0).
enum class ScaleMode : int32_t { tensor = 0, vec16_ue4m3 = 1, vec32_ue8m0 = 2, outer_vector = 3 };

// A matrix. Element (r, c) of batch entry b is `r * row + c * column + b * batch` elements after `data`, or
// after pointer b of the device's array `each`.
struct Matrix {
  void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  int64_t rows = 0, columns = 0, row = 0, column = 0, batch = 0;
  void* const* each = nullptr;
  const void* scale = nullptr;  // in device memory; its meaning: `mode`
  ScaleMode mode = ScaleMode::tensor;

  Matrix transposed() const;
};

// alpha or beta: given with the call, or read from device memory when the product runs.
struct Scalar {
  double value = 0;
  const void* on_device = nullptr;
  cudaDataType type = CUDA_R_32F;
};

enum class Activation : uint8_t { none, relu, gelu };

// d = activation(alpha a b + beta c + bias), a is m x k, b k x n, c and d m x n; bias has m elements.
struct Product {
  Matrix a, b, c, d;
  Scalar alpha, beta;
  int64_t entries = 1;  // of the batch
  Activation activation = Activation::none;
  const void* bias = nullptr;
  cudaDataType bias_type = CUDA_R_32F;
  int64_t bias_batch = 0;
  float* largest = nullptr;  // in device memory: the largest magnitude of d before scaling
};

// Empty, or why the `bytes` bytes from `at` on are not device memory.
std::string missing_bytes(const std::string& name, const void* at, int64_t bytes);

double value_at(const void* data, cudaDataType, int64_t index);

// Empty, or why this product is not supported: types, sizes, invalid memory.
std::string why_not(const Product&);

// Submits it to the stream. `call`: the caller's name, for messages on stderr.
Status enqueue(const char* call, const Product&, CUstream);

// Submits `work` to the stream. `missing` returns which of its memory is not device memory, or nothing. It is
// called at once or, if the stream captures, at each launch of the graph, which then skips the work.
Status in_stream_order(const char* call, CUstream, std::function<std::string()> missing,
                       std::function<void()> work);

// Prints to stderr why a call fails; returns the status.
Status explain(Status, const char* call, const std::string& why);

}  // namespace fp4lab::blas
