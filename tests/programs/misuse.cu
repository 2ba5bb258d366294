// nvcc: -lcuda
// What misuse is answered with, as an H200 with driver 580 and CUDA 13.0 answers it.
#include <cuda.h>

#include "check.h"

__global__ void mark(int* p) { p[threadIdx.x] = int(threadIdx.x) + 1; }
__global__ void __cluster_dims__(2, 1, 1) pair(int* p) { p[blockIdx.x] = 1; }

const char kPtx[] = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { ret; }
)";

void launches(int* p) {
  const auto last = [] { return cudaGetLastError(); };
  mark<<<1, dim3(1, 1, 65)>>>(p);
  EXPECT(last() == cudaErrorInvalidValue);
  mark<<<dim3(1, 70000), 32>>>(p);
  EXPECT(last() == cudaErrorInvalidValue);
  pair<<<3, 32>>>(p);
  EXPECT(last() == cudaErrorInvalidClusterSize);
  cudaLaunchAttribute attribute;
  cudaLaunchConfig_t config = {};
  config.gridDim = 8, config.blockDim = 32, config.attrs = &attribute, config.numAttrs = 1;
  attribute.id = cudaLaunchAttributeClusterDimension;
  for (const unsigned size : {0u, 3u, 16u}) {
    attribute.val.clusterDim = {size, 1, 1};
    FAILS(cudaErrorInvalidClusterSize, cudaLaunchKernelEx(&config, mark, p));
  }
  attribute.val.clusterDim = {4, 1, 1};
  FAILS(cudaErrorInvalidClusterSize, cudaLaunchKernelEx(&config, pair, p));
  attribute.val.clusterDim = {2, 1, 1};
  CUDA(cudaLaunchKernelEx(&config, pair, p));
  attribute.id = static_cast<cudaLaunchAttributeID>(99);
  FAILS(cudaErrorInvalidValue, cudaLaunchKernelEx(&config, mark, p));
  FAILS(cudaErrorInvalidResourceHandle, cudaLaunchKernel((void*)launches, 1, 1, nullptr, 0, nullptr));
  FAILS(cudaErrorInvalidDeviceFunction, cudaLaunchKernel(nullptr, 1, 1, nullptr, 0, nullptr));
  cudaFunction_t function;
  FAILS(cudaErrorInvalidDeviceFunction, cudaGetFuncBySymbol(&function, (void*)launches));
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {16, 1, 1};
  config.gridDim = 16;
  int blocks;
  FAILS(cudaErrorInvalidClusterSize, cudaOccupancyMaxActiveClusters(&blocks, mark, &config));
  FAILS(cudaErrorInvalidClusterSize, cudaOccupancyMaxPotentialClusterSize(&blocks, mark, &config));
  size_t bytes;
  CUDA(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, mark, 8, 256));
  EXPECT(bytes == 228 * 1024 / 8);
  CUDA(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, mark, 1, 256));
  EXPECT(bytes == 48 * 1024);
  FAILS(cudaErrorInvalidValue, cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, mark, 4, 1024));
  FAILS(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mark, 0, 0));
  FAILS(cudaErrorInvalidValue, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mark, -32, 0));
  FAILS(cudaErrorInvalidValue,
        cudaFuncSetAttribute(mark, cudaFuncAttributePreferredSharedMemoryCarveout, 101));
  FAILS(cudaErrorInvalidValue, cudaFuncSetAttribute(mark, cudaFuncAttributeMax, 1));
  FAILS(cudaErrorInvalidValue,
        cudaFuncSetAttribute(mark, cudaFuncAttributeClusterSchedulingPolicyPreference, 3));
  FAILS(cudaErrorInvalidValue, cudaFuncSetCacheConfig(mark, static_cast<cudaFuncCache>(9)));
  FAILS(cudaErrorInvalidValue, cudaDeviceSetCacheConfig(static_cast<cudaFuncCache>(9)));
  FAILS(cudaErrorInvalidValue, cudaSetDeviceFlags(0x1000));
}

