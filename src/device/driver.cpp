#include "fp4lab/driver.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace fp4lab {
namespace fs = std::filesystem;

namespace detail {
std::string describe_argument(const void* pointer) { return fmt::format("{}", pointer); }

void driver_call_missing(const Driver& driver, const char* name) {
  fail("device {}: {} exports no {}: the call needs a newer driver", driver.label, driver.loaded_from, name);
}

void driver_call_failed(const Driver& driver, const char* name, const std::string& arguments,
                        CUresult result) {
  fail("device {}: {}({}) failed: {}", driver.label, name, arguments,
       driver.describe(result) + driver.fault_report(result));
}
}  // namespace detail

Driver::Driver(std::string label_, std::string path, const SymbolLookup& lookup)
    : label(std::move(label_)), loaded_from(std::move(path)), lookup_(lookup) {
#define FP4LAB_DRIVER_FILL(call) this->call.fill(lookup);
  FP4LAB_DRIVER_CALLS(FP4LAB_DRIVER_FILL)
#undef FP4LAB_DRIVER_FILL
  fp4lab_emulator_report =
      reinterpret_cast<decltype(fp4lab_emulator_report)>(lookup("fp4lab_emulator_report"));
  // Its explanations come back in the exceptions thrown here.
  if (auto quiet = reinterpret_cast<decltype(&fp4lab_emulator_quiet)>(lookup("fp4lab_emulator_quiet")))
    quiet(1);
}

std::string Driver::fault_report(CUresult result) const {
  if (!fp4lab_emulator_report) return "";
  if (result == CUDA_SUCCESS || !*fp4lab_emulator_report()) return "";
  return fmt::format("\n{}", fp4lab_emulator_report());
}

std::string Driver::describe(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName.available()) cuGetErrorName.status(result, &name);
  if (cuGetErrorString.available()) cuGetErrorString.status(result, &text);
  return fmt::format("{} ({}): {}", name ? name : "CUDA error", int(result), text ? text : "no text");
}

namespace {

// RTLD_LOCAL: the two libraries export the same names and both may be open in one process. Never closed:
// contexts and threads of a driver outlive every object of ours.
void* open_library(const std::string& path, std::string& error) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) error = dlerror();
  return handle;
}

fs::path file_of(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map) return {};
  std::error_code ignored;
  return fs::canonical(map->l_name, ignored);
}

std::shared_ptr<Driver> from_handle(std::string label, void* handle) {
  return std::make_shared<Driver>(std::move(label), file_of(handle).string(),
                                  [handle](const char* name) { return dlsym(handle, name); });
}

std::shared_ptr<Driver> load_cuda() {
  // The emulator's library has the same SONAME. Once it is open, or when it lies in LD_LIBRARY_PATH,
  // dlopen("libcuda.so.1") gives it instead of a driver: never under the name cuda. Then the usual folders
  // are tried.
  std::string first_error, error;
  for (const char* path :
       {"libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
        "/usr/lib/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}) {
    if (void* handle = open_library(path, error)) {
      auto driver = from_handle("cuda", handle);
      if (!driver->is_emulator()) return driver;
      error = fmt::format("the loader's libcuda.so.1 is the emulator, {}", driver->loaded_from);
    }
    if (first_error.empty()) first_error = error;
  }
  fail(
      "device cuda: no NVIDIA driver: {}\n"
      "  libcuda.so.1 comes with the GPU's driver (not with the toolkit); install the driver, set "
      "LD_LIBRARY_PATH to its folder, or use --device emulator",
      first_error);
}

std::shared_ptr<Driver> load_emulator() {
  std::vector<std::string> looked_at;
  const std::string path = emulator_library(looked_at);
  if (path.empty())
    fail(
        "device emulator: no emulator library; looked at\n  {}\n  build it with make, or set FP4LAB_EMULATOR "
        "to its path",
        fmt::join(looked_at, "\n  "));
  return Driver::load("emulator", path);
}

// Loads once per process. A failure is not kept: the next call tries again.
std::shared_ptr<Driver> once(std::shared_ptr<Driver> (*loader)(), std::shared_ptr<Driver>& slot) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (!slot) slot = loader();
  return slot;
}

}  // namespace

std::shared_ptr<Driver> Driver::load(std::string label, const std::string& library) {
  std::string error;
  void* handle = open_library(library, error);
  if (!handle) fail("device {}: cannot load {}: {}", label, library, error);
  return from_handle(std::move(label), handle);
}

std::shared_ptr<Driver> Driver::cuda() {
  static std::shared_ptr<Driver> slot;
  return once(load_cuda, slot);
}

std::shared_ptr<Driver> Driver::emulator() {
  static std::shared_ptr<Driver> slot;
  return once(load_emulator, slot);
}

std::shared_ptr<Driver> Driver::open(std::string_view name, std::string_view arch) {
  if (name == "cuda") return cuda();
  if (name == "emulator") return emulator();
  if (name != "auto") fail("device \"{}\" is not known: cuda, emulator or auto", name);
  parse_arch(arch);  // a wrong name is the caller's error, not a reason to fall back
  try {
    auto driver = cuda();
    if (find_device(*driver, arch) >= 0) return driver;
  } catch (const Error&) {
    // No driver, or one without a usable device (cuInit fails): that is what auto is for.
  }
  return emulator();
}

std::string emulator_library() {
  std::vector<std::string> looked_at;
  return emulator_library(looked_at);
}

std::string emulator_library(std::vector<std::string>& looked_at) {
  std::error_code ignored;
  std::vector<fs::path> places;
  if (const char* path = std::getenv("FP4LAB_EMULATOR"); path && *path) {
    places.push_back(path);  // asked for by name: no silent second choice
  } else {
    const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    places = {folder / "emulator/libcuda.so.1", folder.parent_path() / "emulator/libcuda.so.1"};
  }
  for (const fs::path& place : places) {
    looked_at.push_back(place.string());
    if (fs::is_regular_file(place, ignored)) return fs::absolute(place, ignored).string();
  }
  return "";
}

Arch parse_arch(std::string_view arch) {
  if (arch.empty()) return {};
  Arch out;
  std::string_view digits = arch.starts_with("sm_") ? arch.substr(3) : "";
  if (digits.ends_with('a')) {
    out.exact = true;
    digits.remove_suffix(1);
  }
  if (digits.size() < 2 || digits.size() > 3 || digits.find_first_not_of("0123456789") != digits.npos)
    fail("architecture \"{}\" is not of the form sm_100a or sm_90", arch);
  const int number = std::atoi(std::string(digits).c_str());
  out.major = number / 10;
  out.minor = number % 10;
  return out;
}

int find_device(const Driver& driver, std::string_view arch) {
  const Arch wanted = parse_arch(arch);
  driver.cuInit(0);
  int count = 0;
  driver.cuDeviceGetCount(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device;
    int major = 0, minor = 0;
    driver.cuDeviceGet(&device, ordinal);
    driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (wanted.runs_on(major, minor)) return ordinal;
  }
  return -1;
}

}  // namespace fp4lab
