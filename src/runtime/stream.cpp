// Streams and events: creation, destruction, and calls that do not depend on a stream's order.
#include "runtime/runtime.h"

using namespace fp4lab::cudart;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return call([&] { return cuStreamCreate(stream, CU_STREAM_DEFAULT); });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&] { return cuStreamCreate(stream, flags); });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] { return cuStreamDestroy(stream); });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call(
      [&] { return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call([&] { return cuEventCreate(event, CU_EVENT_DEFAULT); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] { return cuEventCreate(event, flags); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] { return cuEventDestroy(event); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&] { return cuEventQuery(event); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] { return cuEventSynchronize(event); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return call([&] { return cuEventElapsedTime(ms, start, end); });
}
