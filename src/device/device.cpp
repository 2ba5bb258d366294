#include "fp4lab/device.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "fp4lab/emulator.h"

namespace fp4lab {
namespace {

// A handle that the driver frees. The deleter holds the device, so the context outlives it. Results of
// destroying are not looked at: after a fault every call fails, and the fault has been reported by the call
// that met it.
template <class Handle, class Destroy>
std::shared_ptr<void> owned(const Device& device, Handle handle, Destroy destroy) {
  return {handle, [device, destroy](void* pointer) {
            if (device.driver().cuCtxSetCurrent.available()) device.make_current();
            destroy(device.driver(), static_cast<Handle>(pointer));
          }};
}

// The emulator is one machine at a time; it becomes the one that runs `arch` unless the user has chosen.
void choose_emulated_machine(const Driver& driver, std::string_view arch) {
  const char* chosen = std::getenv("FP4LAB_EMULATOR_DEVICE");
  if (arch.empty() || (chosen && *chosen)) return;
  auto* select = reinterpret_cast<decltype(&fp4lab_emulator_select)>(driver.symbol("fp4lab_emulator_select"));
  const Arch wanted = parse_arch(arch);
  if (!select) return;
  if (CUresult r = select(wanted.major, wanted.minor); r != CUDA_SUCCESS)
    fail("device emulator: cannot become a machine of compute capability {}.{} for {}: {}", wanted.major,
         wanted.minor, arch,
         r == CUDA_ERROR_ILLEGAL_STATE ? "another one is in use in this process" : driver.describe(r));
}

std::string list_devices(const Driver& driver) {
  int count = 0;
  driver.cuDeviceGetCount(&count);
  std::string list;
  for (int i = 0; i < count; ++i) {
    CUdevice device;
    char name[128] = "";
    int major = 0, minor = 0;
    driver.cuDeviceGet(&device, i);
    driver.cuDeviceGetName(name, sizeof name, device);
    driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    list += fmt::format("{}{} ({}.{})", i ? ", " : "", name, major, minor);
  }
  return list.empty() ? "none" : list;
}

}  // namespace

Device Device::open(std::string_view name, std::string_view arch) {
  Device device;
  device.state_ = std::make_shared<State>();
  State& s = *device.state_;
  auto driver = Driver::open(name, arch);
  if (driver->is_emulator()) choose_emulated_machine(*driver, arch);
  s.ordinal = find_device(*driver, arch);
  if (s.ordinal < 0)
    fail("device {}: no device runs {}; devices: {}", driver->label, arch.empty() ? "code" : arch,
         list_devices(*driver));
  driver->cuDeviceGet(&s.device, s.ordinal);
  char text[128] = "";
  driver->cuDeviceGetName(text, sizeof text, s.device);
  s.name = text;
  driver->cuDevicePrimaryCtxRetain(&s.context, s.device);
  s.driver = driver;  // from here on the destructor releases
  device.make_current();
  return device;
}

Device::State::~State() {
  if (driver) driver->cuDevicePrimaryCtxRelease.status(device);
}

int Device::attribute(CUdevice_attribute what) const {
  int value = 0;
  driver().cuDeviceGetAttribute(&value, what, state_->device);
  return value;
}

void Device::make_current() const { driver().cuCtxSetCurrent(state_->context); }

void Device::synchronize() const {
  make_current();
  driver().cuCtxSynchronize();
}

bool gpu_available(std::string_view arch, std::string* why) {
  try {
    auto driver = Driver::cuda();
    if (find_device(*driver, arch) >= 0) return true;
    if (why) *why = fmt::format("no GPU that runs {}; devices: {}", arch, list_devices(*driver));
  } catch (const Error& error) {
    if (why) *why = error.what();
  }
  return false;
}

// -- memory

DeviceBuffer::DeviceBuffer(const Device& device, size_t bytes) : device_{device}, bytes_(bytes) {
  if (!bytes) return;  // the driver refuses 0; an empty buffer is an empty operand
  device.make_current();
  device.driver().cuMemAlloc(&address_, bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (!address_) return;
  const Driver& driver = device_[0].driver();
  try {
    device_[0].make_current();
  } catch (const Error&) {  // the context is gone, and the memory with it
  }
  driver.cuMemFree.status(address_);
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
}

void DeviceBuffer::check_range(const char* what, size_t count, size_t offset) const {
  if (offset > bytes_ || count > bytes_ - offset)
    fail("{} of {} bytes at offset {}: the buffer has {} bytes", what, count, offset, bytes_);
}

void DeviceBuffer::upload(const void* from, size_t count, size_t offset) {
  check_range("upload", count, offset);
  if (!count) return;
  device_[0].make_current();
  device_[0].driver().cuMemcpyHtoD(address_ + offset, from, count);
}

void DeviceBuffer::download(void* to, size_t count, size_t offset) const {
  check_range("download", count, offset);
  if (!count) return;
  device_[0].make_current();
  device_[0].driver().cuMemcpyDtoH(to, address_ + offset, count);
}

void DeviceBuffer::fill(unsigned char value) {
  if (!bytes_) return;
  device_[0].make_current();
  device_[0].driver().cuMemsetD8(address_, value, bytes_);
}

// -- modules and kernels

// What places in the emulator's messages are given in: the PTX file, or the one that `fp4lab ptx` would write
// for "ptx/sm100/gemm.cu (sm_100a PTX)".
static std::string ptx_name(const std::string& label) {
  const std::filesystem::path path = label.substr(0, label.find(" ("));
  if (path.extension() == ".cu") return path.stem().string() + ".ptx";
  const auto here = path.lexically_proximate(std::filesystem::current_path());  // shorter, below this folder
  return here.empty() || *here.begin() == ".." ? path.string() : here.string();
}

Module::Module(const Device& device, const std::string& image, std::string label)
    : device_(device), label_(std::move(label)) {
  if (image.empty()) fail("module {}: the image is empty", label_);
  device.make_current();
  char log[8192] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule module = nullptr;
  const Driver& driver = device.driver();
  if (const auto name =
          reinterpret_cast<decltype(&fp4lab_emulator_label)>(driver.symbol("fp4lab_emulator_label")))
    name(ptx_name(label_).c_str());
  // c_str() ends in NUL, which is how the driver finds the end of PTX text.
  if (CUresult r = driver.cuModuleLoadDataEx.status(&module, image.c_str(), 2, options, values);
      r != CUDA_SUCCESS)
    fail("device {}: loading {} failed: {}{}{}", device.label(), label_, driver.describe(r), *log ? "\n" : "",
         log);
  module_ = owned(device, module, [](const Driver& d, CUmodule m) { d.cuModuleUnload.status(m); });
}

Kernel Module::kernel(const std::string& name) const {
  device_.make_current();
  CUfunction function = nullptr;
  const Driver& driver = device_.driver();
  if (CUresult r = driver.cuModuleGetFunction.status(&function, handle(), name.c_str()); r != CUDA_SUCCESS)
    fail("device {}: {} has no kernel \"{}\": {}", device_.label(), label_, name, driver.describe(r));
  std::lock_guard lock(kernels_->mutex);
  auto& allowed = kernels_->allowed[name];
  if (!allowed) {
    // 48 KiB less the static shared memory at first; CUDA C++ Programming Guide, "Shared Memory". Clusters of
    // up to 8 CTAs are portable; ibid., "Thread Block Clusters".
    int bytes = 0;
    driver.cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
    allowed = std::make_shared<Kernel::Allowed>(bytes, 8u);
  }
  return Kernel(device_, module_, function, name, allowed);
}

std::vector<std::string> Module::kernels() const {
  device_.make_current();
  const Driver& driver = device_.driver();
  const auto count =
      reinterpret_cast<decltype(&cuModuleGetFunctionCount)>(driver.symbol("cuModuleGetFunctionCount"));
  const auto list =
      reinterpret_cast<decltype(&cuModuleEnumerateFunctions)>(driver.symbol("cuModuleEnumerateFunctions"));
  const auto name_of = reinterpret_cast<decltype(&cuFuncGetName)>(driver.symbol("cuFuncGetName"));
  unsigned n = 0;
  if (!count || !list || !name_of || count(&n, handle()) != CUDA_SUCCESS) return {};
  std::vector<CUfunction> functions(n);
  if (list(functions.data(), n, handle()) != CUDA_SUCCESS) return {};
  std::vector<std::string> names;
  for (const CUfunction function : functions)
    if (const char* name = nullptr; name_of(&name, function) == CUDA_SUCCESS) names.emplace_back(name);
  std::ranges::sort(names);
  return names;
}

std::pair<CUdeviceptr, size_t> Module::global(const std::string& name) const {
  device_.make_current();
  CUdeviceptr address = 0;
  size_t bytes = 0;
  const Driver& driver = device_.driver();
  if (CUresult r = driver.cuModuleGetGlobal.status(&address, &bytes, handle(), name.c_str());
      r != CUDA_SUCCESS)
    fail("device {}: {} has no variable \"{}\": {}", device_.label(), label_, name, driver.describe(r));
  return {address, bytes};
}

int Kernel::attribute(CUfunction_attribute what) const {
  int value = 0;
  device_.make_current();
  device_.driver().cuFuncGetAttribute(&value, what, function_);
  return value;
}

void Kernel::set_attribute(CUfunction_attribute what, int value) const {
  device_.make_current();
  device_.driver().cuFuncSetAttribute(function_, what, value);
}

// -- streams, events, graphs

Stream::Stream(const Device& device) : device_(device) {
  CUstream stream = nullptr;
  device.make_current();
  device.driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  stream_ = owned(device, stream, [](const Driver& d, CUstream s) { d.cuStreamDestroy.status(s); });
}

void Stream::synchronize() const {
  device_.make_current();
  device_.driver().cuStreamSynchronize(handle());
}

Event::Event(const Device& device) : device_(device) {
  CUevent event = nullptr;
  device.make_current();
  device.driver().cuEventCreate(&event, CU_EVENT_DEFAULT);
  event_ = owned(device, event, [](const Driver& d, CUevent e) { d.cuEventDestroy.status(e); });
}

void Event::record(CUstream stream) const {
  device_.make_current();
  device_.driver().cuEventRecord(handle(), stream);
}

void Event::synchronize() const {
  device_.make_current();
  device_.driver().cuEventSynchronize(handle());
}

double Event::microseconds_since(const Event& start) const {
  float milliseconds = 0;
  device_.make_current();
  device_.driver().cuEventElapsedTime(&milliseconds, start.handle(), handle());
  return 1e3 * milliseconds;
}

Graph Graph::capture(const Stream& stream, const std::function<void()>& work) {
  const Device& device = stream.device();
  const Driver& driver = device.driver();
  device.make_current();
  driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUgraph graph = nullptr;
  try {
    work();
  } catch (...) {
    driver.cuStreamEndCapture.status(stream, &graph);  // or the stream stays unusable
    if (graph) driver.cuGraphDestroy.status(graph);
    throw;
  }
  driver.cuStreamEndCapture(stream, &graph);
  auto keep = owned(device, graph, [](const Driver& d, CUgraph g) { d.cuGraphDestroy.status(g); });
  Graph out(device);
  driver.cuGraphGetNodes(graph, nullptr, &out.nodes_);
  CUgraphExec exec = nullptr;
  driver.cuGraphInstantiateWithFlags(&exec, graph, 0);
  out.exec_ = owned(device, exec, [](const Driver& d, CUgraphExec e) { d.cuGraphExecDestroy.status(e); });
  return out;
}

void Graph::launch(CUstream stream) const {
  device_.make_current();
  device_.driver().cuGraphLaunch(static_cast<CUgraphExec>(exec_.get()), stream);
}

}  // namespace fp4lab
