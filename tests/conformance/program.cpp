#include "program.h"

#include <algorithm>
#include <cstring>

#include "emulator/core/machine.h"
#include "emulator/engine/tensor_map.h"
#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"
#include "fp4lab/error.h"

namespace fp4lab::conformance {

const char* name_of(Kind k) {
  constexpr const char* names[] = {"scalar", "matrix", "wgmma", "mbarrier", "tma", "products",
                                   "sparse", "im2col", "calls", "mixed",    "cuda"};
  return names[static_cast<int>(k)];
}

Kind kind_named(std::string_view name) {
  for (Kind k : kKinds)
    if (name == name_of(k)) return k;
  fail("'{}' is no kind of conformance program", name);
}

Program generate(Kind kind, uint64_t seed) {
  Program p = kind == Kind::wgmma      ? generate_wgmma(seed)
              : kind == Kind::mbarrier ? generate_mbarrier(seed)
              : kind == Kind::tma      ? generate_tma(seed)
              : kind == Kind::products ? generate_products(seed)
              : kind == Kind::sparse   ? generate_wgmma(seed, true)
              : kind == Kind::im2col   ? generate_tma(seed, true)
              : kind == Kind::calls    ? generate_calls(seed)
              : kind == Kind::mixed    ? generate_mixed(seed)
              : kind == Kind::cuda     ? generate_cuda(seed)
                                       : generate_scalar(seed, kind == Kind::matrix);
  p.kind = kind, p.seed = seed;
  return p;
}

void fill_random(Random& r, std::vector<std::byte>& bytes) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t x = r.bits();
    std::memcpy(&bytes[i], &x, std::min<size_t>(8, bytes.size() - i));
  }
}

uint64_t random_operand(Random& r, unsigned bytes) {
  static constexpr uint64_t k16[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e01, 0x0001, 0x83ff,
                                     0x0400, 0x7bff, 0x3f80, 0x7f80, 0xff80, 0xffff, 0x7fff, 0x7ff7, 0x4000};
  static constexpr uint64_t k32[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                     0x7fc00001, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0xffffffff,
                                     0x7fffffff, 31,         32,         0x4b000001, 0x3f000000, 0x7ff73c00};
  static constexpr uint64_t k64[] = {0,
                                     0x8000000000000000,
                                     0x3ff0000000000000,
                                     0xbff0000000000000,
                                     0x7ff0000000000000,
                                     0x7ff8000000000001,
                                     1,
                                     0x0010000000000000,
                                     0x7fefffffffffffff,
                                     0xffffffffffffffff,
                                     64};
  uint64_t x = r.bits();
  switch (r.below(6)) {
    case 0:
      x = bytes == 2 ? r.pick(k16) : bytes == 4 ? r.pick(k32) : r.pick(k64);
      break;
    case 1:
      x %= 70;
      break;
    case 2:  // floats of moderate size
      x = bytes == 4   ? (x & 0x83ffffff) | 0x3c000000
          : bytes == 8 ? (x & 0x803fffffffffffff) | 0x3fc0000000000000
                       : (x & 0x8fff) | 0x3000;
      break;
    default:
      break;
  }
  return bytes == 8 ? x : x & ((uint64_t(1) << (8 * bytes)) - 1);
}

std::vector<std::byte> run_on_driver(const Program& p, Driver& d) {
  CUmodule module;
  CUfunction function;
  CUdeviceptr out, in, tensor = 0;
  CUjit_option option = CU_JIT_OPTIMIZATION_LEVEL;
  void* none = nullptr;
  d.cuModuleLoadDataEx(&module, p.text.c_str(), 1, &option, &none);
  d.cuModuleGetFunction(&function, module, "k");
  if (p.shared > (48u << 10))
    d.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                         static_cast<int>(p.shared));
  d.cuMemAlloc(&out, p.out_bytes);
  d.cuMemsetD8(out, 0, p.out_bytes);
  d.cuMemAlloc(&in, std::max<size_t>(p.in.size(), 16));
  d.cuMemcpyHtoD(in, p.in.data(), p.in.size());
  alignas(64) CUtensorMap map{};
  std::vector<void*> params = {&out, &in};
  if (p.has_map) {
    d.cuMemAlloc(&tensor, p.tensor.size());
    d.cuMemcpyHtoD(tensor, p.tensor.data(), p.tensor.size());
    if (p.map.pixels)
      d.cuTensorMapEncodeIm2col(&map, p.map.type, p.map.rank, reinterpret_cast<void*>(tensor),
                                p.map.dims.data(), p.map.strides.data(), p.map.lower.data(),
                                p.map.upper.data(), p.map.box[0], p.map.pixels, p.map.element_strides.data(),
                                CU_TENSOR_MAP_INTERLEAVE_NONE, p.map.swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                p.map.fill);
    else
      d.cuTensorMapEncodeTiled(&map, p.map.type, p.map.rank, reinterpret_cast<void*>(tensor),
                               p.map.dims.data(), p.map.strides.data(), p.map.box.data(),
                               p.map.element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, p.map.swizzle,
                               CU_TENSOR_MAP_L2_PROMOTION_NONE, p.map.fill);
    params.insert(params.begin(), &map);
  }
  d.cuLaunchKernel(function, p.ctas, 1, 1, p.threads, 1, 1, p.shared, nullptr, params.data(), nullptr);
  std::vector<std::byte> result(p.out_bytes + (p.has_map ? p.tensor.size() : 0));
  d.cuMemcpyDtoH(result.data(), out, p.out_bytes);
  if (p.has_map) d.cuMemcpyDtoH(result.data() + p.out_bytes, tensor, p.tensor.size());
  d.cuMemFree(out);
  d.cuMemFree(in);
  if (tensor) d.cuMemFree(tensor);
  d.cuModuleUnload(module);
  return result;
}

