// A thin owner layer over the driver table: device, memory, module, kernel, stream, event, graph, launch,
// tensor map. Every object keeps its device alive; every failure throws Error with the call and its values.
//
//   Device device = Device::open("auto", "sm_100a");
//   DeviceBuffer x = DeviceBuffer::from(device, host_values);
//   Module module = load(device, jit::compile({.source = "ptx/..."}));     // jit.h
//   launch(module.kernel("group_gemm"), {.grid = {148}, .block = {192}, .dynamic_shared = 200000}, args);
//   device.synchronize();
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fp4lab/driver.h"

namespace fp4lab {

/// A device with its primary context retained. Copies share it.
class Device {
 public:
  /// `name`: cuda, emulator or auto (see Driver::open). `arch`: the target of the code that will run
  /// ("sm_100a"), or empty. The emulator takes the machine that runs `arch` unless FP4LAB_EMULATOR_DEVICE
  /// names one. Throws when there is no such device, saying which there are.
  static Device open(std::string_view name = "auto", std::string_view arch = "");

  const Driver& driver() const { return *state_->driver; }
  bool is_emulator() const { return driver().is_emulator(); }
  /// cuda or emulator
  const std::string& label() const { return driver().label; }
  /// "NVIDIA H200"
  const std::string& name() const { return state_->name; }
  int ordinal() const { return state_->ordinal; }
  int attribute(CUdevice_attribute what) const;
  int compute_major() const { return attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR); }
  int compute_minor() const { return attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR); }
  int sms() const { return attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT); }
  bool runs(std::string_view arch) const {
    return parse_arch(arch).runs_on(compute_major(), compute_minor());
  }

  /// Makes the context current in the calling thread. The classes below do it by themselves.
  void make_current() const;
  /// Waits for all work. A kernel that failed is reported here (on hardware) or at its launch (on the
  /// emulator).
  void synchronize() const;

 private:
  struct State {
    std::shared_ptr<Driver> driver;
    CUdevice device = 0;
    CUcontext context = nullptr;
    int ordinal = 0;
    std::string name;
    ~State();
  };
  std::shared_ptr<State> state_;
};

/// True when a real GPU that runs `arch` is there; otherwise `why` says what is missing. For tests and
/// comparators.
bool gpu_available(std::string_view arch, std::string* why = nullptr);

/// Device memory. Address 0 and size 0 when empty.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const Device& device, size_t bytes);
  template <class T>
  static DeviceBuffer from(const Device& device, std::span<const T> values) {
    DeviceBuffer buffer(device, values.size_bytes());
    buffer.upload(values.data(), values.size_bytes());
    return buffer;
  }
  template <class T>
  static DeviceBuffer from(const Device& device, const std::vector<T>& values) {
    return from(device, std::span<const T>(values));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept { return swap(other), *this; }
  ~DeviceBuffer();

  CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }
  /// Copies between host and device; offset and count are bytes and must lie inside the buffer.
  void upload(const void* from, size_t count, size_t offset = 0);
  void download(void* to, size_t count, size_t offset = 0) const;
  void fill(unsigned char value);
  template <class T>
  std::vector<T> values() const {
    std::vector<T> out(bytes_ / sizeof(T));
    download(out.data(), out.size() * sizeof(T));
    return out;
  }

 private:
  void swap(DeviceBuffer& other) noexcept;
  void check_range(const char* what, size_t count, size_t offset) const;
  std::vector<Device> device_;  // none or one
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
};

struct LaunchConfig;

/// A function of a module. Valid as long as any copy of it or its module lives.
class Kernel {
 public:
  const std::string& name() const { return name_; }
  CUfunction function() const { return function_; }
  const Device& device() const { return device_; }
  int attribute(CUfunction_attribute what) const;
  void set_attribute(CUfunction_attribute what, int value) const;
  int registers() const { return attribute(CU_FUNC_ATTRIBUTE_NUM_REGS); }
  int static_shared() const { return attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES); }

 private:
  friend class Module;
  friend void raise_limits(const Kernel& kernel, const LaunchConfig& config);
  // What the function's attributes allow so far, one for all copies: a timed loop of launches should not set
  // them each time.
  struct Allowed {
    std::atomic<int> dynamic_shared;  // bytes
    std::atomic<unsigned> cluster;    // CTAs
  };
  Kernel(Device device, std::shared_ptr<void> module, CUfunction function, std::string name,
         std::shared_ptr<Allowed> allowed)
      : device_(std::move(device)),
        module_(std::move(module)),
        function_(function),
        name_(std::move(name)),
        allowed_(std::move(allowed)) {}
  Device device_;
  std::shared_ptr<void> module_;
  CUfunction function_;
  std::string name_;
  std::shared_ptr<Allowed> allowed_;
};

