// Calls with null or invalid handles: they return an error and have no other effect.
#include <cuda.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "fp4lab/emulator.h"

namespace {

// clang-format off
#define ENTRY_POINTS(X) \
  X(cuGetErrorString) X(cuGetErrorName) X(cuInit) X(cuDriverGetVersion) X(cuDeviceGet) X(cuDeviceGetCount) \
  X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDeviceSetMemPool) \
  X(cuDeviceGetMemPool) X(cuDeviceGetDefaultMemPool) \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxSetFlags) \
  X(cuDevicePrimaryCtxGetState) X(cuCtxCreate) X(cuCtxDestroy) \
  X(cuCtxPushCurrent) X(cuCtxGetCurrent) X(cuCtxGetDevice) \
  X(cuCtxGetFlags) X(cuCtxGetId) X(cuCtxSynchronize) X(cuCtxGetLimit) \
  X(cuCtxGetCacheConfig) X(cuCtxSetCacheConfig) X(cuCtxGetApiVersion) X(cuCtxGetStreamPriorityRange) \
  X(cuCtxResetPersistingL2Cache) X(cuModuleLoad) X(cuModuleLoadData) X(cuModuleLoadDataEx) \
  X(cuModuleLoadFatBinary) X(cuModuleUnload) X(cuModuleGetLoadingMode) X(cuModuleGetFunction) \
  X(cuModuleGetFunctionCount) X(cuModuleEnumerateFunctions) X(cuModuleGetGlobal) X(cuLinkCreate) \
  X(cuLinkAddData) X(cuLinkAddFile) X(cuLinkComplete) X(cuLinkDestroy) X(cuLibraryLoadData) \
  X(cuLibraryLoadFromFile) X(cuLibraryUnload) X(cuLibraryGetKernel) X(cuLibraryGetKernelCount) \
  X(cuLibraryEnumerateKernels) X(cuLibraryGetModule) X(cuKernelGetFunction) X(cuKernelGetLibrary) \
  X(cuLibraryGetGlobal) X(cuLibraryGetManaged) X(cuLibraryGetUnifiedFunction) X(cuKernelGetAttribute) \
  X(cuKernelSetAttribute) X(cuKernelSetCacheConfig) X(cuKernelGetName) X(cuKernelGetParamInfo) \
  X(cuMemGetInfo) X(cuMemAlloc) X(cuMemAllocPitch) X(cuMemFree) X(cuMemGetAddressRange) X(cuMemAllocHost) \
  X(cuMemFreeHost) X(cuMemHostAlloc) X(cuMemHostGetDevicePointer) X(cuMemHostGetFlags) X(cuMemAllocManaged) \
  X(cuDeviceGetByPCIBusId) X(cuDeviceGetPCIBusId) X(cuMemHostRegister) X(cuMemHostUnregister) \
  X(cuMemcpyPeer) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoD) X(cuMemcpy2D) X(cuMemcpy2DUnaligned) \
  X(cuMemcpy3D) X(cuMemcpyPeerAsync) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) \
  X(cuMemcpy2DAsync) X(cuMemcpy3DAsync) X(cuMemsetD8) X(cuMemsetD16) X(cuMemsetD32) X(cuMemsetD2D8) \
  X(cuMemsetD2D16) X(cuMemsetD2D32) X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async) \
  X(cuMemsetD2D8Async) X(cuMemsetD2D16Async) X(cuMemsetD2D32Async) X(cuMemAddressReserve) \
  X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
  X(cuMemGetAccess) X(cuMemGetAllocationGranularity) X(cuMemGetAllocationPropertiesFromHandle) \
  X(cuMemRetainAllocationHandle) X(cuMemFreeAsync) X(cuMemAllocAsync) X(cuMemPoolTrimTo) \
  X(cuMemPoolSetAttribute) X(cuMemPoolGetAttribute) X(cuMemPoolSetAccess) X(cuMemPoolGetAccess) \
  X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemAllocFromPoolAsync) X(cuPointerGetAttribute) \
  X(cuMemPrefetchAsync) X(cuMemAdvise) X(cuMemRangeGetAttribute) X(cuMemRangeGetAttributes) \
  X(cuPointerGetAttributes) X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuStreamGetPriority) \
  X(cuStreamGetDevice) X(cuStreamGetFlags) X(cuStreamGetId) X(cuStreamGetCtx) X(cuStreamWaitEvent) \
  X(cuStreamAddCallback) X(cuStreamBeginCapture) X(cuStreamBeginCaptureToGraph) \
  X(cuThreadExchangeStreamCaptureMode) X(cuStreamEndCapture) X(cuStreamIsCapturing) \
  X(cuStreamGetCaptureInfo) X(cuStreamUpdateCaptureDependencies) X(cuStreamAttachMemAsync) X(cuStreamQuery) \
  X(cuStreamSynchronize) X(cuStreamDestroy) X(cuStreamCopyAttributes) X(cuStreamGetAttribute) \
  X(cuStreamSetAttribute) X(cuEventCreate) X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventQuery) \
  X(cuEventSynchronize) X(cuEventDestroy) X(cuEventElapsedTime) X(cuStreamWaitValue32) \
  X(cuStreamWaitValue64) X(cuStreamWriteValue32) X(cuStreamWriteValue64) X(cuStreamBatchMemOp) \
  X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuFuncSetCacheConfig) X(cuFuncGetModule) X(cuFuncGetName) \
  X(cuFuncGetParamInfo) X(cuFuncIsLoaded) X(cuFuncLoad) X(cuLaunchKernel) X(cuLaunchKernelEx) \
  X(cuLaunchCooperativeKernel) X(cuLaunchHostFunc) X(cuGraphCreate) X(cuGraphAddKernelNode) \
  X(cuGraphKernelNodeGetParams) X(cuGraphKernelNodeSetParams) X(cuGraphAddMemcpyNode) \
  X(cuGraphMemcpyNodeGetParams) X(cuGraphMemcpyNodeSetParams) X(cuGraphAddMemsetNode) \
  X(cuGraphMemsetNodeGetParams) X(cuGraphMemsetNodeSetParams) X(cuGraphAddHostNode) \
  X(cuGraphHostNodeGetParams) X(cuGraphHostNodeSetParams) X(cuGraphAddChildGraphNode) \
  X(cuGraphChildGraphNodeGetGraph) X(cuGraphAddEmptyNode) X(cuGraphAddEventRecordNode) \
  X(cuGraphEventRecordNodeGetEvent) X(cuGraphEventRecordNodeSetEvent) X(cuGraphAddEventWaitNode) \
  X(cuGraphEventWaitNodeGetEvent) X(cuGraphEventWaitNodeSetEvent) X(cuGraphAddMemAllocNode) \
  X(cuGraphMemAllocNodeGetParams) X(cuGraphAddMemFreeNode) X(cuGraphMemFreeNodeGetParams) \
  X(cuDeviceGraphMemTrim) X(cuDeviceGetGraphMemAttribute) X(cuDeviceSetGraphMemAttribute) X(cuGraphClone) \
  X(cuGraphNodeFindInClone) X(cuGraphNodeGetType) X(cuGraphGetNodes) X(cuGraphGetRootNodes) \
  X(cuGraphGetEdges) X(cuGraphNodeGetDependencies) X(cuGraphNodeGetDependentNodes) \
  X(cuGraphAddDependencies) X(cuGraphRemoveDependencies) X(cuGraphDestroyNode) \
  X(cuGraphInstantiateWithFlags) X(cuGraphInstantiateWithParams) X(cuGraphExecGetFlags) \
  X(cuGraphExecKernelNodeSetParams) X(cuGraphExecMemcpyNodeSetParams) X(cuGraphExecMemsetNodeSetParams) \
  X(cuGraphExecHostNodeSetParams) X(cuGraphExecChildGraphNodeSetParams) \
  X(cuGraphExecEventRecordNodeSetEvent) X(cuGraphExecEventWaitNodeSetEvent) X(cuGraphNodeSetEnabled) \
  X(cuGraphNodeGetEnabled) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy) \
  X(cuGraphExecUpdate) X(cuGraphKernelNodeCopyAttributes) X(cuGraphKernelNodeGetAttribute) \
  X(cuGraphKernelNodeSetAttribute) X(cuGraphDebugDotPrint) X(cuUserObjectCreate) X(cuUserObjectRetain) \
  X(cuUserObjectRelease) X(cuGraphRetainUserObject) X(cuGraphReleaseUserObject) X(cuGraphAddNode) \
  X(cuGraphNodeSetParams) X(cuGraphExecNodeSetParams) X(cuGraphConditionalHandleCreate) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
  X(cuOccupancyMaxPotentialBlockSize) X(cuOccupancyMaxPotentialBlockSizeWithFlags) \
  X(cuOccupancyAvailableDynamicSMemPerBlock) X(cuOccupancyMaxPotentialClusterSize) \
  X(cuOccupancyMaxActiveClusters) X(cuTensorMapEncodeTiled) X(cuTensorMapEncodeIm2col) \
  X(cuTensorMapReplaceAddress) X(cuDeviceCanAccessPeer)
