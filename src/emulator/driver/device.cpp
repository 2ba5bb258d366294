// Initialisation, the device and its attributes.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "emulator/driver/state.h"
#include "emulator/driver/stop.h"
#include "fp4lab/emulator.h"
#include "fp4lab/error.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

namespace {

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 0);
  if (*end) explain(CUDA_SUCCESS, fmt::format("{}={}: not a number, {} is used", variable, text, otherwise));
  return *end ? otherwise : value;
}

constexpr std::string_view kBusId = "0000:00:00.0";

using BusId = std::array<unsigned, 4>;  // domain, bus, device, function

// In the forms that cuDeviceGetByPCIBusId accepts, with nothing after it.
std::optional<BusId> bus_id(const char* text) {
  BusId id{};
  auto& [domain, bus, device, function] = id;
  int end = 0;
  const bool is_one = std::sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end) == 4 ||
                      std::sscanf(text, "%x:%x:%x%n", &domain, &bus, &device, &end) == 3 ||
                      (domain = 0, std::sscanf(text, "%x:%x.%x%n", &bus, &device, &function, &end)) == 3;
  if (!is_one || text[end]) return {};
  return id;
}

bool is_device(CUdevice d) { return d == 0; }

// FP4LAB_SMS removes all but the first SMs, so that a persistent kernel has several tiles per CTA even for a
// small problem. `model` may be null.
const DeviceModel* with_chosen_sms(const DeviceModel* model) {
  static DeviceModel smaller;
  const uint64_t sms = number_from("FP4LAB_SMS", 0);
  if (!model || !sms || sms >= model->sms) return model;
  smaller = *model;
  smaller.sms = static_cast<unsigned>(sms);
  return &smaller;
}

}  // namespace

void fp4lab::emu::driver::select_by_program() {
  State& s = state();
  const auto select = s.select_by.load();
  if (!select) return;
  {
    std::lock_guard lock(s.mutex);
    if (s.primary_retained || !s.contexts.empty()) return;  // too late
  }
  select();
}

extern "C" void fp4lab_emulator_select_by(void (*select)()) { state().select_by = select; }

CUresult cuInit(unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  State& s = state();
  if (!s.initialized) select_by_program();
  std::lock_guard lock(s.mutex);
  if (s.initialized) return CUDA_SUCCESS;
  const char* wanted = std::getenv("FP4LAB_EMULATOR_DEVICE");
  if (!s.device) s.device = with_chosen_sms(device_model(wanted && *wanted ? wanted : "b200"));
  if (!s.device)
    return explain(CUDA_ERROR_NO_DEVICE,
                   fmt::format("FP4LAB_EMULATOR_DEVICE={}: no such device model; known are {}", wanted,
                               device_model_names()));
  s.memory = std::make_unique<GlobalMemory>();
  s.schedule.seed = number_from("FP4LAB_SEED", 0);
  s.schedule.threads = static_cast<unsigned>(number_from("FP4LAB_THREADS", 0));
  s.schedule.tolerant = number_from("FP4LAB_TOLERANT", 0) != 0;
  if (s.schedule.tolerant) s.memory->fresh = GlobalMemory::Fresh::zeros;
  s.schedule.kind = number_from("FP4LAB_EAGER", 0) ? Schedule::Kind::eager : Schedule::Kind::adversarial;
  try {
    observe_by_environment();
  } catch (const fp4lab::Error& e) {
    return explain(CUDA_ERROR_INVALID_VALUE, e.what());
  }
  if (number_from("FP4LAB_CHECK", 0)) s.check = true;
  s.goes_on = number_from("FP4LAB_GO_ON", 0) != 0;
  stop_by_environment(s);
  if (number_from("FP4LAB_FIDELITY", 0)) tell_fidelity_at_exit();
  s.initialized = true;
  return CUDA_SUCCESS;
}

// The device model may change while nothing depends on it: no context, hence no module and no launch.
extern "C" CUresult fp4lab_emulator_select(int major, int minor) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (s.device && s.device->major == major && s.device->minor == minor) return CUDA_SUCCESS;
  const DeviceModel* model = device_model(major, minor);
  if (!model) return CUDA_ERROR_INVALID_DEVICE;
  if (s.primary_retained || !s.contexts.empty()) return CUDA_ERROR_ILLEGAL_STATE;
  s.device = with_chosen_sms(model);
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (CUresult r = ready(false)) return r;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (CUresult r = ready(false)) return r;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, length, "%s (fp4lab emulator)", state().device->name);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(uuid->bytes, "fp4lab-emulator", 16);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = state().memory->capacity();
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = state().device->major;
  *minor = state().device->minor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!id || length <= int(kBusId.size())) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(id, kBusId.data(), kBusId.size() + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (CUresult r = ready(false)) return r;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  const DeviceModel& d = *state().device;
  switch (static_cast<int>(attribute)) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      *value = 64;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      *value = 0x7fffffff;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
      *value = 65535;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      *value = 65535;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      *value = 48 * 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      *value = 64 * 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = kLanes;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      *value = 0x7fffffff;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      *value = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = static_cast<int>(d.clock_khz);
      break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      *value = 512;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = static_cast<int>(d.sms);
      break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      *value = static_cast<int>(d.memory_clock_khz);
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      *value = static_cast<int>(d.memory_bus_bits);
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = static_cast<int>(d.l2_bytes);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:  // five eighths, as an H200 with driver 580
                                                            // answers
      *value = static_cast<int>(d.l2_bytes / 8 * 5);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE:
      *value = 128 << 20;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = static_cast<int>(d.threads_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      *value = 3;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = d.major;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = d.minor;
      break;
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = static_cast<int>(d.shared_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      *value = static_cast<int>(d.registers_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = static_cast<int>(d.shared_per_cta_optin);
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      *value = static_cast<int>(d.ctas_per_sm);
      break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      *value = kReservedShared;
      break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = 1;
      break;
    default:
      // All other attributes describe features that the emulator does not have (textures, IPC, ...).
      if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (CUresult r = ready(false)) return r;
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  if (device || peer) return CUDA_ERROR_INVALID_DEVICE;
  *can = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  if (CUresult r = ready(false)) return r;
  const auto asked = id ? bus_id(id) : std::nullopt;
  if (!device || !asked) return CUDA_ERROR_INVALID_VALUE;
  if (asked != bus_id(kBusId.data())) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}