// A kernel whose attributes ask for a cluster has it without another word, or is not launched.
__global__ void clustered(unsigned* size) { asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(*size)); }
void cluster_by_attribute(unsigned* size) {
  for (const auto dimension : {cudaFuncAttributeRequiredClusterWidth, cudaFuncAttributeRequiredClusterHeight,
                               cudaFuncAttributeRequiredClusterDepth})
    CUDA(cudaFuncSetAttribute(clustered, dimension,
                              dimension == cudaFuncAttributeRequiredClusterWidth ? 4 : 1));
  clustered<<<8, 1>>>(size);
  unsigned got = 0;
  CUDA(cudaMemcpy(&got, size, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == 4);
  clustered<<<6, 1>>>(size);
  EXPECT(cudaGetLastError() == cudaErrorInvalidClusterSize);
  cudaFuncAttributes attributes;
  CUDA(cudaFuncGetAttributes(&attributes, clustered));
  EXPECT(attributes.requiredClusterWidth == 4 && attributes.clusterDimMustBeSet == 0);
}

// A function of one context is not launched in another's stream; a library's kernel is at home in all.
void contexts() {
  CUcontext primary, other, got;
  EXPECT(!cuCtxGetCurrent(&primary));
  CUmodule module;
  CUfunction f;
  CUevent event;
  CUdeviceptr p;
  EXPECT(!cuModuleLoadData(&module, kPtx) && !cuModuleGetFunction(&f, module, "k"));
  EXPECT(cuModuleGetFunction(&f, module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(!cuEventCreate(&event, 0) && !cuMemAlloc(&p, 64));
  CUstream stream, far;
  EXPECT(!cuStreamCreate(&stream, 0));
  EXPECT(cuCtxCreate(&other, nullptr, 0x1000, 0) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(!cuCtxCreate(&other, nullptr, 0, 0) && !cuStreamCreate(&far, 0));
  void* arguments[] = {&p};
  const auto launch = [&](CUfunction what, CUstream where) {
    return cuLaunchKernel(what, 1, 1, 1, 32, 1, 1, 0, where, arguments, nullptr);
  };
  EXPECT(launch(f, nullptr) == CUDA_ERROR_INVALID_HANDLE && launch(f, far) == CUDA_ERROR_INVALID_HANDLE);
  EXPECT(!launch(f, stream));
  EXPECT(cuEventRecord(event, far) == CUDA_ERROR_INVALID_HANDLE && !cuEventRecord(event, stream));
  EXPECT(!cuStreamWaitEvent(far, event, 0));
  EXPECT(!cuStreamGetCtx(stream, &got) && got == primary);
  CUlibrary library;
  CUkernel kernel;
  CUmodule of_library;
  EXPECT(!cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT(!cuLibraryGetKernel(&kernel, library, "k") && !launch(reinterpret_cast<CUfunction>(kernel), far));
  CUDA(cudaLaunchKernel((void*)kernel, 1, 32, arguments, 0, far));  // a handle of the driver's
  mark<<<1, 16, 0, far>>>(reinterpret_cast<int*>(p));
  CUDA(cudaGetLastError());
  EXPECT(!cuLibraryGetModule(&of_library, library) && cuModuleUnload(of_library) == CUDA_ERROR_NOT_PERMITTED);
  EXPECT(!cuLibraryUnload(library) && !cuCtxDestroy(other));
  EXPECT(!cuCtxSetCurrent(primary) && !launch(f, nullptr) && !cuModuleUnload(module));
}

// What may not meet a capture makes it invalid.
void captures(int* p) {
  cudaStream_t stream;
  cudaGraph_t graph;
  void* memory;
  CUDA(cudaStreamCreate(&stream));
  FAILS(cudaErrorInvalidValue, cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(9)));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  FAILS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&memory, 64));
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CUDA(cudaMalloc(&memory, 64));
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  CUDA(cudaMalloc(&memory, 64));
  CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT(mode == cudaStreamCaptureModeRelaxed);
  mark<<<1, 1>>>(p);  // the legacy stream waits for the captured one
  EXPECT(cudaGetLastError() == cudaErrorStreamCaptureImplicit);
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  CUDA(cudaStreamDestroy(stream));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  mark<<<1, 1>>>(p);
  CUDA(cudaGetLastError());
  CUDA(cudaMemsetAsync(p, 0, 4, stream));
  CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t capturing;
  CUDA(cudaStreamCreate(&capturing));
  CUDA(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeRelaxed));
  CUDA(cudaGraphLaunch(exec, stream));  // its copies and fills are no work of the legacy stream's
  CUDA(cudaStreamEndCapture(capturing, &graph));

  // An event that was recorded in a capture stands for nothing when the capture is over.
  cudaEvent_t event;
  float ms;
  CUDA(cudaEventCreate(&event));
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA(cudaEventRecord(event, stream));
  FAILS(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(capturing));
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  FAILS(cudaErrorInvalidValue, cudaEventQuery(event));
  FAILS(cudaErrorInvalidValue, cudaEventSynchronize(event));
  FAILS(cudaErrorInvalidValue, cudaStreamWaitEvent(stream, event));
  FAILS(cudaErrorInvalidValue, cudaEventElapsedTime(&ms, event, event));
  CUDA(cudaEventRecord(event, stream));
  CUDA(cudaEventQuery(event));

  // Nor may the legacy stream wait for what is captured.
  CUDA(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeGlobal));
  CUDA(cudaEventRecord(event, capturing));
  FAILS(cudaErrorStreamCaptureImplicit, cudaStreamWaitEvent(nullptr, event));
  FAILS(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(capturing, &graph));

  // To ask for the legacy stream beside a capture is refused, and harms nothing.
  cudaStreamCaptureStatus status;
  CUDA(cudaStreamBeginCapture(capturing, cudaStreamCaptureModeGlobal));
  FAILS(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(nullptr, &status));
  CUDA(cudaStreamIsCapturing(stream, &status));
  EXPECT(status == cudaStreamCaptureStatusNone);
  CUDA(cudaStreamIsCapturing(capturing, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  CUDA(cudaStreamEndCapture(capturing, &graph));
  CUDA(cudaStreamIsCapturing(nullptr, &status));
}

void advice(int* device) {
  const cudaMemLocation here = {cudaMemLocationTypeDevice, 0}, far = {cudaMemLocationTypeDevice, 9},
                        host = {cudaMemLocationTypeHost, 0};
  int* p;
  constexpr size_t kBytes = 1 << 20;
  CUDA(cudaMallocManaged(&p, kBytes));
  const auto is = [&](cudaMemRangeAttribute attribute, int want) {
    int got = 77;
    CUDA(cudaMemRangeGetAttribute(&got, sizeof got, attribute, p, kBytes));
    return got == want;
  };
  EXPECT(is(cudaMemRangeAttributeLastPrefetchLocation, cudaInvalidDeviceId));
  CUDA(cudaMemPrefetchAsync(p, kBytes, here, 0));
  EXPECT(is(cudaMemRangeAttributeLastPrefetchLocation, 0));
  CUDA(cudaMemAdvise(p, kBytes, cudaMemAdviseSetReadMostly, here));
  CUDA(cudaMemAdvise(p, kBytes, cudaMemAdviseSetPreferredLocation, host));
  EXPECT(is(cudaMemRangeAttributeReadMostly, 1) &&
         is(cudaMemRangeAttributePreferredLocation, cudaCpuDeviceId));
  EXPECT(is(cudaMemRangeAttributeAccessedBy, cudaInvalidDeviceId));
  FAILS(cudaErrorInvalidDevice, cudaMemPrefetchAsync(p, kBytes, far, 0));
  FAILS(cudaErrorInvalidValue, cudaMemPrefetchAsync(p, kBytes, here, 1));
  FAILS(cudaErrorInvalidValue, cudaMemPrefetchAsync(p, 2 * kBytes, here, 0));
  FAILS(cudaErrorInvalidValue, cudaMemPrefetchAsync(device, 64, here, 0));
  FAILS(cudaErrorInvalidValue, cudaMemAdvise(device, 64, cudaMemAdviseSetReadMostly, here));
  FAILS(cudaErrorInvalidValue, cudaMemAdvise(p, kBytes, static_cast<cudaMemoryAdvise>(77), here));
  int got;
  FAILS(cudaErrorInvalidValue, cudaMemRangeGetAttribute(&got, 8, cudaMemRangeAttributeReadMostly, p, kBytes));
  FAILS(cudaErrorInvalidValue,
        cudaMemRangeGetAttribute(&got, 4, cudaMemRangeAttributeReadMostly, device, 64));
}

void nodes() {
  cudaGraph_t graph, child;
  cudaGraphNode_t a, b;
  const cudaHostNodeParams nobody = {};
  CUDA(cudaGraphCreate(&graph, 0));
  FAILS(cudaErrorInvalidValue, cudaGraphCreate(&child, 1));
  CUDA(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
  CUDA(cudaGraphAddEmptyNode(&b, graph, &a, 1));
  FAILS(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &a, &b, nullptr, 1));
  FAILS(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &a, &a, nullptr, 1));
  FAILS(cudaErrorInvalidValue, cudaGraphAddHostNode(&b, graph, nullptr, 0, &nobody));
  FAILS(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&b, graph, nullptr, 0, nullptr));
  FAILS(cudaErrorInvalidValue, cudaGraphAddEventRecordNode(&b, graph, nullptr, 0, nullptr));
  FAILS(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&b, graph, nullptr, 0, graph));
  cudaGraphNodeType type;
  cudaMemsetParams fill;
  size_t count = 0;
  FAILS(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, nullptr, nullptr, nullptr, 1));
  FAILS(cudaErrorInvalidValue, cudaGraphNodeGetType(nullptr, &type));
  FAILS(cudaErrorInvalidValue, cudaGraphGetNodes(graph, &a, &count));
  FAILS(cudaErrorInvalidValue, cudaGraphMemsetNodeGetParams(a, &fill));
  FAILS(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(a, nullptr));
  FAILS(cudaErrorInvalidValue, cudaGraphDestroyNode(nullptr));
  FAILS(cudaErrorInvalidValue, cudaUserObjectRelease(nullptr, 1));
  FAILS(cudaErrorInvalidValue, cudaGraphDestroy(nullptr));
  FAILS(cudaErrorInvalidValue, cudaGraphExecDestroy(nullptr));
  FAILS(cudaErrorInvalidValue, cudaGraphLaunch(nullptr, nullptr));
  CUDA(cudaGraphCreate(&child, 0));
  CUDA(cudaGraphAddChildGraphNode(&b, graph, nullptr, 0, child));
  CUDA(cudaGraphChildGraphNodeGetGraph(b, &child));
  FAILS(cudaErrorInvalidValue, cudaGraphDestroy(child));
  CUDA(cudaGraphDestroy(graph));
}

