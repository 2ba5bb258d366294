#include "sweep.h"

#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "emulator/core/machine.h"
#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"
#include "fp4lab/error.h"

namespace fp4lab::sweep {

namespace {

bool is_type(const std::string& s) { return s == "b16" || s == "b32" || s == "b64"; }
unsigned bytes_of(const std::string& type) { return type == "b16" ? 2 : type == "b64" ? 8 : 4; }

uint64_t mixed(uint64_t x) {  // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr uint64_t k16[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e01, 0x7c01,
                            0x0001, 0x83ff, 0x0400, 0x7bff, 0x3f80, 0x7f80, 0xff80, 0x7fc0,
                            0xffff, 0x7fff, 0x0080, 0x4000, 0x3c01, 0x00ff};
constexpr uint64_t k32[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                            0x7fc00001, 0x7f800001, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff,
                            0xffffffff, 0x7fffffff, 31,         32,         33,         8,
                            0x00010001, 0x477ff000, 0x33800000, 0x4b000001, 0x43e80000, 0x3f000000,
                            0x40200000, 0x80808080, 0xffff0000, 2};
constexpr uint64_t k64[] = {0,
                            uint64_t(1) << 63,
                            0x3ff0000000000000,
                            0xbff0000000000000,
                            0x7ff0000000000000,
                            0xfff0000000000000,
                            0x7ff8000000000001,
                            1,
                            0x800fffffffffffff,
                            0x0010000000000000,
                            0x7fefffffffffffff,
                            0xffffffffffffffff,
                            0x7fffffffffffffff,
                            63,
                            64,
                            0x36a0000000000001,
                            0x380ffffff0000001,
                            0x47efffffefffffff,
                            0x43e0000000000000,
                            0x4330000000000001};

uint64_t operand(unsigned tuple, unsigned n, unsigned bytes, uint64_t previous) {
  const uint64_t r = mixed(tuple * 16 + n), v = mixed(r);
  const auto pick = [&](const auto& list) { return list[v % std::size(list)]; };
  uint64_t x = v;
  switch (r % 8) {
    case 0:
    case 1:
      x = bytes == 2 ? pick(k16) : bytes == 4 ? pick(k32) : pick(k64);
      break;
    case 2:
      x = v % 70;  // counts
      break;
    case 3:
      x = n ? previous ^ (uint64_t(1) << (v % (8 * bytes))) : v;  // a neighbour of the operand before
      break;
    case 4:
      x = n ? -previous : v;
      break;
    case 5:  // floats of moderate size
      x = bytes == 4   ? (v & 0x83ffffff) | 0x3c000000
          : bytes == 8 ? (v & 0x803fffffffffffff) | 0x3fc0000000000000
                       : (v & 0x8fff) | 0x3000;
      break;
    default:
      break;
  }
  return bytes == 8 ? x : x & ((uint64_t(1) << (8 * bytes)) - 1);
}

bool is_nan(uint64_t v, unsigned bytes) {
  if (bytes == 8) return (v & ~(uint64_t(1) << 63)) > 0x7ff0000000000000;
  if (bytes == 4) return (v & 0x7fffffff) > 0x7f800000;
  return false;
}

std::vector<std::vector<uint64_t>> tuples(const Form& f) {
  std::vector<std::vector<uint64_t>> all(kTuples);
  for (unsigned t = 0; t < kTuples; ++t) {
    uint64_t previous = 0;
    for (unsigned n = 0; n < f.sources.size(); ++n) {
      const unsigned bytes = bytes_of(f.sources[n]);
      uint64_t v = is_type(f.sources[n]) ? operand(t, n, bytes, previous) : 0;
      if (f.numbers_only && is_nan(v, bytes)) v = t;
      all[t].push_back(v);
      previous = v;
    }
  }
  return all;
}

}  // namespace

std::string Form::text() const {
  std::string s = opcode + (numbers_only ? "!" : "") + " " + destination;
  for (const std::string& source : sources) s += " " + source;
  return s;
}

Form parse_form(const std::string& line) {
  std::istringstream in(line);
  Form f;
  in >> f.opcode >> f.destination;
  if (f.opcode.ends_with("!")) f.opcode.pop_back(), f.numbers_only = true;
  for (std::string w; in >> w;) {
    if (w.starts_with("="))
      f.hash = std::stoull(w.substr(1), nullptr, 16);
    else
      f.sources.push_back(w);
  }
  if (f.destination.empty() || f.sources.empty()) fail("'{}' is no form of a sweep", line);
  return f;
}

std::vector<Form> forms_of(const std::string& file) {
  std::ifstream in(file);
  if (!in) fail("cannot read {}", file);
  std::vector<Form> forms;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') forms.push_back(parse_form(line));
  return forms;
}

std::string module_text(const Form& f) {
  std::string t =
      ".version 8.2\n.target sm_90\n.address_size 64\n"
      ".visible .entry sweep(.param .u64 out_p, .param .u64 in_p)\n{\n"
      "  .reg .b64 %out, %in, %result, %d;\n  .reg .b32 %i, %b, %n, %x;\n  .reg .b16 %h;\n  .reg .pred %p;\n";
  for (unsigned n = 0; n < f.sources.size(); ++n)
    if (is_type(f.sources[n])) t += fmt::format("  .reg .{} %s{};\n", f.sources[n], n);
  t += "  ld.param.u64 %out, [out_p];\n  ld.param.u64 %in, [in_p];\n"
       "  mov.u32 %i, %tid.x;\n  mov.u32 %b, %ctaid.x;\n  mov.u32 %n, %ntid.x;\n"
       "  mad.lo.u32 %i, %b, %n, %i;\n  mad.wide.u32 %out, %i, 8, %out;\n"
       "  mad.wide.u32 %in, %i, 32, %in;\n  mov.b64 %result, 0;\n";
  std::string list;
  for (unsigned n = 0; n < f.sources.size(); ++n) {
    if (is_type(f.sources[n])) {
      t += fmt::format("  ld.global.{} %s{}, [%in+{}];\n", f.sources[n], n, 8 * n);
      list += fmt::format(", %s{}", n);
    } else {
      list += ", " + f.sources[n];
    }
  }
  if (f.destination == "pred")
    t += fmt::format("  {} %p{};\n  selp.b64 %result, 1, 0, %p;\n", f.opcode, list);
  else if (f.destination == "b64")
    t += fmt::format("  {} %result{};\n", f.opcode, list);
  else if (f.destination == "b32")
    t += fmt::format("  {} %x{};\n  mov.b64 %result, {{%x, 0}};\n", f.opcode, list);
  else if (f.destination == "b16")
    t += fmt::format("  {} %h{};\n  mov.b64 %result, {{%h, 0, 0, 0}};\n", f.opcode, list);
  else
    fail("'{}' is no destination", f.destination);
  return t + "  st.global.b64 [%out], %result;\n  ret;\n}\n";
}

std::vector<std::byte> operands_of(const Form& f) {
  std::vector<std::byte> bytes(kTuples * 32);
  const auto all = tuples(f);
  for (unsigned t = 0; t < kTuples; ++t) std::memcpy(&bytes[t * 32], all[t].data(), 8 * all[t].size());
  return bytes;
}

std::vector<uint64_t> run_on_emulator(const Form& f) {
  emu::GlobalMemory memory;
  const auto module = emu::parse(module_text(f), "sweep.ptx", emu::Compilation::as_written);
  emu::load(*module, memory);
  const std::vector<std::byte> operands = operands_of(f);
  const uint64_t addresses[] = {memory.allocate(kTuples * 8), memory.allocate(operands.size())};
  std::memcpy(memory.host(addresses[1]), operands.data(), operands.size());
  emu::LaunchConfig config;
  config.block.x = 256;
  config.grid.x = kTuples / 256;
  config.params.resize(16);
  std::memcpy(config.params.data(), addresses, 16);
  emu::Schedule schedule;
  schedule.threads = 1;
  const auto result =
      emu::launch(*module, module->functions[0], config, *emu::device_model("h200"), memory, schedule);
  if (!result.ok) fail("{}: {}", f.text(), result.report);
  std::vector<uint64_t> out(kTuples);
  std::memcpy(out.data(), memory.host(addresses[0]), kTuples * 8);
  emu::unload(*module, memory);
  return out;
}

std::vector<uint64_t> run_on_driver(const Form& f, Driver& d) {
  const std::vector<std::byte> operands = operands_of(f);
  CUmodule module;
  CUfunction function;
  CUdeviceptr out, in;
  CUjit_option option = CU_JIT_OPTIMIZATION_LEVEL;
  void* none = nullptr;
  d.cuModuleLoadDataEx(&module, module_text(f).c_str(), 1, &option, &none);
  d.cuModuleGetFunction(&function, module, "sweep");
  d.cuMemAlloc(&out, kTuples * 8);
  d.cuMemAlloc(&in, operands.size());
  d.cuMemcpyHtoD(in, operands.data(), operands.size());
  void* params[] = {&out, &in};
  d.cuLaunchKernel(function, kTuples / 256, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr);
  std::vector<uint64_t> results(kTuples);
  d.cuMemcpyDtoH(results.data(), out, kTuples * 8);
  d.cuMemFree(out);
  d.cuMemFree(in);
  d.cuModuleUnload(module);
  return results;
}

uint64_t hash_of(const std::vector<uint64_t>& results) {
  return XXH3_64bits(results.data(), 8 * results.size());
}

std::string describe(const Form& f, unsigned tuple, uint64_t result) {
  std::string s = fmt::format("{}: tuple {}:", f.text(), tuple);
  const auto all = tuples(f);
  for (unsigned n = 0; n < f.sources.size(); ++n)
    if (is_type(f.sources[n])) s += fmt::format(" 0x{:0{}x}", all[tuple][n], 2 * bytes_of(f.sources[n]));
  return s + fmt::format(" -> 0x{:x}", result);
}

}  // namespace fp4lab::sweep
