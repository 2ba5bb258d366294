// cuBLASLt, opened at run time: the peer that kernels are compared with, and the measure of a device's tensor
// limit. Nothing links it and its headers are not needed; where it is absent, opening says what was tried.
//
//   auto lt = CublasLt::open();
//   const CublasGemm gemm(lt, device, {.m = 128, .n = 4096, .k = 7168}, kCublasWorkspace);
//   gemm.run(0, a, b, c, workspace, stream);
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "fp4lab/device.h"

namespace fp4lab {

/// What NVIDIA recommends for Hopper and later (cuBLAS documentation, cublasSetWorkspace): 32 MiB.
constexpr size_t kCublasWorkspace = size_t(32) << 20;

class CublasLt {
 public:
  /// `where`: a library or a folder that holds it; empty: FP4LAB_CUBLAS, then CUDA_HOME, CUDA_PATH,
  /// /usr/local/cuda, the folders of Python wheels (VIRTUAL_ENV, the python3 of PATH, the system's), then the
  /// loader. Throws Error with every place looked at.
  static std::shared_ptr<CublasLt> open(const std::string& where = "");
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;

  const std::string& path() const { return path_; }
  std::string version() const;  // "13.1.0"

  struct Api;
  const Api& api() const { return *api_; }
  /// The handle that calls on this device use; made at the first call. The device's context must be current.
  void* handle();

 private:
  CublasLt() = default;
  std::shared_ptr<Api> api_;
  std::string path_;
  void* handle_ = nullptr;
};

enum class GemmType { kF16, kE4m3, kF32 };  // cudaDataType CUDA_R_16F, CUDA_R_8F_E4M3, CUDA_R_32F

/// C = alpha A B^T, accumulated in fp32: A row-major [m][k], B row-major [n][k], both of `input`; C row-major
/// [m][n] of `output`, rows `c_pitch` elements apart (0: n). e4m3 needs k and n to be multiples of 16.
struct GemmSpec {
  int m = 0, n = 0, k = 0;
  GemmType input = GemmType::kF16, output = GemmType::kF16;
  int c_pitch = 0;
  float alpha = 1;
};

/// A product with the algorithms that cuBLASLt's heuristics propose for it, best guess first. Throws when
/// there is none. fp8 products accumulate "fast" (without promotion to fp32 between tensor-core steps): the
/// peer's best speed.
class CublasGemm {
 public:
  CublasGemm(std::shared_ptr<CublasLt> lt, const Device& device, const GemmSpec& spec, size_t workspace_bytes,
             int most_algorithms = 8);
  ~CublasGemm();
  CublasGemm(CublasGemm&&) noexcept;

  const GemmSpec& spec() const;
  size_t algorithms() const;
  /// Enqueues on `stream`; all addresses are device memory, 256-byte aligned; `workspace` has the bytes that
  /// were given above and belongs to this call until it has run.
  void run(size_t algorithm, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUdeviceptr workspace,
           CUstream stream) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fp4lab
