// The emulated driver through its exported names, as a CUDA program uses it.
#include <cuda.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "../skip.h"
#include "emulator/driver/state.h"
#include "fp4lab/emulator.h"

namespace {

constexpr const char* kPtx = R"(.version 9.0
.target sm_90
.address_size 64
.global .align 4 .f32 scale = 0f40000000;
.const .align 8 .u64 where[2] = {0, scale};
.extern .shared .align 16 .b8 dynamic[];

.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<9>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n];
  setp.ge.u32 %p, %r4, %r5;
  @%p bra DONE;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  mul.wide.u32 %rd4, %r4, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  ld.const.u64 %rd8, [where+8];
  ld.global.f32 %f3, [%rd8];
  fma.rn.f32 %f4, %f2, %f3, %f1;
  st.global.f32 [%rd7], %f4;
DONE:
  ret;
}

.visible .entry counts_clusters(.param .u64 out) .reqntid 32 .reqnctapercluster 2, 1, 1 .blocksareclusters
{
  .reg .b32 %r<4>;
  .reg .b64 %rd;
  ld.param.u64 %rd, [out];
  mov.u32 %r1, %nctaid.x;
  mov.u32 %r2, %nclusterid.x;
  mov.u32 %r3, %ntid.x;
  st.global.v2.u32 [%rd], {%r1, %r2};
  st.global.u32 [%rd+8], %r3;
  ret;
}

.visible .entry shared_round_trip(.param .u64 out) .maxntid 64
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, dynamic;
  add.s32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  ld.shared.u32 %r1, [%r3];
  ld.param.u64 %rd1, [out];
  cvt.u64.u32 %rd2, %r2;
  add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
  ret;
}

.visible .entry wild(.param .u64 p)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  st.global.u32 [%rd1], 1;
  ret;
}
)";

struct Context {
  CUcontext context = nullptr;
  Context() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    CUdevice device;
    REQUIRE(cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate(&context, nullptr, 0, device) == CUDA_SUCCESS);
  }
  ~Context() { cuCtxDestroy(context); }
};

struct LoadedModule : Context {
  CUmodule module = nullptr;
  LoadedModule() { REQUIRE(cuModuleLoadData(&module, kPtx) == CUDA_SUCCESS); }
  ~LoadedModule() { cuModuleUnload(module); }
  CUfunction function(const char* name) {
    CUfunction f;
    REQUIRE(cuModuleGetFunction(&f, module, name) == CUDA_SUCCESS);
    return f;
  }
};

struct Buffer {
  CUdeviceptr p = 0;
  size_t bytes;
  explicit Buffer(size_t n) : bytes(n) { REQUIRE(cuMemAlloc(&p, n) == CUDA_SUCCESS); }
  ~Buffer() { cuMemFree(p); }
};

std::vector<float> values(size_t n, float first) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = first + static_cast<float>(i);
  return v;
}

}  // namespace

