// The files of this folder are compiled twice: as they are, where stream 0 is the legacy default stream, and
// by per_thread.cpp with CUDA_API_PER_THREAD_DEFAULT_STREAM, where the header renames every entry point
// (cudaMemcpyAsync_ptsz) and stream 0 is the calling thread's. They must only define what the header renames.
#pragma once

#include "runtime/runtime.h"

namespace fp4lab::cudart {
namespace {

inline CUstream on(cudaStream_t stream) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
  return stream ? stream : CU_STREAM_PER_THREAD;
#else
  return stream;
#endif
}

}  // namespace
}  // namespace fp4lab::cudart