std::vector<std::byte> run_on_emulator(const Program& p, uint64_t schedule_seed) {
  emu::GlobalMemory memory;
  const auto module = emu::parse(p.text, "conformance.ptx", emu::Compilation::as_written);
  emu::load(*module, memory);
  auto upload = [&](const std::vector<std::byte>& bytes, size_t least) {
    const uint64_t at = memory.allocate(std::max(bytes.size(), least));
    std::memset(memory.host(at), 0, std::max(bytes.size(), least));
    std::copy(bytes.begin(), bytes.end(), memory.host(at));
    return at;
  };
  const uint64_t out = upload({}, p.out_bytes), in = upload(p.in, 16), tensor = upload(p.tensor, 16);
  emu::LaunchConfig config;
  auto parameter = [&](const void* bytes, size_t n) {
    const auto* b = static_cast<const std::byte*>(bytes);
    config.params.insert(config.params.end(), b, b + n);
  };
  if (p.has_map) {
    alignas(64) CUtensorMap map{};
    const Map& m = p.map;
    emu::TensorMapArguments arguments{m.type,        m.rank,           reinterpret_cast<void*>(tensor),
                                      m.dims.data(), m.strides.data(), m.element_strides.data()};
    arguments.swizzle = m.swizzle, arguments.fill = m.fill;
    const std::string why =
        m.pixels ? emu::encode_im2col(&map, arguments, m.lower.data(), m.upper.data(), m.box[0], m.pixels, 9)
                 : emu::encode_tiled(&map, arguments, m.box.data(), 9);
    if (!why.empty()) fail("{} {}: {}", name_of(p.kind), p.seed, why);
    parameter(&map, sizeof map);
  }
  parameter(&out, 8);
  parameter(&in, 8);
  config.grid.x = p.ctas, config.block.x = p.threads, config.dynamic_shared = p.shared;
  const emu::Function& kernel = module->functions[module->function_index.at("k")];
  if (const auto& [x, y, z] = kernel.req_cluster; x) config.cluster = {x, y, z};
  emu::Schedule schedule;
  schedule.threads = 1, schedule.seed = schedule_seed;
  const auto result = emu::launch(*module, kernel, config, *emu::device_model("h200"), memory, schedule);
  if (!result.ok) fail("{} {}: {}", name_of(p.kind), p.seed, result.report);
  std::vector<std::byte> bytes(p.out_bytes + (p.has_map ? p.tensor.size() : 0));
  std::memcpy(bytes.data(), memory.host(out), p.out_bytes);
  if (p.has_map) std::memcpy(bytes.data() + p.out_bytes, memory.host(tensor), p.tensor.size());
  emu::unload(*module, memory);
  return bytes;
}

std::string difference(const Program& p, const std::vector<std::byte>& expected,
                       const std::vector<std::byte>& got) {
  if (expected == got) return {};
  size_t at = 0, count = 0;
  for (size_t i = expected.size(); i-- > 0;)
    if (expected[i] != got[i]) at = i, ++count;
  auto word = [](const std::vector<std::byte>& v, size_t i) {
    uint64_t x = 0;
    std::memcpy(&x, &v[i], std::min<size_t>(8, v.size() - i));
    return x;
  };
  const size_t first = at / 8 * 8;
  std::string where = at < p.out_bytes ? fmt::format("byte {} of the output", at)
                                       : fmt::format("byte {} of the tensor", at - p.out_bytes);
  const size_t lanes = size_t(p.threads) * p.ctas, slot = first / 8 / lanes;
  if (at < p.out_bytes && slot < p.slot_lines.size()) {
    const std::string& text = p.source.empty() ? p.text : p.source;
    size_t begin = 0;
    for (uint32_t line = 1; line < p.slot_lines[slot]; ++line) begin = text.find('\n', begin) + 1;
    where = fmt::format("thread {}, line {}: {}", first / 8 % lanes, p.slot_lines[slot],
                        text.substr(begin, text.find('\n', begin) - begin));
  }
  return fmt::format("{} {}: {} bytes differ; first {}: the GPU has 0x{:016x}, the emulator 0x{:016x}",
                     name_of(p.kind), p.seed, count, where, word(expected, first), word(got, first));
}

}  // namespace fp4lab::conformance
