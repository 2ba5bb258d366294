// Matrix products as cuBLAS defines them, computed by the host's vector units in the order of a stream: what
// programs on the emulator compare their kernels with. The sums are rounded in fp32 (fp64 for fp64 and for
// integers, which are exact), in an order of their own: not the bits of NVIDIA's library.
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

// A matrix whose element (r, c) of batch entry b lies `r * row + c * column + b * batch` elements behind
// `data`; or behind pointer b of the device's array `each`.
struct Matrix {
  void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  int64_t rows = 0, columns = 0, row = 0, column = 0, batch = 0;
  void* const* each = nullptr;
  const void* scale = nullptr;  // of the device; what it holds: `mode`
  ScaleMode mode = ScaleMode::tensor;

  Matrix transposed() const;
};

// alpha or beta: known when the call is made, or read in the device's memory when it runs.
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
  float* largest = nullptr;  // of the device: the largest magnitude of d before its scale
};

// Empty, or why `bytes` from `at` on are not the device's.
std::string missing_bytes(const std::string& name, const void* at, int64_t bytes);

double value_at(const void* data, cudaDataType, int64_t index);

// Empty, or why such a product is not computed here: types, sizes, memory that is not there.
std::string why_not(const Product&);

// Has it computed behind everything that is on the stream. `call`: its name, for messages, which go to
// stderr.
Status enqueue(const char* call, const Product&, CUstream);

// `work` behind everything that is on the stream. `missing` says which of its memory is not the device's, or
// nothing: it is asked at once, or, where the stream captures, each time the graph runs, which then leaves
// the work out.
Status in_stream_order(const char* call, CUstream, std::function<std::string()> missing,
                       std::function<void()> work);

// Says on stderr why a call fails; returns the status.
Status explain(Status, const char* call, const std::string& why);

}  // namespace fp4lab::blas
