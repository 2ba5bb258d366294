// The second set of the entry points that take or imply a stream, for programs built with --default-stream
// per-thread.
#include <cuda.h>  // as it is: only the runtime's entry points change their names

#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "runtime/on_stream/allocate.cpp"
#include "runtime/on_stream/copy.cpp"
#include "runtime/on_stream/entry_point.cpp"
#include "runtime/on_stream/fill.cpp"
#include "runtime/on_stream/launch.cpp"
#include "runtime/on_stream/stream.cpp"