// clang-format on

alignas(4096) char nobody[1 << 16];  // an address that is no handle

// Null and 0; or an address that is no handle, and 1.
template <class T>
T nothing() {
  return T{};
}
template <class T>
T junk() {
  if constexpr (std::is_pointer_v<T>) {
    if constexpr (std::is_function_v<std::remove_pointer_t<T>>) return nullptr;
    return (T)(static_cast<void*>(nobody));
  } else if constexpr (std::is_class_v<T>) {
    return T{};
  } else {
    return static_cast<T>(1);
  }
}

template <class... A>
CUresult with_nothing(CUresult (*f)(A...)) {
  return f(nothing<A>()...);
}
template <class... A>
CUresult with_junk(CUresult (*f)(A...)) {
  return f(junk<A>()...);
}

struct Entry {
  const char* name;
  CUresult (*nothing)();
  CUresult (*junk)();
};
const Entry kEntries[] = {
#define X(name) {#name, [] { return with_nothing(name); }, [] { return with_junk(name); }},
    ENTRY_POINTS(X)
#undef X
};

// Calls for which such an address is valid: it is written to, or only an option.
const std::set<std::string_view> kFine = {"cuGetErrorString",
                                          "cuGetErrorName",
                                          "cuDriverGetVersion",
                                          "cuDeviceGetCount",
                                          "cuCtxGetCurrent",
                                          "cuCtxGetDevice",
                                          "cuCtxGetFlags",
                                          "cuCtxSynchronize",
                                          "cuCtxGetLimit",
                                          "cuCtxGetCacheConfig",
                                          "cuCtxSetCacheConfig",
                                          "cuCtxGetStreamPriorityRange",
                                          "cuCtxResetPersistingL2Cache",
                                          "cuModuleGetLoadingMode",
                                          "cuLinkCreate",
                                          "cuMemGetInfo",
                                          "cuMemAlloc",
                                          "cuMemAllocHost",
                                          "cuMemHostAlloc",
                                          "cuMemAllocManaged",
                                          "cuMemHostRegister",
                                          "cuMemHostUnregister",
                                          "cuMemcpy2D",
                                          "cuMemcpy2DUnaligned",
                                          "cuMemcpy3D",
                                          "cuStreamCreate",
                                          "cuStreamCreateWithPriority",
                                          "cuThreadExchangeStreamCaptureMode",
                                          "cuEventCreate"};

