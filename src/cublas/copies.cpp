// cublasSetVector and similar: copies between host and device, element by element if there are strides.
#include "cublas/library.h"

using namespace fp4lab::blas;

namespace {

// Copies `lines` lines of `bytes` bytes, with these pitches.
Status copy(const void* from, int64_t from_pitch, void* to, int64_t to_pitch, int64_t bytes, int64_t lines,
            bool asynchronous = false, CUstream stream = nullptr) {
  if (bytes < 0 || lines < 0 || from_pitch < bytes || to_pitch < bytes) return kInvalidValue;
  if (!bytes || !lines) return kSuccess;
  CUDA_MEMCPY2D c{};
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  c.srcDevice = reinterpret_cast<CUdeviceptr>(from), c.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  c.srcPitch = size_t(from_pitch), c.dstPitch = size_t(to_pitch);
  c.WidthInBytes = size_t(bytes), c.Height = size_t(lines);
  const CUresult r = asynchronous ? cuMemcpy2DAsync(&c, stream) : cuMemcpy2DUnaligned(&c);
  return r == CUDA_SUCCESS ? kSuccess : kExecutionFailed;
}

}  // namespace

extern "C" {
Status cublasSetVector(int n, int bytes, const void* x, int x_step, void* y, int y_step) {
  return copy(x, int64_t(x_step) * bytes, y, int64_t(y_step) * bytes, bytes, n);
}
Status cublasGetVector(int n, int bytes, const void* x, int x_step, void* y, int y_step) {
  return cublasSetVector(n, bytes, x, x_step, y, y_step);
}
Status cublasSetVectorAsync(int n, int bytes, const void* x, int x_step, void* y, int y_step, CUstream s) {
  return copy(x, int64_t(x_step) * bytes, y, int64_t(y_step) * bytes, bytes, n, true, s);
}
Status cublasGetVectorAsync(int n, int bytes, const void* x, int x_step, void* y, int y_step, CUstream s) {
  return cublasSetVectorAsync(n, bytes, x, x_step, y, y_step, s);
}
Status cublasSetMatrix(int rows, int columns, int bytes, const void* a, int a_pitch, void* b, int b_pitch) {
  return copy(a, int64_t(a_pitch) * bytes, b, int64_t(b_pitch) * bytes, int64_t(rows) * bytes, columns);
}
Status cublasGetMatrix(int rows, int columns, int bytes, const void* a, int a_pitch, void* b, int b_pitch) {
  return cublasSetMatrix(rows, columns, bytes, a, a_pitch, b, b_pitch);
}
Status cublasSetMatrixAsync(int rows, int columns, int bytes, const void* a, int a_pitch, void* b,
                            int b_pitch, CUstream s) {
  return copy(a, int64_t(a_pitch) * bytes, b, int64_t(b_pitch) * bytes, int64_t(rows) * bytes, columns, true,
              s);
}
Status cublasGetMatrixAsync(int rows, int columns, int bytes, const void* a, int a_pitch, void* b,
                            int b_pitch, CUstream s) {
  return cublasSetMatrixAsync(rows, columns, bytes, a, a_pitch, b, b_pitch, s);
}
}
