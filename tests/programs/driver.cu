// nvcc: -lcuda
// Runtime and driver API in one program: the primary context, kernels and symbols of one in calls of the
// other, libraries of PTX, entry points by name.
#include <cuda.h>

#include <cstring>

#include "check.h"

__global__ void scale(float* p, float by) { p[threadIdx.x] *= by; }

const char kPtx[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 seen;
.visible .entry twice(.param .u64 p) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [p];
  ld.global.u32 %r1, [%rd1];
  shl.b32 %r2, %r1, 1;
  st.global.u32 [%rd1], %r2;
  mov.u64 %rd2, seen;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

// Reads what the other text's kernel has seen.
const char kOther[] = R"(
.version 8.1
.target sm_90
.address_size 64
.extern .global .align 4 .u32 seen;
.visible .entry look(.param .u64 p) {
  .reg .b64 %rd<3>;
  .reg .b32 %r1;
  ld.param.u64 %rd1, [p];
  mov.u64 %rd2, seen;
  ld.global.u32 %r1, [%rd2];
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

int main() {
  CUcontext none;
  EXPECT(cuCtxGetCurrent(&none) == CUDA_ERROR_NOT_INITIALIZED);
  float* p;
  CUDA(cudaMalloc(&p, 32 * 4));
  CUcontext context, primary;
  EXPECT(cuCtxGetCurrent(&context) == CUDA_SUCCESS && context);
  EXPECT(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS && primary == context);
  EXPECT(cuMemsetD32(reinterpret_cast<CUdeviceptr>(p), 0x40000000, 32) == CUDA_SUCCESS);  // 2.0f

  cudaFunction_t function;
  CUDA(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(scale)));
  float by = 3;
  void* arguments[] = {&p, &by};
  EXPECT(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
  int blocks = 0, threads = 0;
  EXPECT(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, function, nullptr, 0, 0) == CUDA_SUCCESS);
  EXPECT(threads == 1024 && blocks % 2 == 0);
  EXPECT(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, function, nullptr, 120 * 1024, 0) !=
         CUDA_SUCCESS);
  EXPECT(cuOccupancyMaxPotentialBlockSize(&blocks, &threads, function, nullptr, 0, 100) == CUDA_SUCCESS);
  EXPECT(threads <= 100);
  float got[32];
  CUDA(cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost));
  for (float x : got) EXPECT(x == 6);
  const char* name = nullptr;
  CUDA(cudaFuncGetName(&name, reinterpret_cast<const void*>(scale)));
  EXPECT(!std::strcmp(name, "_Z5scalePff"));

  cudaLibrary_t library;
  cudaKernel_t kernel;
  CUDA(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUDA(cudaLibraryGetKernel(&kernel, library, "twice"));
  CUDA(cudaMemset(p, 0, 4));
  CUDA(cudaMemset(p, 21, 1));
  CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), 1, 1, arguments, 0, nullptr));
  unsigned value = 0, *seen;
  size_t bytes = 0;
  CUDA(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
  EXPECT(value == 42);
  CUDA(cudaLibraryGetGlobal(reinterpret_cast<void**>(&seen), &bytes, library, "seen"));
  CUDA(cudaMemcpy(&value, seen, 4, cudaMemcpyDeviceToHost));
  EXPECT(bytes == 4 && value == 21);

  // In a graph the kernel stands for its function.
  CUDA_KERNEL_NODE_PARAMS of_kernel = {};
  of_kernel.kern = reinterpret_cast<CUkernel>(kernel);
  of_kernel.gridDimX = of_kernel.gridDimY = of_kernel.gridDimZ = 1;
  of_kernel.blockDimX = of_kernel.blockDimY = of_kernel.blockDimZ = 1;
  of_kernel.kernelParams = arguments;
  CUgraph kernels;
  CUgraphNode node;
  CUgraphExec runs;
  EXPECT(!cuGraphCreate(&kernels, 0) && !cuGraphAddKernelNode(&node, kernels, nullptr, 0, &of_kernel));
  EXPECT(!cuGraphInstantiate(&runs, kernels, 0) && !cuGraphLaunch(runs, nullptr));
  CUDA(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
  EXPECT(value == 84);
  const CUDA_HOST_NODE_PARAMS host = {[](void*) {}, nullptr};
  EXPECT(cuGraphExecHostNodeSetParams(runs, node, &host) == CUDA_ERROR_INVALID_VALUE);  // it is a kernel
  EXPECT(!cuGraphExecDestroy(runs) && !cuGraphDestroy(kernels));
  CUDA(cudaMemset(p, 42, 1));
  CUDA(cudaLibraryUnload(library));

  // Two texts linked are a module.
  CUlinkState link;
  void* image = nullptr;
  CUmodule module;
  CUfunction twice;
  EXPECT(cuLinkCreate(0, nullptr, nullptr, &link) == CUDA_SUCCESS);
  char* text = const_cast<char*>(kPtx);
  EXPECT(cuLinkAddData(link, CU_JIT_INPUT_CUBIN, text, sizeof kPtx, "no", 0, nullptr, nullptr) ==
         CUDA_ERROR_NOT_SUPPORTED);
  EXPECT(cuLinkAddData(link, CU_JIT_INPUT_PTX, text, sizeof kPtx, "k", 0, nullptr, nullptr) == CUDA_SUCCESS);
  EXPECT(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(kOther), sizeof kOther, "l", 0, nullptr,
                       nullptr) == CUDA_SUCCESS);
  EXPECT(cuLinkComplete(link, &image, &bytes) == CUDA_SUCCESS);
  EXPECT(cuModuleLoadData(&module, image) == CUDA_SUCCESS && cuLinkDestroy(link) == CUDA_SUCCESS);
  EXPECT(cuModuleGetFunction(&twice, module, "twice") == CUDA_SUCCESS);
  EXPECT(cuLaunchKernel(twice, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
  CUDA(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
  EXPECT(value == 84);
  CUfunction look;
  EXPECT(cuModuleGetFunction(&look, module, "look") == CUDA_SUCCESS);
  EXPECT(cuLaunchKernel(look, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
  CUDA(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
  EXPECT(value == 42);

  // Two definitions of one symbol.
  char log[200] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  EXPECT(cuLinkCreate(2, options, values, &link) == CUDA_SUCCESS);
  for (const char* part : {"a", "b"})
    EXPECT(cuLinkAddData(link, CU_JIT_INPUT_PTX, text, sizeof kPtx, part, 0, nullptr, nullptr) ==
           CUDA_SUCCESS);
  EXPECT(cuLinkComplete(link, &image, &bytes) != CUDA_SUCCESS && cuLinkDestroy(link) == CUDA_SUCCESS);
  EXPECT(std::strstr(log, "'seen' is defined in a and in b"));

  // A program of CUDA 12 asks for calls as it knows them.
  void* call = nullptr;
  CUdriverProcAddressQueryResult status;
  const auto of_cuda_12 = [&](const char* which) {
    return cuGetProcAddress(which, &call, 12000, 0, &status) == CUDA_SUCCESS && call;
  };
  EXPECT(of_cuda_12("cuMemPrefetchAsync"));
  void* managed;
  CUDA(cudaMallocManaged(&managed, 64));
  using Prefetch = CUresult(CUdeviceptr, size_t, CUdevice, CUstream);
  EXPECT(
      !reinterpret_cast<Prefetch*>(call)(reinterpret_cast<CUdeviceptr>(managed), 64, CU_DEVICE_CPU, nullptr));
  CUevent event;
  float ms = -1;
  EXPECT(!cuEventCreate(&event, 0) && !cuEventRecord(event, nullptr) && of_cuda_12("cuEventElapsedTime"));
  EXPECT(!reinterpret_cast<CUresult (*)(float*, CUevent, CUevent)>(call)(&ms, event, event) && ms == 0);
  CUgraph graph;
  CUgraphNode first, second, from, to;
  size_t edges = 1;
  EXPECT(!cuGraphCreate(&graph, 0) && !cuGraphAddEmptyNode(&first, graph, nullptr, 0));
  EXPECT(!cuGraphAddEmptyNode(&second, graph, &first, 1) && of_cuda_12("cuGraphGetEdges"));
  using Edges = CUresult(CUgraph, CUgraphNode*, CUgraphNode*, size_t*);
  EXPECT(!reinterpret_cast<Edges*>(call)(graph, &from, &to, &edges) && edges == 1 && from == first &&
         to == second);

  // Parameters are given in one way.
  void* extra[] = {CU_LAUNCH_PARAM_END};
  EXPECT(cuLaunchKernel(twice, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, extra) == CUDA_ERROR_INVALID_VALUE);

  // What a stream writes to memory, and what it finds there.
  const auto at = reinterpret_cast<CUdeviceptr>(p);
  EXPECT(cuStreamWriteValue32(nullptr, at, 77, 0) == CUDA_SUCCESS);
  EXPECT(cuStreamWaitValue32(nullptr, at, 77, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  EXPECT(cuStreamWaitValue32(nullptr, at, 70, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
  EXPECT(cuStreamWaitValue32(nullptr, at, 78, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_ERROR_NOT_SUPPORTED);
  EXPECT(cuStreamWaitValue32(nullptr, at, 4, CU_STREAM_WAIT_VALUE_AND) == CUDA_SUCCESS);
  unsigned type = 0;
  CUdeviceptr same = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
  void* answers[] = {&type, &same};
  EXPECT(cuPointerGetAttributes(2, asked, answers, at) == CUDA_SUCCESS);
  EXPECT(type == CU_MEMORYTYPE_DEVICE && same == at);
  EXPECT(cuPointerGetAttributes(2, asked, answers, 16) == CUDA_SUCCESS && type == 0 && same == 0);

  // The same name means what it meant in the version that is asked for.
  void *v2 = nullptr, *v4 = nullptr;
  CUdriverProcAddressQueryResult found;
  EXPECT(cuGetProcAddress("cuCtxCreate", &v2, 11000, 0, &found) == CUDA_SUCCESS);
  EXPECT(cuGetProcAddress("cuCtxCreate", &v4, 13000, 0, &found) == CUDA_SUCCESS);
  EXPECT(v2 && v4 && v2 != v4);
  const auto create = reinterpret_cast<CUresult (*)(CUcontext*, unsigned, CUdevice)>(v2);
  CUcontext own;
  EXPECT(create(&own, 0, 0) == CUDA_SUCCESS && own != primary);
  EXPECT(cuCtxDestroy(own) == CUDA_SUCCESS);
  std::puts("ok");
}