constexpr const char* kPtx = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k() { ret; }
)";

struct Context {
  CUcontext context = nullptr;
  Context() {
    fp4lab_emulator_quiet(1);
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  }
  ~Context() {
    cuCtxDestroy(context);
    fp4lab_emulator_quiet(0);
  }
};

struct Kernel : Context {
  CUmodule module;
  CUfunction f;
  Kernel() {
    REQUIRE(cuModuleLoadData(&module, kPtx) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&f, module, "k") == CUDA_SUCCESS);
  }
  CUresult launch(CUstream stream) const {
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
};

using Answers = std::pair<CUresult, CUresult>;
constexpr Answers kRefused = {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};

// A call's result while a stream captures, and the result of ending the capture afterwards.
template <class Call>
Answers in_capture(Call call) {
  CUstream s;
  CUgraph graph;
  REQUIRE(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  const CUresult r = call(s), end = cuStreamEndCapture(s, &graph);
  CHECK(cuStreamDestroy(s) == CUDA_SUCCESS);
  return {r, end};
}

}  // namespace

TEST_CASE("driver: no entry point accepts null or a foreign address as a handle") {
  Context context;
  for (const Entry& e : kEntries) {
    INFO(std::string(e.name));
    e.nothing();
    std::fill(std::begin(nobody), std::end(nobody), 0);
    const CUresult r = e.junk();
    CHECK_MESSAGE((r == CUDA_SUCCESS) == kFine.contains(e.name), r);
    CUcontext current;
    CHECK(cuCtxGetCurrent(&current) == CUDA_SUCCESS);
    CHECK(current == context.context);
  }
}

