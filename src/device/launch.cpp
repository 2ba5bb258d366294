// Launches and tensor maps: the two calls with too many values to say only "invalid argument" when they are
// refused.
#include "fp4lab/device.h"

namespace fp4lab {
namespace {

std::string describe(const LaunchConfig& c) {
  return fmt::format("grid {}x{}x{}, block {}x{}x{}, cluster {}x{}x{}, {} bytes of dynamic shared memory{}{}",
                     c.grid.x, c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z, c.cluster.x, c.cluster.y,
                     c.cluster.z, c.dynamic_shared, c.cooperative ? ", cooperative" : "",
                     c.programmatic ? ", programmatic stream serialization" : "");
}

void check(const Kernel& kernel, const LaunchConfig& c, const char* call, CUresult r) {
  if (r == CUDA_SUCCESS) return;
  const Device& device = kernel.device();
  fail("device {}: {} of kernel {} failed: {}\n  {}{}", device.label(), call, kernel.name(),
       device.driver().describe(r), describe(c), device.driver().fault_report(r));
}

}  // namespace

// Raises the function's limits to what the launch needs.
void raise_limits(const Kernel& kernel, const LaunchConfig& c) {
  const Driver& driver = kernel.device().driver();
  Kernel::Allowed& allowed = *kernel.allowed_;
  if (int(c.dynamic_shared) > allowed.dynamic_shared) {
    check(kernel, c, "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)",
          driver.cuFuncSetAttribute.status(kernel.function(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           int(c.dynamic_shared)));
    allowed.dynamic_shared = int(c.dynamic_shared);
  }
  const unsigned cluster = c.cluster.x * c.cluster.y * c.cluster.z;
  if (cluster > allowed.cluster) {
    check(kernel, c, "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)",
          driver.cuFuncSetAttribute.status(kernel.function(),
                                           CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    allowed.cluster = ~0u;
  }
}

namespace {

void submit(const Kernel& kernel, const LaunchConfig& c, void** parameters, void** extra) {
  const Device& device = kernel.device();
  const Driver& driver = device.driver();
  device.make_current();
  std::vector<CUlaunchAttribute> attributes = c.attributes;
  const auto add = [&](CUlaunchAttributeID id) -> CUlaunchAttributeValue& {
    attributes.push_back({});
    attributes.back().id = id;
    return attributes.back().value;
  };
  const unsigned cluster = c.cluster.x * c.cluster.y * c.cluster.z;
  if (cluster != 1) {
    auto& value = add(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim;
    value.x = c.cluster.x, value.y = c.cluster.y, value.z = c.cluster.z;
  }
  if (c.cooperative) add(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
  if (c.programmatic)
    add(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).programmaticStreamSerializationAllowed = 1;

  raise_limits(kernel, c);
  CUlaunchConfig config{
      c.grid.x,  c.grid.y,         c.grid.z, c.block.x,         c.block.y,
      c.block.z, c.dynamic_shared, c.stream, attributes.data(), unsigned(attributes.size())};
  check(kernel, c, "launch", driver.cuLaunchKernelEx.status(&config, kernel.function(), parameters, extra));
}

}  // namespace

void launch_pointers(const Kernel& kernel, const LaunchConfig& config, void** parameters) {
  submit(kernel, config, parameters, nullptr);
}

void launch_bytes(const Kernel& kernel, const LaunchConfig& config, std::span<const std::byte> parameters) {
  size_t bytes = parameters.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(parameters.data()),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  submit(kernel, config, nullptr, extra);
}

std::string describe(const TensorMapSpec& s) {
  return fmt::format(
      "type {}, address {:#x}, dims [{}], strides [{}] bytes, box [{}], element strides [{}], swizzle {}, "
      "interleave {}, L2 promotion {}, fill {}",
      int(s.type), s.address, fmt::join(s.dims, ", "), fmt::join(s.strides, ", "), fmt::join(s.box, ", "),
      fmt::join(s.element_strides, ", "), int(s.swizzle), int(s.interleave), int(s.l2_promotion),
      int(s.fill));
}

CUtensorMap encode(const Device& device, const TensorMapSpec& spec) {
  TensorMapSpec s = spec;
  const size_t rank = s.dims.size();
  if (s.element_strides.empty()) s.element_strides.assign(rank, 1);
  if (rank < 1 || rank > 5 || s.strides.size() != rank - 1 || s.box.size() != rank ||
      s.element_strides.size() != rank)
    fail("tensor map: rank {} (1 to 5) needs {} strides, {} box and element strides: {}", rank,
         rank ? rank - 1 : 0, rank, describe(s));
  // Not a plain local: g++ 12 builds that in the caller's return slot, which it does not align to 64 bytes
  // when the caller drops the result.
  alignas(CUtensorMap) std::byte storage[sizeof(CUtensorMap)];
  auto* map = reinterpret_cast<CUtensorMap*>(storage);
  device.make_current();
  const Driver& driver = device.driver();
  if (CUresult r = driver.cuTensorMapEncodeTiled.status(
          map, s.type, cuuint32_t(rank), reinterpret_cast<void*>(s.address), s.dims.data(), s.strides.data(),
          s.box.data(), s.element_strides.data(), s.interleave, s.swizzle, s.l2_promotion, s.fill);
      r != CUDA_SUCCESS)
    fail("device {}: cuTensorMapEncodeTiled failed: {}\n  {}", device.label(), driver.describe(r),
         describe(s));
  CUtensorMap result;
  std::memcpy(&result, storage, sizeof result);
  return result;
}

}  // namespace fp4lab
