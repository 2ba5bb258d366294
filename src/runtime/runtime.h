// Shared parts of the runtime library. The library is thin: it keeps the registrations of nvcc's host code
// and each thread's last error, and calls the driver (here the emulator's) for the rest. Handles of streams,
// events, graphs, memory pools and libraries are the driver's own.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace fp4lab::cudart {

// Initialises the driver and makes the device's primary context current on this thread, once; later calls
// cost a thread-local test. A context that the program made current itself is kept.
CUresult enter();

cudaError_t from_driver(CUresult);
inline cudaError_t from_driver(cudaError_t e) { return e; }

// Every entry point returns through this: an error becomes the thread's last one (cudaGetLastError).
cudaError_t finish(cudaError_t);
inline cudaError_t finish(CUresult r) { return finish(from_driver(r)); }

// The frame of an entry point, with the device ready. The body returns a CUresult or a cudaError_t.
template <class Body>
cudaError_t call(Body body) {
  if (CUresult r = enter()) return finish(r);
  return finish(body());
}

// The same for bodies that need no device.
template <class Body>
cudaError_t plain(Body body) {
  return finish(body());
}

// Prints an explanation of an error code to stderr; returns the code.
cudaError_t explain(cudaError_t, const char* format, ...) __attribute__((format(printf, 2, 3)));

CUresult set_device(int ordinal);  // there is only device 0

inline CUmemLocation driver_location(cudaMemLocation where) {
  static_assert(int(cudaMemLocationTypeHostNumaCurrent) == int(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT));
  CUmemLocation out{};
  out.type = static_cast<CUmemLocationType>(where.type);
  out.id = where.id;
  return out;
}

inline CUdeviceptr device_pointer(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

}  // namespace fp4lab::cudart