// A graph that allocates keeps its nodes, is not cloned, and is instantiated once at a time.
void allocating_graph() {
  cudaGraph_t graph, clone;
  cudaGraphNode_t allocate, release;
  cudaGraphExec_t exec, second;
  cudaMemAllocNodeParams memory{};
  memory.poolProps.allocType = cudaMemAllocationTypePinned;
  memory.poolProps.location = {cudaMemLocationTypeDevice, 0};
  memory.bytesize = 64;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphAddMemAllocNode(&allocate, graph, nullptr, 0, &memory));
  CUDA(cudaGraphAddMemFreeNode(&release, graph, &allocate, 1, memory.dptr));
  FAILS(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&release, graph, &allocate, 1, memory.dptr));
  FAILS(cudaErrorNotSupported, cudaGraphClone(&clone, graph));
  FAILS(cudaErrorNotSupported, cudaGraphDestroyNode(release));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  FAILS(cudaErrorNotSupported, cudaGraphInstantiate(&second, graph, 0));
  CUDA(cudaGraphLaunch(exec, nullptr));
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphInstantiate(&second, graph, 0));
  CUDA(cudaGraphDestroy(graph));
}

// No bytes are a null pointer, and that may be freed.
void nothing() {
  void* p = nullptr;
  size_t pitch;
  CUDA(cudaMallocAsync(&p, 0, nullptr));
  CUDA(cudaFreeAsync(p, nullptr));
  CUDA(cudaFreeAsync(nullptr, nullptr));
  CUDA(cudaMallocPitch(&p, &pitch, 0, 10));
  CUDA(cudaFree(p));
}