// As on an H200 with driver 580.
TEST_CASE("driver: unlinkable text is an invalid source; a stack has 16 bytes to 512 KiB") {
  Context context;
  const std::string text =
      std::string(kPtx) + ".extern .func g();\n.visible .entry calls() { call g; ret; }\n";
  CUlinkState link;
  void* image;
  REQUIRE(cuLinkCreate(0, nullptr, nullptr, &link) == CUDA_SUCCESS);
  REQUIRE(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void*)text.c_str(), text.size() + 1, "t", 0, nullptr,
                        nullptr) == CUDA_SUCCESS);
  CHECK(cuLinkComplete(link, &image, nullptr) == CUDA_ERROR_INVALID_SOURCE);
  CHECK(cuLinkDestroy(link) == CUDA_SUCCESS);
  CHECK(cuLinkDestroy(link) == CUDA_ERROR_INVALID_HANDLE);
  size_t before, after;
  REQUIRE(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS);
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1025) == CUDA_SUCCESS);
  CHECK(cuCtxGetLimit(&after, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS);
  CHECK(after == 1040);
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 512 << 10) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before) == CUDA_SUCCESS);
}

TEST_CASE("driver: destroyed handles are invalid") {
  Kernel k;
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode node;
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = k.f, p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddKernelNode(&node, graph, nullptr, 0, &p) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CUgraphNodeType type;
  CHECK(cuGraphNodeGetType(node, &type) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuModuleUnload(k.module) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(k.launch(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("driver: streams and events end with their context") {
  Context context;
  CUcontext own;
  CUstream s;
  CUevent e;
  REQUIRE(cuCtxCreate(&own, nullptr, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuStreamCreate(&s, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&e, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxDestroy(own) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(s) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventSynchronize(e) == CUDA_ERROR_INVALID_HANDLE);
}

// As on an H200 with driver 580.
TEST_CASE("driver: calls that conflict with a capture invalidate it") {
  Kernel k;
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode node;
  CUdeviceptr p;
  REQUIRE(cuMemAlloc(&p, 64) == CUDA_SUCCESS);
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddEmptyNode(&node, graph, nullptr, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  const CUstream other = CU_STREAM_PER_THREAD;
  CHECK(in_capture([&](CUstream) { return cuStreamSynchronize(other); }) == kRefused);
  CHECK(in_capture([&](CUstream) { return cuMemAllocAsync(&p, 16, other); }) == kRefused);
  CHECK(in_capture([&](CUstream) { return cuMemFreeAsync(p, other); }) == kRefused);
  CHECK(in_capture([&](CUstream) { return cuGraphInstantiate(&exec, graph, 0); }) == kRefused);
  CHECK(in_capture([&](CUstream) { return cuGraphExecDestroy(exec); }) == kRefused);
  CHECK(in_capture([&](CUstream) { return cuModuleUnload(k.module); }) == kRefused);
  CHECK(in_capture([&](CUstream s) { return cuGraphLaunch(exec, s); }) == kRefused);
  unsigned flags;
  CHECK(in_capture([&](CUstream s) { return cuStreamGetFlags(s, &flags); }) == kRefused);
  CHECK(in_capture([&](CUstream) { return cuGraphLaunch(exec, other); }) == Answers{});
  CHECK(in_capture([&](CUstream s) { return cuMemFreeAsync(p, s); }) ==
        Answers{CUDA_ERROR_INVALID_VALUE, CUDA_SUCCESS});
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(cuMemFree(p) == CUDA_SUCCESS);
}

TEST_CASE("driver: a capture keeps the data of its edges") {
  Kernel k;
  CUstream s;
  CUgraph graph;
  CUstreamCaptureStatus status;
  const CUgraphNode* tail;
  const CUgraphEdgeData* data;
  size_t count = 0;
  CUgraphEdgeData early{};
  early.from_port = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
  early.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  REQUIRE(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(k.launch(s) == CUDA_SUCCESS);
  const auto info = [&](const CUgraphEdgeData** edges) {
    return cuStreamGetCaptureInfo(s, &status, nullptr, &graph, &tail, edges, &count);
  };
  REQUIRE(info(&data) == CUDA_SUCCESS);
  REQUIRE(count == 1);
  CUgraphNode first = tail[0];
  REQUIRE(cuStreamUpdateCaptureDependencies(s, &first, &early, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES) ==
          CUDA_SUCCESS);
  CHECK(info(nullptr) == CUDA_ERROR_LOSSY_QUERY);
  REQUIRE(info(&data) == CUDA_SUCCESS);
  CHECK(data[0].from_port == early.from_port);
  REQUIRE(k.launch(s) == CUDA_SUCCESS);
  REQUIRE(info(&data) == CUDA_SUCCESS);
  CHECK(data[0].type == 0);
  CUgraphNode need;
  CUgraphEdgeData kept{};
  count = 1;
  CHECK(cuGraphNodeGetDependencies(tail[0], &need, &kept, &count) == CUDA_SUCCESS);
  CHECK(need == first);
  CHECK(kept.from_port == early.from_port);
  CHECK(cuStreamEndCapture(s, &graph) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(s) == CUDA_SUCCESS);
}

// As on an H100 with driver 580.
TEST_CASE("driver: virtual memory needs no context") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  CUcontext none;
  while (cuCtxPopCurrent(&none) == CUDA_SUCCESS) continue;
  CUmemAllocationProp properties{}, asked{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t bytes = 0;
  REQUIRE(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
          CUDA_SUCCESS);
  CUmemGenericAllocationHandle memory, again;
  CUdeviceptr p;
  unsigned long long flags = 0;
  REQUIRE(cuMemCreate(&memory, bytes, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressReserve(&p, bytes, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(p, bytes, 0, memory, 0) == CUDA_SUCCESS);
  CHECK(cuMemSetAccess(p, bytes, &access, 1) == CUDA_SUCCESS);
  CHECK(cuMemGetAccess(&flags, &properties.location, p) == CUDA_SUCCESS);
  CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(p)) == CUDA_SUCCESS);
  CHECK(cuMemGetAllocationPropertiesFromHandle(&asked, again) == CUDA_SUCCESS);
  CHECK(cuMemRelease(again) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(p, bytes) == CUDA_SUCCESS);
  CHECK(cuMemRelease(memory) == CUDA_SUCCESS);
  CHECK(cuMemAddressFree(p, bytes) == CUDA_SUCCESS);
}

TEST_CASE("driver: threads without a context work on streams that have one, at the same time") {
  Kernel k;
  const auto work = [&k](CUstream s) {
    CUevent event;
    if (cuEventCreate(&event, 0) != CUDA_ERROR_INVALID_CONTEXT) return CUDA_ERROR_UNKNOWN;
    for (int i = 0; i < 200; ++i) {
      CUgraph graph, clone;
      CUgraphNode node;
      for (const CUresult r : {k.launch(s), cuStreamSynchronize(s), cuGraphCreate(&graph, 0),
                               cuGraphAddEmptyNode(&node, graph, nullptr, 0), cuGraphClone(&clone, graph),
                               cuGraphDestroy(graph), cuGraphDestroy(clone)})
        if (r) return r;
    }
    return cuStreamDestroy(s);
  };
  std::vector<CUresult> results(4, CUDA_ERROR_UNKNOWN);
  std::vector<std::thread> threads;
  for (CUresult& r : results) {
    CUstream s;
    REQUIRE(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    threads.emplace_back([&r, &work, s] { r = work(s); });
  }
  for (std::thread& t : threads) t.join();
  for (const CUresult r : results) CHECK(r == CUDA_SUCCESS);
}
