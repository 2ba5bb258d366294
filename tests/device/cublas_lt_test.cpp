#include "device/cublas_lt.h"

#include <doctest/doctest.h>

#include <type_traits>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

using namespace fp4lab;

TEST_CASE("cublasLt: where it is not, the message names every place looked at") {
  try {
    CublasLt::open("/nonexistent/folder/libcublasLt.so.13");
    FAIL("opened");
  } catch (const Error& e) {
    const std::string text = e.what();
    INFO(text);
    CHECK(text.find("/nonexistent/folder/libcublasLt.so.13") != std::string::npos);
    CHECK(text.find("--cublas") != std::string::npos);
  }
  try {
    CublasLt::open("/lib/x86_64-linux-gnu/libm.so.6");
    FAIL("opened");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("exports no cublasLt") != std::string::npos);
  }
}

// The interface is written down in src/device/cublas_lt.h; where the header is, it has the last word.
#if __has_include(<cublasLt.h>)
TEST_CASE("cublasLt: our declarations are the header's") {
  static_assert(lt::kSuccess == CUBLAS_STATUS_SUCCESS);
  static_assert(lt::kR32F == CUDA_R_32F && lt::kR16F == CUDA_R_16F && lt::kR8FE4M3 == CUDA_R_8F_E4M3);
  static_assert(lt::kCompute32F == CUBLAS_COMPUTE_32F);
  static_assert(lt::kOpN == CUBLAS_OP_N && lt::kOpT == CUBLAS_OP_T);
  static_assert(lt::kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA &&
                lt::kDescTransB == CUBLASLT_MATMUL_DESC_TRANSB);
  static_assert(lt::kDescFastAccum == CUBLASLT_MATMUL_DESC_FAST_ACCUM);
  static_assert(lt::kPrefMaxWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  static_assert(sizeof(lt::Algo) == sizeof(cublasLtMatmulAlgo_t));
  static_assert(sizeof(lt::HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
  static_assert(offsetof(lt::HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
  static_assert(offsetof(lt::HeuristicResult, workspace_bytes) ==
                offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  CHECK(sizeof(cublasLtMatmulAlgo_t) == 64);
}
#endif