void mappings() {
  constexpr size_t kPiece = 2 << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle memory;
  CUdeviceptr at;
  EXPECT(!cuMemCreate(&memory, kPiece, &properties, 0));
  EXPECT(cuMemAddressReserve(&at, 4 * kPiece, 0, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(!cuMemAddressReserve(&at, 4 * kPiece, 0, 0, 0));
  EXPECT(cuMemMap(at, kPiece, kPiece, memory, 0) == CUDA_ERROR_NOT_SUPPORTED);
  EXPECT(cuMemMap(at, 2 * kPiece, 0, memory, 0) == CUDA_ERROR_NOT_SUPPORTED);
  EXPECT(!cuMemMap(at, kPiece, 0, memory, 0));
  EXPECT(!cuMemUnmap(at, 2 * kPiece) && !cuMemUnmap(at, kPiece / 2) && !cuMemUnmap(at, kPiece));
  EXPECT(!cuMemMap(at, kPiece, 0, memory, 0) && !cuMemUnmap(at, kPiece));
  EXPECT(!cuMemAddressFree(at, 4 * kPiece) && !cuMemRelease(memory));
}

void handles_and_sizes() {
  CUstream stream;
  CUevent event;
  CUdeviceptr p;
  size_t pitch;
  void* host = nullptr;
  EXPECT(cuStreamCreate(&stream, 5) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuEventCreate(&event, 0x100) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemAllocManaged(&p, 64, 0) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_SINGLE) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemAllocPitch(&p, &pitch, 100, 4, 3) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemHostAlloc(&host, 64, 0x100) == CUDA_ERROR_INVALID_VALUE);
  CUDA(cudaMallocManaged(&host, 0));
  char bus[64];
  int device;
  FAILS(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(bus, 4, 0));
  FAILS(cudaErrorInvalidValue, cudaDeviceGetByPCIBusId(&device, "zz"));
  CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  CUDA(cudaDeviceGetByPCIBusId(&device, bus));
  cudaDeviceProp properties;
  CUDA(cudaGetDeviceProperties(&properties, 0));
  EXPECT(properties.persistingL2CacheMaxSize == properties.l2CacheSize / 8 * 5);
  cudaMemPool_t pool;
  CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  FAILS(cudaErrorInvalidValue, cudaMemPoolGetAttribute(pool, static_cast<cudaMemPoolAttr>(99), &pitch));
  const cudaMemPoolProps nothing = {};
  FAILS(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &nothing));
  FAILS(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(0, 0));
  FAILS(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(0));
  FAILS(cudaErrorUnsupportedLimit, cudaDeviceSetLimit(cudaLimitDevRuntimeSyncDepth, 4));
  EXPECT(!cuMemAlloc(&p, 64) && cuMemsetD2D32(p, 4, 0, 4, 2) == CUDA_ERROR_INVALID_VALUE);
  CUmodule module;
  EXPECT(cuModuleLoadData(&module, "garbage") == CUDA_ERROR_INVALID_IMAGE);
  EXPECT(cuModuleLoadData(&module, "") == CUDA_ERROR_INVALID_IMAGE);
  EXPECT(cuModuleLoadData(&module, ".version 8.8\n.target sm_103a\n.address_size 64\n.entry k() { ret; }") ==
         CUDA_ERROR_INVALID_PTX);
  EXPECT(cuModuleLoadData(&module, ".version 99.0\n.target sm_90\n.address_size 64\n.entry k() { ret; }") ==
         CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

int main() {
  int* p;
  CUDA(cudaMalloc(&p, 4096));
  launches(p);
  cluster_by_attribute(reinterpret_cast<unsigned*>(p));
  contexts();
  captures(p);
  nodes();
  advice(p);
  handles_and_sizes();
  allocating_graph();
  nothing();
  mappings();
  std::puts("ok");
}