class Module {
 public:
  /// `image`: PTX text or a cubin. `label` names it in messages (a path). On failure the driver's log is in
  /// the message.
  Module(const Device& device, const std::string& image, std::string label);
  /// Throws with the module's label when there is no such entry.
  Kernel kernel(const std::string& name) const;
  /// Names of its entries, sorted; none where the driver cannot tell (before CUDA 12.4).
  std::vector<std::string> kernels() const;
  /// Address and size in bytes of a __device__ or __constant__ variable.
  std::pair<CUdeviceptr, size_t> global(const std::string& name) const;

 private:
  Device device_;
  std::string label_;
  std::shared_ptr<void> module_;
  struct Kernels {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<Kernel::Allowed>> allowed;
  };
  std::shared_ptr<Kernels> kernels_ = std::make_shared<Kernels>();
  CUmodule handle() const { return static_cast<CUmodule>(module_.get()); }
};

class Stream {
 public:
  explicit Stream(const Device& device);
  CUstream handle() const { return static_cast<CUstream>(stream_.get()); }
  operator CUstream() const { return handle(); }
  void synchronize() const;
  const Device& device() const { return device_; }

 private:
  Device device_;
  std::shared_ptr<void> stream_;
};

class Event {
 public:
  explicit Event(const Device& device);
  CUevent handle() const { return static_cast<CUevent>(event_.get()); }
  operator CUevent() const { return handle(); }
  void record(CUstream stream = nullptr) const;
  void synchronize() const;
  /// Microseconds from `start` to this event; both must have completed.
  double microseconds_since(const Event& start) const;

 private:
  Device device_;
  std::shared_ptr<void> event_;
};

/// Work captured from a stream, ready to launch again and again.
class Graph {
 public:
  /// Runs `work` with `stream` capturing and instantiates what it submitted.
  static Graph capture(const Stream& stream, const std::function<void()>& work);
  void launch(CUstream stream) const;
  size_t nodes() const { return nodes_; }

 private:
  Graph(Device device) : device_(std::move(device)) {}
  Device device_;
  std::shared_ptr<void> exec_;
  size_t nodes_ = 0;
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

struct LaunchConfig {
  Dim3 grid{}, block{}, cluster{};
  unsigned dynamic_shared = 0;  ///< bytes; above 48 KiB the kernel's attribute is raised as needed
  CUstream stream = nullptr;
  bool cooperative = false;
  bool programmatic =
      false;  ///< programmatic dependent launch: may start before its predecessor in the stream has ended
  std::vector<CUlaunchAttribute> attributes{};  ///< further ones, as given
};

/// Launches with one pointer per kernel parameter. Throws with kernel name and configuration.
void launch_pointers(const Kernel& kernel, const LaunchConfig& config, void** parameters);
/// Launches with the whole parameter block as bytes (for argument structs whose size is known at run time
/// only).
void launch_bytes(const Kernel& kernel, const LaunchConfig& config, std::span<const std::byte> parameters);

/// Launches with arguments by value; their types must match the kernel's parameters in size and order.
/// Pointers to device memory are passed as CUdeviceptr.
template <class... Args>
void launch(const Kernel& kernel, const LaunchConfig& config, const Args&... args) {
  static_assert((std::is_trivially_copyable_v<Args> && ...), "a kernel parameter is copied as bytes");
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&args))..., nullptr};
  launch_pointers(kernel, config, pointers);
}

/// The arguments of cuTensorMapEncodeTiled; dimension 0 is the contiguous one. Rank is dims.size().
struct TensorMapSpec {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  CUdeviceptr address = 0;                    ///< 16-byte aligned
  std::vector<cuuint64_t> dims;               ///< elements
  std::vector<cuuint64_t> strides;            ///< bytes, of dimensions 1.. (one fewer than dims)
  std::vector<cuuint32_t> box;                ///< elements
  std::vector<cuuint32_t> element_strides{};  ///< empty: all 1
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};
std::string describe(const TensorMapSpec& spec);
/// Throws with all values when the lists disagree in length or the driver refuses.
CUtensorMap encode(const Device& device, const TensorMapSpec& spec);

}  // namespace fp4lab
