// The part of cuBLASLt's C interface that is used, written down here because the build does not need cuBLAS:
// names and numbers as in cublasLt.h and library_types.h of CUDA 12 and 13 (a test compares them with the
// header where there is one).
#pragma once

#include <cstddef>
#include <cstdint>

#include "fp4lab/cublas_lt.h"

namespace fp4lab {

namespace lt {
constexpr int kSuccess = 0;
constexpr int kR32F = 0, kR16F = 2, kR8FE4M3 = 28;                    // cudaDataType
constexpr int kCompute32F = 68;                                       // cublasComputeType_t
constexpr int kOpN = 0, kOpT = 1;                                     // cublasOperation_t
constexpr int kDescTransA = 3, kDescTransB = 4, kDescFastAccum = 25;  // cublasLtMatmulDescAttributes_t
constexpr int kPrefMaxWorkspaceBytes = 1;                             // cublasLtMatmulPreferenceAttributes_t

struct Algo {
  std::uint64_t data[8];
};
struct HeuristicResult {
  Algo algo;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
}  // namespace lt

struct CublasLt::Api {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  size_t (*version)() = nullptr;
  const char* (*status_name)(int) = nullptr;
  int (*desc_create)(void** desc, int compute, int scale) = nullptr;
  int (*desc_destroy)(void* desc) = nullptr;
  int (*desc_set)(void* desc, int attribute, const void* value, size_t bytes) = nullptr;
  int (*layout_create)(void** layout, int type, std::uint64_t rows, std::uint64_t cols,
                       std::int64_t leading) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*pref_create)(void** pref) = nullptr;
  int (*pref_destroy)(void* pref) = nullptr;
  int (*pref_set)(void* pref, int attribute, const void* value, size_t bytes) = nullptr;
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* pref, int asked,
                   lt::HeuristicResult* results, int* found) = nullptr;
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const lt::Algo* algo, void* workspace, size_t workspace_bytes, CUstream stream) = nullptr;

  void check(const char* call, int status, const std::string& of) const;
};

}  // namespace fp4lab
