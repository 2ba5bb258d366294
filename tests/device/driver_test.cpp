#include "fp4lab/driver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "../message.h"

using namespace fp4lab;

namespace {

// A driver of three calls, so that the table is tested by itself.
struct FakeDriver {
  std::vector<std::string> asked;
  Driver table{"fake", "fake.so", [this](const char* name) -> void* {
                 static std::map<std::string, void*> known{
                     {"cuMemAlloc_v2", reinterpret_cast<void*>(&alloc)},
                     {"cuGetErrorName", reinterpret_cast<void*>(&error_name)},
                     {"cuGetErrorString", reinterpret_cast<void*>(&error_text)},
                     {"cuInit", reinterpret_cast<void*>(&init)},
                     {"cuDeviceGetCount", reinterpret_cast<void*>(&count)},
                     {"cuDeviceGet", reinterpret_cast<void*>(&get)},
                     {"cuDeviceGetAttribute", reinterpret_cast<void*>(&attribute)},
                 };
                 asked.push_back(name);
                 auto found = known.find(name);
                 return found == known.end() ? nullptr : found->second;
               }};

  static CUresult alloc(CUdeviceptr* out, size_t bytes) {
    *out = 0x1000;
    return bytes > 100 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  }
  static CUresult error_name(CUresult, const char** out) {
    return *out = "CUDA_ERROR_OUT_OF_MEMORY", CUDA_SUCCESS;
  }
  static CUresult error_text(CUresult, const char** out) { return *out = "out of memory", CUDA_SUCCESS; }
  static CUresult init(unsigned) { return CUDA_SUCCESS; }
  static CUresult count(int* out) { return *out = 2, CUDA_SUCCESS; }
  static CUresult get(CUdevice* out, int ordinal) { return *out = ordinal, CUDA_SUCCESS; }
  // Device 0 is a 9.0, device 1 a 10.3.
  static CUresult attribute(int* out, CUdevice_attribute what, CUdevice device) {
    *out = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? (device ? 10 : 9) : (device ? 3 : 0);
    return CUDA_SUCCESS;
  }
};

struct Environment {  // sets a variable for one scope
  std::string name, old;
  bool was_set;
  Environment(const char* n, const std::string& value) : name(n) {
    const char* before = getenv(n);
    was_set = before != nullptr;
    if (before) old = before;
    setenv(n, value.c_str(), 1);
  }
  ~Environment() { was_set ? setenv(name.c_str(), old.c_str(), 1) : unsetenv(name.c_str()); }
};

}  // namespace

TEST_CASE("driver: the table looks symbols up by their versioned names") {
  FakeDriver fake;
  auto asked = [&](const char* name) { return std::count(fake.asked.begin(), fake.asked.end(), name) == 1; };
  CHECK(asked("cuMemAlloc_v2"));
  CHECK(asked("cuMemcpyHtoD_v2"));
  CHECK(asked("cuStreamDestroy_v2"));
  CHECK(asked("cuStreamBeginCapture_v2"));
  CHECK(asked("cuLaunchKernelEx"));
  CHECK(asked("cuTensorMapEncodeTiled"));
  CHECK_FALSE(asked("cuMemAlloc"));
}

TEST_CASE("driver: a failing call names call, arguments, CUDA error and text") {
  FakeDriver fake;
  CUdeviceptr pointer = 0;
  fake.table.cuMemAlloc(&pointer, 64);
  CHECK(pointer == 0x1000);
  CHECK(fake.table.cuMemAlloc.status(&pointer, 4096) == CUDA_ERROR_OUT_OF_MEMORY);
  const std::string text = message_of([&] { fake.table.cuMemAlloc(&pointer, 4096); });
  CHECK(has(text, "cuMemAlloc_v2(0x"));
  CHECK(has(text, ", 4096) failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"));
}

TEST_CASE("driver: a missing symbol is an error of its first use and is named") {
  FakeDriver fake;
  CHECK_FALSE(fake.table.cuMemFree.available());
  const std::string text = message_of([&] { fake.table.cuMemFree(0x1000); });
  CHECK(has(text, "fake.so exports no cuMemFree_v2"));
}

TEST_CASE("driver: find_device follows the rules of the target's name") {
  FakeDriver fake;
  CHECK(find_device(fake.table, "") == 0);
  CHECK(find_device(fake.table, "sm_90a") == 0);
  CHECK(find_device(fake.table, "sm_100a") == -1);  // 10.3 does not run sm_100a code
  CHECK(find_device(fake.table, "sm_103a") == 1);
  CHECK(find_device(fake.table, "sm_100") == 1);
  CHECK(find_device(fake.table, "sm_80") == -1);  // a cubin does not cross major numbers
  CHECK(has(message_of([&] { find_device(fake.table, "blackwell"); }), "\"blackwell\""));
}

TEST_CASE("driver: errors of opening say what was looked for") {
  CHECK(has(message_of([] { Driver::open("gpu"); }), "\"gpu\""));
  CHECK(has(message_of([] { Driver::load("cuda", "/nowhere/libcuda.so.1"); }), "/nowhere/libcuda.so.1"));
  Environment moved("FP4LAB_EMULATOR", "/nowhere/emulator.so");
  CHECK(emulator_library().empty());
  std::vector<std::string> looked_at;
  emulator_library(looked_at);
  CHECK(looked_at == std::vector<std::string>{"/nowhere/emulator.so"});
}
