#include "cublas/library.h"

namespace fp4lab::blas {

bool have_context() {
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS) return false;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context) return true;
  return cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

Status property(int type, int* value) {
  if (!value || type < 0 || type > 2) return kInvalidValue;
  *value = type == 0 ? kVersion / 10000 : type == 1 ? kVersion / 100 % 100 : kVersion % 100;
  return kSuccess;
}

const char* status_name(int status) {
  switch (status) {
    case kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kAllocFailed:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case kExecutionFailed:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case kInternalError:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "unknown cublasStatus_t";
  }
}

const char* status_text(int status) {
  switch (status) {
    case kSuccess:
      return "success";
    case kNotInitialized:
      return "no handle";
    case kInvalidValue:
      return "an argument has a wrong value";
    case kNotSupported:
      return "not supported";
    default:
      return status_name(status);
  }
}

}  // namespace fp4lab::blas
