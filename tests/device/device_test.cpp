// The owner layer on every device that is here: the emulator always, a GPU when there is one. The kernels are
// tiny and of no particular architecture's taste, so that a disagreement points at the layer or at the
// emulator's driver.
#include "fp4lab/device.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "../message.h"
#include "../skip.h"
#include "fp4lab/jit.h"

using namespace fp4lab;
namespace fs = std::filesystem;

namespace {

constexpr const char* kSource = R"(
__device__ int table[4] = {1, 2, 3, 5};
struct Block { int pad; int factor; float* out; };
extern "C" __global__ void add(float* out, const float* a, float b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b;
}
extern "C" __global__ void scale(Block block) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  block.out[i] = block.factor * i;
}
extern "C" __global__ void reversed(float* out) {  // dynamic shared memory above 48 KiB when asked to
  extern __shared__ float buffer[];
  buffer[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void both(float* out) {  // 32 KiB static, dynamic on top
  __shared__ float fixed[8192];
  extern __shared__ float buffer[];
  fixed[threadIdx.x * 8] = 1.0f;
  buffer[threadIdx.x * 8] = 2.0f;
  __syncthreads();
  out[threadIdx.x] = fixed[(threadIdx.x ^ 1) * 8] + buffer[(threadIdx.x ^ 1) * 8];
}
extern "C" __global__ void rank(unsigned* out) {
  unsigned r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  if (threadIdx.x == 0) out[blockIdx.x] = r;
}
)";

struct Machine {
  Device device;
  std::string arch;
};

// The emulator as a B200, as an H200, and the GPU if it is one that the lab compiles for.
// FP4LAB_TEST_DEVICE=cuda or =emulator keeps to one of them.
std::vector<std::function<Machine()>> machines() {
  const char* only = std::getenv("FP4LAB_TEST_DEVICE");
  const bool emulator = !only || std::string_view(only) == "emulator",
             cuda = !only || std::string_view(only) == "cuda";
  std::vector<std::function<Machine()>> out;
  for (const char* arch : {"sm_100a", "sm_90a"}) {
    if (emulator) out.push_back([arch] { return Machine{Device::open("emulator", arch), arch}; });
    if (cuda && gpu_available(arch))
      out.push_back([arch] { return Machine{Device::open("cuda", arch), arch}; });
  }
  return out;
}

jit::ArtifactPtr compiled(const std::string& arch) {
  std::string name = (fs::temp_directory_path() / "fp4lab-device-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()));
  std::ofstream(fs::path(name) / "device_test.cu") << kSource;
  auto artifact =
      jit::compile({.source = fs::path(name) / "device_test.cu", .arch = arch}, jit::CacheUse::kOff);
  fs::remove_all(name);
  return artifact;
}

}  // namespace

TEST_CASE("device: kernels run with arguments by value, as bytes, and with variables of the module") {
  for (const auto& open : machines()) {
    const Machine m = open();
    CAPTURE(m.device.name());
    const Module module = load(m.device, *compiled(m.arch));
    std::vector<float> a(1000);
    std::iota(a.begin(), a.end(), 0.0f);
    const auto in = DeviceBuffer::from(m.device, a);
    DeviceBuffer out(m.device, a.size() * sizeof(float));
    out.fill(0xff);
    launch(module.kernel("add"), {.grid = {8}, .block = {128}}, out.address(), in.address(), 0.5f,
           int(a.size()));
    m.device.synchronize();
    for (float& x : a) x += 0.5f;
    CHECK(out.values<float>() == a);

    struct Block {
      int pad, factor;
      CUdeviceptr out;
    } block{0, 3, out.address()};
    launch_bytes(module.kernel("scale"), {.grid = {1}, .block = {64}}, std::as_bytes(std::span(&block, 1)));
    m.device.synchronize();
    CHECK(out.values<float>()[63] == 189.0f);
    CHECK(out.values<float>()[64] == a[64]);

    const auto [address, bytes] = module.global("table");
    CHECK(bytes == 16);
    std::array<int, 4> table{};
    m.device.driver().cuMemcpyDtoH(table.data(), address, bytes);
    CHECK(table == std::array<int, 4>{1, 2, 3, 5});
  }
}

TEST_CASE("device: dynamic shared memory above 48 KiB and clusters need no preparation by the caller") {
  for (const auto& open : machines()) {
    const Machine m = open();
    CAPTURE(m.device.name());
    const Module module = load(m.device, *compiled(m.arch));
    DeviceBuffer out(m.device, 256 * sizeof(float));
    launch(module.kernel("reversed"), {.grid = {1}, .block = {256}, .dynamic_shared = 200 * 1024},
           out.address());
    m.device.synchronize();
    CHECK(out.values<float>()[0] == 255.0f);
    CHECK(out.values<float>()[255] == 0.0f);
    // Two owners of one function: the second must not lower what the first has raised.
    const Kernel first = module.kernel("both"), second = module.kernel("both");
    CHECK(first.static_shared() == 32 * 1024);
    CHECK(first.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 16 * 1024);
    launch(first, {.grid = {1}, .block = {256}, .dynamic_shared = 64 * 1024}, out.address());
    launch(second, {.grid = {1}, .block = {256}, .dynamic_shared = 32 * 1024}, out.address());
    launch(first, {.grid = {1}, .block = {256}, .dynamic_shared = 64 * 1024}, out.address());
    m.device.synchronize();
    CHECK(out.values<float>() == std::vector<float>(256, 3.0f));
    launch(module.kernel("rank"), {.grid = {8}, .block = {32}, .cluster = {4}}, out.address());
    m.device.synchronize();
    const auto ranks = out.values<unsigned>();
    CHECK(std::vector<unsigned>(ranks.begin(), ranks.begin() + 8) ==
          std::vector<unsigned>{0, 1, 2, 3, 0, 1, 2, 3});
  }
}

TEST_CASE("device: streams, events and graphs") {
  for (const auto& open : machines()) {
    const Machine m = open();
    CAPTURE(m.device.name());
    const Module module = load(m.device, *compiled(m.arch));
    const Kernel add = module.kernel("add");
    DeviceBuffer x(m.device, 32 * sizeof(float));
    x.fill(0);
    const Stream stream(m.device);
    const Event start(m.device), stop(m.device);
    start.record(stream);
    const Graph graph = Graph::capture(stream, [&] {
      for (int i = 0; i < 3; ++i)
        launch(add, {.grid = {1}, .block = {32}, .stream = stream}, x.address(), x.address(), 1.0f, 32);
    });
    CHECK(graph.nodes() == 3);
    CHECK(x.values<float>()[31] == 0.0f);  // captured, not run
    graph.launch(stream);
    graph.launch(stream);
    stop.record(stream);
    stop.synchronize();
    CHECK(x.values<float>()[31] == 6.0f);
    CHECK(stop.microseconds_since(start) >= 0.0);
    CHECK_THROWS_AS(Graph::capture(stream, [] { fail("no"); }), Error);
    launch(add, {.grid = {1}, .block = {32}, .stream = stream}, x.address(), x.address(), 1.0f,
           32);  // still usable
    stream.synchronize();
    CHECK(x.values<float>()[0] == 7.0f);
  }
}

TEST_CASE("device: refusals name what was asked for") {
  for (const auto& open : machines()) {
    const Machine m = open();
    CAPTURE(m.device.name());
    const auto artifact = compiled(m.arch);
    const Module module = load(m.device, *artifact);
    const std::string absent = message_of([&] { module.kernel("absent"); });
    CHECK(has(absent, "\"absent\""));
    CHECK(has(absent, "device_test.cu"));
    CHECK(has(message_of([&] { Module(m.device, "this is no image", "nonsense"); }),
              "loading nonsense failed"));
    CHECK(has(message_of([&] { Module(m.device, "", "nothing"); }), "nothing: the image is empty"));

    const std::string block =
        message_of([&] { launch(module.kernel("rank"), {.grid = {1}, .block = {2048}}, CUdeviceptr{0}); });
    CHECK(has(block, "kernel rank"));
    CHECK(has(block, "block 2048x1x1"));
    CHECK(has(block, "CUDA_ERROR_INVALID_VALUE"));
    const std::string shared = message_of([&] {
      launch(module.kernel("reversed"), {.grid = {1}, .block = {32}, .dynamic_shared = 1 << 20},
             CUdeviceptr{0});
    });
    CHECK(has(shared, "1048576 bytes of dynamic shared memory"));

    DeviceBuffer buffer(m.device, 16);
    int value = 0;
    CHECK(has(message_of([&] { buffer.upload(&value, 4, 13); }),
              "upload of 4 bytes at offset 13: the buffer has 16 bytes"));
    CHECK(has(message_of([&] { DeviceBuffer(m.device, size_t(1) << 45); }), "cuMemAlloc_v2("));
  }
}

TEST_CASE("device: a tensor map that breaks a rule is refused with all its values") {
  for (const auto& open : machines()) {
    const Machine m = open();
    CAPTURE(m.device.name());
    DeviceBuffer x(m.device, 1 << 16);
    TensorMapSpec spec{.address = x.address(), .dims = {128, 256}, .strides = {128}, .box = {128, 64}};
    spec.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    const CUtensorMap map = encode(m.device, spec);
    CHECK(
        std::any_of(std::begin(map.opaque), std::end(map.opaque), [](cuuint64_t word) { return word != 0; }));
    spec.strides = {120};  // not a multiple of 16
    const std::string text = message_of([&] { encode(m.device, spec); });
    CHECK(has(text, "strides [120] bytes"));
    CHECK(has(text, "box [128, 64]"));
    spec.strides = {};
    CHECK(has(message_of([&] { encode(m.device, spec); }), "rank 2 (1 to 5) needs 1 strides"));
  }
}

TEST_CASE("device: a device that does not run the code is refused with the devices there are") {
  const std::string text = message_of([] { Device::open("emulator", "sm_120a"); });
  CHECK(has(text, "sm_120a"));
  std::string why;
  CHECK_FALSE(gpu_available("sm_20", &why));  // a GPU that old runs nothing of ours
  CHECK_FALSE(why.empty());
}

TEST_CASE("device: the emulator and a GPU are open at the same time and stay apart") {
  if (std::string why; !gpu_available("", &why)) FP4LAB_SKIP("no GPU");
  const Device gpu = Device::open("cuda");
  const Device emulator = Device::open("emulator");
  CHECK_FALSE(gpu.is_emulator());
  CHECK(emulator.is_emulator());
  CHECK(gpu.driver().loaded_from != emulator.driver().loaded_from);
  CHECK_FALSE(has(gpu.name(), "emulator"));
  CHECK(has(emulator.name(), "emulator"));
}