TEST_CASE("driver: a kernel adds vectors, with globals, in every stream and launch call") {
  LoadedModule m;
  CUfunction f = m.function("add");
  unsigned n = 1000;
  auto a = values(n, 1), b = values(n, -7);
  Buffer da(4 * n), db(4 * n), dc(4 * n);
  REQUIRE(cuMemcpyHtoD(da.p, a.data(), 4 * n) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyHtoD(db.p, b.data(), 4 * n) == CUDA_SUCCESS);
  void* params[] = {&da.p, &db.p, &dc.p, &n};
  std::vector<float> c(n);
  auto check = [&](float scale) {
    REQUIRE(cuMemcpyDtoH(c.data(), dc.p, 4 * n) == CUDA_SUCCESS);
    for (unsigned i = 0; i < n; ++i) REQUIRE(c[i] == a[i] + scale * b[i]);
    REQUIRE(cuMemsetD32(dc.p, 0, n) == CUDA_SUCCESS);
  };

  REQUIRE(cuLaunchKernel(f, 8, 1, 1, 128, 1, 1, 0, nullptr, params, nullptr) == CUDA_SUCCESS);
  check(2);

  fp4lab_emulator_stats stats;
  fp4lab_emulator_statistics(&stats);
  CHECK(stats.warp_instructions > 8 * 4 * 10);
  CHECK(stats.seconds > 0);

  CUdeviceptr scale;
  size_t bytes;
  REQUIRE(cuModuleGetGlobal(&scale, &bytes, m.module, "scale") == CUDA_SUCCESS);
  CHECK(bytes == 4);
  float three = 3;
  REQUIRE(cuMemcpyHtoD(scale, &three, 4) == CUDA_SUCCESS);
  CUstream stream;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CUlaunchAttribute attribute[2] = {};
  attribute[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute[0].value.clusterDim = {2, 1, 1};
  attribute[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute[1].value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {};
  config.gridDimX = 12, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 96, config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = attribute;
  config.numAttrs = 2;
  REQUIRE(cuLaunchKernelEx(&config, f, params, nullptr) == CUDA_SUCCESS);
  check(3);

  // Captured work runs at each launch of the graph.
  REQUIRE(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(cuLaunchKernelEx(&config, f, params, nullptr) == CUDA_SUCCESS);
  CUgraph graph;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoH(c.data(), dc.p, 4 * n) == CUDA_SUCCESS);
  CHECK(c == std::vector<float>(n));
  CUgraphExec exec;
  REQUIRE(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    check(3);
  }
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
  cuStreamDestroy(stream);
}

TEST_CASE("driver: a graph that a stream captures into keeps its nodes, which belong to the graph") {
  Context context;
  Buffer b(4);
  CUstream s;
  CUgraph graph, foreign, got;
  CUgraphNode before, elsewhere;
  REQUIRE(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphCreate(&foreign, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddEmptyNode(&before, graph, nullptr, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddEmptyNode(&elsewhere, foreign, nullptr, 0) == CUDA_SUCCESS);
  const auto begin = [&](const CUgraphNode& behind) {
    return cuStreamBeginCaptureToGraph(s, graph, &behind, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL);
  };
  CHECK(begin(elsewhere) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(begin(before) == CUDA_SUCCESS);
  CHECK(cuGraphDestroyNode(before) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroyNode(elsewhere) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddEmptyNode(&elsewhere, foreign, nullptr, 0) == CUDA_SUCCESS);
  const auto behind = [&](CUgraphNode node) {
    return cuStreamUpdateCaptureDependencies(s, &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  };
  CHECK(behind(elsewhere) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemsetD32Async(b.p, 7, 1, s) == CUDA_SUCCESS);
  // Dependencies dropped or added by the program need not be joined.
  CHECK(behind(before) == CUDA_SUCCESS);
  CHECK(cuGraphAddEmptyNode(&elsewhere, graph, nullptr, 0) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(s, &got) == CUDA_SUCCESS);
  CHECK(cuGraphDestroyNode(before) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(foreign) == CUDA_SUCCESS);

  // The graph belongs to the capture until it ends, or until its stream is destroyed.
  CUstreamCaptureStatus status;
  REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(cuStreamGetCaptureInfo(s, &status, nullptr, &graph, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamDestroy(s) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

TEST_CASE("driver: waiting for captured work fails and invalidates the capture") {
  Context context;
  Buffer b(4);
  CUstream s;
  CUevent event, outside;
  REQUIRE(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&outside, 0) == CUDA_SUCCESS);
  // As on an H200: `answer` during the capture, `later` after it.
  const auto capture = [&](auto wait, CUresult answer, CUresult later = CUDA_SUCCESS) {
    REQUIRE(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    REQUIRE(cuMemsetD32Async(b.p, 7, 1, s) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(event, s) == CUDA_SUCCESS);
    REQUIRE(cuEventRecordWithFlags(outside, s, CU_EVENT_RECORD_EXTERNAL) == CUDA_SUCCESS);
    CHECK(wait() == answer);
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(s, &graph) == (answer ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS));
    CHECK((graph != nullptr) == !answer);
    CHECK(wait() == later);
    if (graph) CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  };
  capture([] { return cuCtxSynchronize(); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  capture([&] { return cuStreamQuery(s); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  capture([&] { return cuEventSynchronize(event); }, CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_INVALID_VALUE);
  capture([&] { return cuEventQuery(event); }, CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_INVALID_VALUE);
  capture([&] { return cuEventQuery(outside); }, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  for (const CUevent e : {event, outside}) CHECK(cuEventDestroy(e) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(s) == CUDA_SUCCESS);
}

TEST_CASE("driver: attributes of an unknown address write no more than their size") {
  Context context;
  const CUdeviceptr nobody = 16;
  const auto ask = [&](CUpointer_attribute attribute, void* to) {
    return cuPointerGetAttributes(1, &attribute, &to, nobody);
  };
  for (const auto attribute : {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                               CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL}) {
    unsigned to[2] = {7, 7};
    CHECK(ask(attribute, to) == CUDA_SUCCESS);
    CHECK(to[0] == (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? unsigned(CU_DEVICE_INVALID) : 0));
    CHECK(to[1] == 7);
  }
  for (const auto attribute : {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                               CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                               CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE}) {
    uint64_t to = 7;
    CHECK(ask(attribute, &to) == CUDA_SUCCESS);
    CHECK(to == 0);
  }
  for (const auto attribute :
       {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE}) {
    uint64_t to = 7;
    CHECK(ask(attribute, &to) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(to == 7);
  }
}

// Seen on an H100 with driver 580, except for the variable and the pitched memory, which were not tested
// there.
TEST_CASE("driver: a pointer's context is the one that allocated or registered it, whichever is current") {
  LoadedModule a;
  const Buffer of_a(123);
  size_t pitch;
  CUdeviceptr pitched, variable, managed, of_pool;
  REQUIRE(cuMemAllocPitch(&pitched, &pitch, 20, 3, 4) == CUDA_SUCCESS);
  REQUIRE(cuModuleGetGlobal(&variable, nullptr, a.module, "scale") == CUDA_SUCCESS);
  std::vector<std::byte> registered(8192);
  void* locked;
  {
    Context b;
    REQUIRE(cuMemHostAlloc(&locked, 64, 0) == CUDA_SUCCESS);
    REQUIRE(cuMemHostRegister(registered.data(), registered.size(), 0) == CUDA_SUCCESS);
    REQUIRE(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    REQUIRE(cuMemAllocAsync(&of_pool, 64, nullptr) == CUDA_SUCCESS);
    const auto check = [&] {
      const auto owner = [](CUdeviceptr p) {
        CUcontext c = nullptr;
        CHECK(cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_CONTEXT, p) == CUDA_SUCCESS);
        return c;
      };
      CHECK(owner(of_a.p + 5) == a.context);
      CHECK(owner(pitched) == a.context);
      CHECK(owner(variable) == a.context);
      CHECK(owner(reinterpret_cast<CUdeviceptr>(locked)) == b.context);
      CHECK(owner(reinterpret_cast<CUdeviceptr>(registered.data()) + 100) == b.context);
      CHECK(owner(managed) == b.context);
      CHECK(owner(of_pool) == nullptr);
    };
    check();
    CUcontext current;
    REQUIRE(cuCtxPopCurrent(&current) == CUDA_SUCCESS);
    check();  // a is current
    REQUIRE(cuCtxPopCurrent(&current) == CUDA_SUCCESS);
    check();  // none is current
    REQUIRE(cuCtxPushCurrent(a.context) == CUDA_SUCCESS);
    REQUIRE(cuCtxPushCurrent(b.context) == CUDA_SUCCESS);
    CHECK(cuMemFreeHost(locked) == CUDA_SUCCESS);
    CHECK(cuMemHostUnregister(registered.data()) == CUDA_SUCCESS);
    CHECK(cuMemFree(managed) == CUDA_SUCCESS);
    CHECK(cuMemFree(of_pool) == CUDA_SUCCESS);
  }
  CHECK(cuMemFree(pitched) == CUDA_SUCCESS);
}

TEST_CASE("driver: the grid of a kernel with .blocksareclusters counts clusters") {
  LoadedModule m;
  Buffer out(12);
  void* params[] = {&out.p};
  const auto launch = [&](unsigned clusters, unsigned block = 32) {
    return cuLaunchKernel(m.function("counts_clusters"), clusters, 1, 1, block, 1, 1, 0, nullptr, params,
                          nullptr);
  };
  // __block_size__ kernels are launched with 1 for the block, too (so on an H100).
  for (const unsigned block : {32u, 1u}) {
    REQUIRE(launch(3, block) == CUDA_SUCCESS);
    unsigned seen[3] = {};
    REQUIRE(cuMemcpyDtoH(seen, out.p, 12) == CUDA_SUCCESS);
    CHECK(seen[0] == 6);
    CHECK(seen[1] == 3);
    CHECK(seen[2] == 32);
  }
  CHECK(launch(3, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(0x40000000) == CUDA_ERROR_INVALID_VALUE);  // 2^31 CTAs, one more than x may have
  CHECK(launch(0x80000001) == CUDA_ERROR_INVALID_VALUE);
}

// The bank begins at 0x210 on sm_90 and at 0x380 on sm_100 (ptxas), and parameters are aligned in it. An H100
// with driver 580 reads the buffer so (2026-11-28).
TEST_CASE("driver: a buffer of parameters is laid out as the driver's block") {
  constexpr const char* kKernel = R"(.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .align 128 .b8 a[128])
{
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [out];
  ld.param.u32 %r, [a+124];
  st.global.u32 [%rd], %r;
  ret;
})";
  for (const auto& [major, offset] : {std::pair{9, 0x70u}, {10, 0x80u}}) {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    if (fp4lab_emulator_select(major, 0) != CUDA_SUCCESS) FP4LAB_SKIP("another machine is in use");
    Context context;
    CUmodule module;
    CUfunction f;
    REQUIRE(cuModuleLoadData(&module, kKernel) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&f, module, "k") == CUDA_SUCCESS);
    size_t at = 0, bytes = 0;
    CHECK(cuFuncGetParamInfo(f, 1, &at, &bytes) == CUDA_SUCCESS);
    CHECK(at == offset);
    CHECK(bytes == 128);
    const Buffer out(4);
    std::vector<uint32_t> block((offset + 128) / 4);
    for (uint32_t i = 0; i < block.size(); ++i) block[i] = i;
    std::memcpy(block.data(), &out.p, 8);
    const auto launch = [&](size_t size) {
      void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, block.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                       CU_LAUNCH_PARAM_END};
      return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
    };
    CHECK(launch(offset + 128) == CUDA_SUCCESS);
    uint32_t seen = 0;
    cuMemcpyDtoH(&seen, out.p, 4);
    CHECK(seen == (offset + 124) / 4);
    CHECK(launch(offset + 129) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CHECK(launch(8) == CUDA_ERROR_INVALID_VALUE);  // hardware takes what lies behind the buffer
    CHECK(std::string(fp4lab_emulator_report()).find("8 bytes of parameters given") != std::string::npos);
    cuModuleUnload(module);
  }
}

TEST_CASE("driver: what the launch checks") {
  LoadedModule m;
  CUfunction f = m.function("shared_round_trip");
  Buffer out(256);
  void* params[] = {&out.p};
  auto launch = [&](unsigned grid, unsigned block, unsigned dynamic) {
    return cuLaunchKernel(f, grid, 1, 1, block, 1, 1, dynamic, nullptr, params, nullptr);
  };
  CHECK(launch(0, 32, 256) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 0, 256) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 2048, 256) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 96, 256) == CUDA_ERROR_INVALID_VALUE);  // .maxntid 64
  CHECK(launch(1, 32, 100000) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448 + 1) ==
        CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000) == CUDA_SUCCESS);
  CHECK(launch(1, 64, 100000) == CUDA_SUCCESS);
  CHECK(cuLaunchCooperativeKernel(f, 148 * 2, 1, 1, 64, 1, 1, 100000, nullptr, params) == CUDA_SUCCESS);
  CHECK(cuLaunchCooperativeKernel(f, 148 * 2 + 1, 1, 1, 64, 1, 1, 100000, nullptr, params) ==
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  std::vector<unsigned> got(64);
  REQUIRE(cuMemcpyDtoH(got.data(), out.p, 256) == CUDA_SUCCESS);
  for (unsigned i = 0; i < 64; ++i) CHECK(got[i] == i);
  CHECK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CUlaunchAttribute cluster = {};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  CUlaunchConfig config = {};
  config.gridDimX = 18, config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32, config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = 256;
  config.attrs = &cluster;
  config.numAttrs = 1;
  cluster.value.clusterDim = {4, 1, 1};
  CHECK(cuLaunchKernelEx(&config, f, params, nullptr) ==
        CUDA_ERROR_INVALID_CLUSTER_SIZE);  // 18 is no multiple of 4
  cluster.value.clusterDim = {9, 1, 1};
  CHECK(cuLaunchKernelEx(&config, f, params, nullptr) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
  REQUIRE(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1) == CUDA_SUCCESS);
  CHECK(cuLaunchKernelEx(&config, f, params, nullptr) == CUDA_SUCCESS);
}

TEST_CASE("driver: optimisation level 0 does not contract products and sums") {
  Context context;
  std::string ptx = kPtx;
  const std::string fma = "fma.rn.f32 %f4, %f2, %f3, %f1;";
  ptx.replace(ptx.find(fma), fma.size(), "mul.f32 %f4, %f2, %f2; add.f32 %f4, %f4, %f1;");
  for (const bool optimised : {true, false}) {
    CUmodule module;
    CUfunction f;
    CUjit_option option = CU_JIT_OPTIMIZATION_LEVEL;
    void* level = nullptr;
    REQUIRE(cuModuleLoadDataEx(&module, ptx.c_str(), optimised ? 0 : 1, &option, &level) == CUDA_SUCCESS);
    REQUIRE(cuModuleGetFunction(&f, module, "add") == CUDA_SUCCESS);
    CUdeviceptr a, b, c;
    unsigned one = 1;
    for (CUdeviceptr* p : {&a, &b, &c}) REQUIRE(cuMemAlloc(p, 4) == CUDA_SUCCESS);
    const float minus = -1, factor = 1 + 0x1p-12f;  // the square is 1 + 2^-11 + 2^-24
    cuMemcpyHtoD(a, &minus, 4);
    cuMemcpyHtoD(b, &factor, 4);
    void* params[] = {&a, &b, &c, &one};
    REQUIRE(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr) == CUDA_SUCCESS);
    float sum = 0;
    cuMemcpyDtoH(&sum, c, 4);
    CHECK(sum == (optimised ? 0x1p-11f + 0x1p-24f : 0x1p-11f));
    for (const CUdeviceptr p : {a, b, c}) cuMemFree(p);
    cuModuleUnload(module);
  }
}

TEST_CASE("driver: images that cannot be loaded say why") {
  Context context;
  CUmodule module;
  char log[2000] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* settings[] = {log, reinterpret_cast<void*>(sizeof log)};
  std::string broken = kPtx;
  broken.replace(broken.find("fma.rn.f32"), 10, "fmo.rn.f32");
  CHECK(cuModuleLoadDataEx(&module, broken.c_str(), 2, options, settings) == CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find("unknown instruction 'fmo'; did you mean fma?") != std::string::npos);
  CHECK(cuModuleLoadData(&module, "\177ELF\2\1\1") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  std::string hopper = kPtx;
  hopper.replace(hopper.find("sm_90"), 5, "sm_90a");
  CHECK(cuModuleLoadDataEx(&module, hopper.c_str(), 2, options, settings) == CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find("the PTX is for sm_90a, the emulated device is") == 0);
  // What another device has is not asked for by the name of this one.
  const std::string other =
      ".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry k() { .reg .b8 %b; .reg .f32 %f; "
      "mov.f32 %f, "
      "0f00000000; cvt.rn.satfinite.e2m1x2.f32 %b, %f, %f; ret; }\n";
  CHECK(cuModuleLoadDataEx(&module, other.c_str(), 2, options, settings) == CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find("the PTX is for sm_120a, the emulated device is") == 0);
  const std::string pointer =
      ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 .ptr .shared "
      ".align 8 b) { ret; }\n";
  CHECK(cuModuleLoadDataEx(&module, pointer.c_str(), 2, options, settings) == CUDA_ERROR_INVALID_IMAGE);
  CHECK(std::string(log).find("'b' of kernel k is a pointer to shared memory") != std::string::npos);
  CHECK(cuModuleLoad(&module, "/nonexistent/x.ptx") == CUDA_ERROR_FILE_NOT_FOUND);

  const std::string path = std::filesystem::temp_directory_path() / fmt::format("fp4lab-{}.ptx", getpid());
  std::ofstream(path) << broken;
  CUlibrary library;
  std::fill(std::begin(log), std::end(log), 0);
  CHECK(cuLibraryLoadFromFile(&library, path.c_str(), options, settings, 2, nullptr, nullptr, 0) ==
        CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find(path) != std::string::npos);
  CHECK(std::string(log).find("did you mean fma?") != std::string::npos);
  std::ofstream(path) << kPtx;
  CHECK(cuLibraryLoadFromFile(&library, path.c_str(), options, settings, 2, nullptr, nullptr, 0) ==
        CUDA_SUCCESS);
  CHECK(std::string(log).empty());
  CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
  std::remove(path.c_str());
}

// The container of nvcc 13: a header, then for each image a header of 0x40 bytes or more and the image.
struct FatbinImage {
  std::string payload;
  uint16_t kind = 1;  // PTX; 2: machine code
  uint32_t architecture = 90, compressed = 0;
  uint64_t uncompressed = 0;
};
static std::string fatbin(const std::vector<FatbinImage>& images) {
  std::string bytes, body;
  const auto put = [](std::string& to, auto value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const FatbinImage& i : images) {
    put(body, i.kind), put(body, uint16_t(0x101)), put(body, 0x40u), put(body, uint64_t(i.payload.size()));
    put(body, i.compressed), put(body, 0x40u), put(body, uint16_t(0)), put(body, uint16_t(9));
    put(body, i.architecture), put(body, 0u), put(body, 0u);
    put(body, uint64_t(0x11)), put(body, uint64_t(0)), put(body, i.uncompressed);
    body += i.payload;
  }
  put(bytes, 0xba55ed50u), put(bytes, uint16_t(1)), put(bytes, uint16_t(16)),
      put(bytes, uint64_t(body.size()));
  return bytes + body;
}
static std::string ptx_for(const char* target) {
  std::string ptx = kPtx;
  return ptx.replace(ptx.find("sm_90"), 5, target) + '\0';
}
static FatbinImage zstd(const std::string& ptx) {  // an empty payload without the library
  void* library = dlopen("libzstd.so.1", RTLD_NOW);
  if (!library) return {};
  const auto compress =
      reinterpret_cast<size_t (*)(void*, size_t, const void*, size_t, int)>(dlsym(library, "ZSTD_compress"));
  std::string packed(2 * ptx.size(), '\0');
  packed.resize(compress(packed.data(), packed.size(), ptx.data(), ptx.size(), 3));
  const auto size = static_cast<uint32_t>(packed.size());
  return {.payload = std::move(packed), .compressed = size, .uncompressed = ptx.size()};
}
// An LZ4 block of one sequence of literals, plus a match if the text repeats its last 4 + `match` bytes.
static std::string lz4(const std::string& literals, size_t match, uint16_t offset, const std::string& tail) {
  const auto length = [](std::string& to, size_t n) {
    for (n -= 15; n >= 255; n -= 255) to += '\xff';
    to += static_cast<char>(n);
  };
  std::string block(1, static_cast<char>(0xf0 | std::min<size_t>(15, match - 4)));
  length(block, literals.size());
  block += literals;
  block += static_cast<char>(offset & 255), block += static_cast<char>(offset >> 8);
  if (match - 4 >= 15) length(block, match - 4);
  block += static_cast<char>(tail.size() << 4);
  return block + tail;
}

TEST_CASE("driver: fatbins with plain or compressed PTX") {
  Context context;
  CUmodule module;
  const auto load = [&](const std::vector<FatbinImage>& images) {
    const CUresult r = cuModuleLoadFatBinary(&module, fatbin(images).data());
    if (!r) CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
    return r;
  };
  const std::string ptx = ptx_for("sm_90");
  REQUIRE(load({{ptx}}) == CUDA_SUCCESS);
  CHECK(load({{ptx, 2}}) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(std::string(fp4lab_emulator_report()).find("only machine code (sm_90)") != std::string::npos);
  CHECK(std::string(fp4lab_emulator_report()).find("arch=compute_100a,code=compute_100a") !=
        std::string::npos);
  CHECK(load({{ptx_for("sm_120")}}) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(load({{"\x28\xb5\x2f\xfd broken", 1, 90, 11, 900}}) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(std::string(fp4lab_emulator_report()).find("--no-compress") != std::string::npos);
  if (FatbinImage packed = zstd(ptx); !packed.payload.empty()) CHECK(load({packed}) == CUDA_SUCCESS);

  // A space after the text, 299 more as a match of one byte that overlaps itself, and the last sequence.
  const std::string block = lz4(ptx.substr(0, ptx.size() - 1) + ' ', 299, 1, std::string(5, '\0'));
  const uint64_t whole = ptx.size() - 1 + 300 + 5;
  const auto size = static_cast<uint32_t>(block.size());
  CHECK(load({{block, 1, 90, size, whole}}) == CUDA_SUCCESS);
  CHECK(load({{block, 1, 90, size, whole - 1}}) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(load({{block, 1, 90, size - 3, whole}}) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(load({{lz4(ptx, 20, 60000, "x"), 1, 90, size, whole}}) ==
        CUDA_ERROR_NO_BINARY_FOR_GPU);  // before its begin
}

TEST_CASE("driver: of several images the one for the device is loaded") {
  using fp4lab::emu::driver::read_image;
  Context context;
  const auto chosen = [](const std::vector<const char*>& targets) {
    std::vector<FatbinImage> images;
    for (const char* target : targets) images.push_back({ptx_for(target)});
    const std::string bytes = fatbin(images);
    const std::string ptx = read_image(bytes.data(), bytes.size()).ptx;
    const size_t at = ptx.find("sm_");
    return at == ptx.npos ? std::string() : ptx.substr(at, ptx.find('\n', at) - at);
  };
  CHECK(chosen({"sm_80", "sm_90", "sm_90a"}) == "sm_90");
  CHECK(chosen({"sm_100", "sm_100a", "sm_100f", "sm_90"}) == "sm_100a");
  CHECK(chosen({"sm_100f", "sm_100"}) == "sm_100f");
  CHECK(chosen({"sm_120a", "sm_90a", "sm_103f"}) == "");
}

// nvcc -arch=sm_90a also embeds PTX for sm_90, which newer devices run too.
TEST_CASE("driver: the device model is selected by the program's images") {
  if (std::getenv("FP4LAB_EMULATOR_DEVICE")) FP4LAB_SKIP("FP4LAB_EMULATOR_DEVICE has chosen a machine");
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  const auto chosen = [](const std::vector<const char*>& targets) {
    std::vector<FatbinImage> images;
    for (const char* target : targets) images.push_back({ptx_for(target)});
    const std::string bytes = fatbin(images);
    const void* image = bytes.data();
    int major = 0;
    if (fp4lab_emulator_select_for(&image, 1)) return 0;
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) == CUDA_SUCCESS);
    return major;
  };
  CHECK(chosen({"sm_90", "sm_90a"}) == 9);
  CHECK(chosen({"sm_100", "sm_100a"}) == 10);
  CHECK(chosen({"sm_90"}) == 9);
  CHECK(chosen({"sm_120a"}) == 0);
  CHECK(chosen({"sm_90a", "sm_100a"}) == 10);  // the first of those that fit equally well
}

TEST_CASE("driver: the callback that selects the device runs before the first context only") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  static int asked;
  asked = 0;
  fp4lab_emulator_select_by([] { ++asked; });
  {
    Context first;
    CHECK(asked == 1);
    Context second;
    CUcontext primary;
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  }
  CHECK(asked == 1);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CUcontext primary;
  CHECK(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  CHECK(asked == 2);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  fp4lab_emulator_select_by(nullptr);
}

TEST_CASE("driver: a truncated or damaged fatbin is refused") {
  using fp4lab::emu::driver::read_image;
  Context context;
  const std::string ptx = ptx_for("sm_90");
  std::vector<FatbinImage> images{{ptx}, {ptx, 2}};
  if (FatbinImage packed = zstd(ptx); !packed.payload.empty()) images.push_back(packed);
  const std::string whole = fatbin(images);
  for (size_t n = 4; n < whole.size(); ++n) {
    const std::vector<char> cut(whole.begin(),
                                whole.begin() + ptrdiff_t(n));  // its own memory, for the sanitizer
    read_image(cut.data(), cut.size());
  }
  std::mt19937 random(7);
  for (int k = 0; k < 3000; ++k) {
    std::string bytes = whole;
    for (int changes = 1 + int(random() % 4); changes; --changes)
      bytes[4 + random() % (k % 2 ? 0x90 : bytes.size() - 4)] = static_cast<char>(random());
    const std::vector<char> damaged(bytes.begin(), bytes.end());
    read_image(damaged.data(), damaged.size());
  }
}

TEST_CASE("driver: a fault is sticky in its own context only") {
  {
    LoadedModule m;
    CUdeviceptr nowhere = 0x10;
    void* params[] = {&nowhere};
    CHECK(cuLaunchKernel(m.function("wild"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr) ==
          CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, 16) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    std::string report = fp4lab_emulator_report();
    CHECK(report.find("wild") != std::string::npos);
    CHECK(report.find("st.global.u32") != std::string::npos);
  }
  LoadedModule fresh;
  Buffer b(16);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
}

// As on an H100 with driver 580.
TEST_CASE("driver: the device is found by every form of its PCI bus id") {
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  char whole[32];
  int domain, bus, slot;
  REQUIRE(cuDeviceGetPCIBusId(whole, sizeof whole, 0) == CUDA_SUCCESS);
  for (const auto& [attribute, value] :
       {std::pair{CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domain},
        std::pair{CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &bus}, std::pair{CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &slot}})
    REQUIRE(cuDeviceGetAttribute(value, attribute, 0) == CUDA_SUCCESS);
  const auto find = [](const std::string& id) {
    CUdevice device = -1;
    const CUresult r = cuDeviceGetByPCIBusId(&device, id.c_str());
    CHECK((device == 0) == (r == CUDA_SUCCESS));
    return r;
  };
  const std::string place = fmt::format("{:02x}:{:02x}", bus, slot);
  CHECK(find(whole) == CUDA_SUCCESS);
  CHECK(find(fmt::format("{:04x}:{}", domain, place)) == CUDA_SUCCESS);
  CHECK(find(fmt::format("{:x}:{:x}:{:x}", domain, bus, slot)) == CUDA_SUCCESS);
  CHECK(find(place + ".0") == CUDA_SUCCESS);
  for (const std::string& other : {place + ".1", fmt::format("{:04x}:{}.1", domain, place),
                                   std::string("ffff:ff:1f.0"), std::string("fe:1f.0")})
    CHECK_MESSAGE(find(other) == CUDA_ERROR_INVALID_DEVICE, other);
  for (const std::string& none :
       {place, std::string(whole) + "z", std::string(whole) + " ", fmt::format("{:04x}:{}.", domain, place),
        fmt::format("{:04x}:{}z", domain, place), std::string("zz"), std::string()})
    CHECK_MESSAGE(find(none) == CUDA_ERROR_INVALID_VALUE, none);
}

// As on an H100 with driver 580.
TEST_CASE("driver: each context keeps its cache configuration; the primary one's ends with a reset") {
  const auto config = [] {
    CUfunc_cache c;
    CHECK(cuCtxGetCacheConfig(&c) == CUDA_SUCCESS);
    return c;
  };
  Context first;
  CHECK(config() == CU_FUNC_CACHE_PREFER_NONE);
  CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1) == CUDA_SUCCESS);
  CHECK(cuCtxSetCacheConfig(CUfunc_cache(9)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(config() == CU_FUNC_CACHE_PREFER_L1);
  {
    Context second;
    CHECK(config() == CU_FUNC_CACHE_PREFER_NONE);
  }
  CHECK(config() == CU_FUNC_CACHE_PREFER_L1);
  CUcontext primary;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxPushCurrent(primary) == CUDA_SUCCESS);
  CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED) == CUDA_SUCCESS);
  CHECK(config() == CU_FUNC_CACHE_PREFER_SHARED);
  CHECK(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
  CHECK(config() == CU_FUNC_CACHE_PREFER_NONE);
  CHECK(cuCtxPopCurrent(&primary) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
}

TEST_CASE("driver: memory") {
  Context context;
  Buffer a(1000), b(1000);
  CHECK(a.p % 256 == 0);
  std::vector<unsigned char> host(1000);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<unsigned char>(i * 7);
  REQUIRE(cuMemcpyHtoD(a.p, host.data(), 1000) == CUDA_SUCCESS);
  CHECK(cuMemcpyHtoD(a.p, host.data(), 1001) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyHtoD(0x1234, host.data(), 4) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8(reinterpret_cast<CUdeviceptr>(host.data()), 0, 4) == CUDA_ERROR_INVALID_VALUE);
  void* page_locked;
  REQUIRE(cuMemHostAlloc(&page_locked, 100, 0) == CUDA_SUCCESS);
  CHECK(cuMemsetD8(reinterpret_cast<CUdeviceptr>(page_locked) + 50, 7, 50) == CUDA_SUCCESS);
  CHECK(static_cast<char*>(page_locked)[99] == 7);
  CHECK(cuMemsetD8(reinterpret_cast<CUdeviceptr>(page_locked) + 51, 7, 50) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(page_locked) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8(b.p, 0xee, 1000) == CUDA_SUCCESS);
  CUDA_MEMCPY2D c = {};  // a 10 x 20 window of a 50-byte pitch into a 40-byte pitch
  c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  c.srcDevice = a.p, c.srcPitch = 50, c.srcXInBytes = 3, c.srcY = 2;
  c.dstDevice = b.p, c.dstPitch = 40, c.dstXInBytes = 1, c.dstY = 1;
  c.WidthInBytes = 20, c.Height = 10;
  REQUIRE(cuMemcpy2D(&c) == CUDA_SUCCESS);
  std::vector<unsigned char> got(1000);
  REQUIRE(cuMemcpyDtoH(got.data(), b.p, 1000) == CUDA_SUCCESS);
  for (size_t row = 0; row < 25; ++row)
    for (size_t x = 0; x < 40; ++x) {
      bool inside = row >= 1 && row < 11 && x >= 1 && x < 21;
      CHECK(got[row * 40 + x] == (inside ? host[(row - 1 + 2) * 50 + x - 1 + 3] : 0xee));
    }
  CUdeviceptr base;
  size_t bytes;
  REQUIRE(cuMemGetAddressRange(&base, &bytes, a.p + 500) == CUDA_SUCCESS);
  CHECK(base == a.p);
  CHECK(bytes == 1000);
  unsigned type = 0;
  REQUIRE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a.p) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(cuMemFree(a.p + 8) == CUDA_ERROR_INVALID_VALUE);
  // It can be freed without a context too.
  CUdeviceptr freed;
  CUcontext current;
  REQUIRE(cuMemAlloc(&freed, 16) == CUDA_SUCCESS);
  REQUIRE(cuMemHostAlloc(&page_locked, 16, 0) == CUDA_SUCCESS);
  REQUIRE(cuCtxPopCurrent(&current) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&base, 16) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemFree(freed) == CUDA_SUCCESS);
  CHECK(cuMemFree(freed) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeHost(page_locked) == CUDA_SUCCESS);
  REQUIRE(cuCtxPushCurrent(current) == CUDA_SUCCESS);
}

// Mojo destroys its streams by the first symbol, of CUDA 3.
TEST_CASE("driver: an entry point with a newer symbol of the same form works by its first one") {
  auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "emulator/libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library, dlerror());
  const auto call = [&]<class... A>(const char* name, A... a) {
    const auto f = reinterpret_cast<CUresult (*)(A...)>(dlsym(library, name));
    return f ? f(a...) : CUDA_ERROR_NOT_FOUND;
  };
  CUcontext context = nullptr, popped = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  REQUIRE(call("cuInit", 0u) == CUDA_SUCCESS);
  REQUIRE(call("cuCtxCreate_v2", &context, 0u, 0) == CUDA_SUCCESS);
  CHECK(call("cuCtxPopCurrent", &popped) == CUDA_SUCCESS);
  CHECK(popped == context);
  CHECK(call("cuCtxPushCurrent", context) == CUDA_SUCCESS);
  REQUIRE(call("cuStreamCreate", &stream, 0u) == CUDA_SUCCESS);
  REQUIRE(call("cuEventCreate", &event, 0u) == CUDA_SUCCESS);
  CHECK(call("cuEventDestroy", event) == CUDA_SUCCESS);
  CHECK(call("cuEventDestroy", event) != CUDA_SUCCESS);
  CHECK(call("cuStreamDestroy", stream) == CUDA_SUCCESS);
  CHECK(call("cuStreamDestroy", stream) != CUDA_SUCCESS);
  CHECK(call("cuCtxDestroy", context) == CUDA_SUCCESS);
}

TEST_CASE("driver: the library exports the driver API and nothing of ours") {
  auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "emulator/libcuda.so.1";
  REQUIRE(std::filesystem::exists(path));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(library, dlerror());
  for (const char* name : {"cuInit",
                           "cuDeviceGet",
                           "cuDeviceGetAttribute",
                           "cuCtxCreate_v2",
                           "cuCtxCreate_v4",
                           "cuModuleLoadData",
                           "cuModuleLoadDataEx",
                           "cuModuleGetFunction",
                           "cuModuleGetGlobal_v2",
                           "cuMemAlloc_v2",
                           "cuMemFree_v2",
                           "cuMemcpyHtoD_v2",
                           "cuMemcpyDtoHAsync_v2",
                           "cuLaunchKernel",
                           "cuLaunchKernelEx",
                           "cuStreamCreate",
                           "cuEventElapsedTime_v2",
                           "cuGraphLaunch",
                           "cuTensorMapEncodeTiled",
                           "cuGetProcAddress_v2",
                           "cuOccupancyMaxActiveClusters",
                           "cuFuncSetAttribute",
                           "fp4lab_emulator_statistics"})
    CHECK_MESSAGE(dlsym(library, name) != nullptr, name);
  CHECK(!dlsym(library,
               "_ZN6fp4lab3emu5parseENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt17basic_string_"
               "viewIcS3_E"));
  auto get =
      reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>(
          dlsym(library, "cuGetProcAddress_v2"));
  bool found = get;
  REQUIRE(found);
  void* p = nullptr;
  CHECK(get("cuMemAlloc", &p, 13000, 0, nullptr) == CUDA_SUCCESS);
  CHECK(p == dlsym(library, "cuMemAlloc_v2"));
  CUdriverProcAddressQueryResult status;
  CHECK(get("cuNoSuchCall", &p, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);

  // A statically linked CUDA runtime asks for these.
  const auto table =
      reinterpret_cast<CUresult (*)(const void**, const CUuuid*)>(dlsym(library, "cuGetExportTable"));
  const auto report = reinterpret_cast<const char* (*)()>(dlsym(library, "fp4lab_emulator_report"));
  found = table && report;
  REQUIRE(found);
  const void* none = &none;
  CHECK(table(&none, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(none == nullptr);
  const std::string advice = report();
  CHECK(advice.find("nvcc -cudart shared") != std::string::npos);
  CHECK(get("cuGLInit", &p, 13000, 0, nullptr) == CUDA_ERROR_NOT_FOUND);
  CHECK(report() == advice);
  for (const char* name : {"cuNoSuchCall2", "cuNoSuchCall3", "cuNoSuchCall4", "cuNoSuchCall5"}) {
    CHECK(get(name, &p, 13000, 0, nullptr) == CUDA_ERROR_NOT_FOUND);
    CHECK((std::string(report()).find(name) != std::string::npos) == (name < std::string("cuNoSuchCall5")));
  }
  CHECK(std::string(report()).find("further ones are not printed") != std::string::npos);
  dlclose(library);
}

// 60 values are live through a loop, after 100 that do not overlap.
TEST_CASE_FIXTURE(Context,
                  "the number of registers: values that live at once, and room for the largest block") {
  auto entry = [](const std::string& name, const char* limits) {
    std::string text = ".visible .entry " + name + "(.param .u64 out) " + limits + R"(
{
  .reg .pred %p; .reg .b32 %r<200>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out]; mov.u32 %r0, 0;
)";
    for (int i = 100; i < 200; ++i)
      text += fmt::format("  mov.u32 %r{0}, {0}; add.u32 %r0, %r0, %r{0};\n", i);
    for (int i = 1; i <= 60; ++i) text += fmt::format("  mov.u32 %r{0}, {0};\n", i);
    text += "AGAIN:\n";
    for (int i = 1; i <= 60; ++i) text += fmt::format("  add.u32 %r0, %r0, %r{};\n", i);
    return text + "  setp.lt.u32 %p, %r0, 100000; @%p bra AGAIN;\n  st.global.u32 [%rd1], %r0; ret;\n}\n";
  };
  const std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n" +
                           entry("small", ".maxntid 128") + entry("large", "") +
                           entry("crowded", ".maxntid 256 .minnctapersm 6") +
                           entry("told", ".maxntid 128 .maxnreg 32");
  CUmodule module;
  REQUIRE(cuModuleLoadData(&module, text.c_str()) == CUDA_SUCCESS);
  auto registers = [&](const char* name) {
    CUfunction f;
    int n = -1;
    CHECK(cuModuleGetFunction(&f, module, name) == CUDA_SUCCESS);
    CHECK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_NUM_REGS, f) == CUDA_SUCCESS);
    return n;
  };
  CHECK(registers("small") == 64);
  CHECK(registers("large") == 64);
  CHECK(registers("crowded") == 40);
  CHECK(registers("told") == 32);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
}
