// Runs PTX text on the emulator in a test: parse, allocate, launch, read the results.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/engine/tensor_map.h"
#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"

namespace fp4lab::emu::test {

struct Kernel {
  GlobalMemory memory;
  std::unique_ptr<Module> module;
  LaunchConfig config;
  Schedule schedule;
  Watcher* watcher = nullptr;
  std::vector<std::byte> params;

  explicit Kernel(const std::string& text) : module(parse(text, "test.ptx")) {
    load(*module, memory);
    schedule.threads = 1;
    config.block.x = 32;
  }
  uint64_t buffer(size_t bytes) {
    const uint64_t a = memory.allocate(bytes);
    std::memset(memory.host(a), 0, bytes);
    return a;
  }
  template <class T>
  uint64_t upload(const std::vector<T>& v) {
    const uint64_t a = memory.allocate(v.size() * sizeof(T));
    std::memcpy(memory.host(a), v.data(), v.size() * sizeof(T));
    return a;
  }
  template <class T>
  std::vector<T> download(uint64_t a, size_t count) const {
    std::vector<T> v(count);
    std::memcpy(v.data(), memory.host(a), count * sizeof(T));
    return v;
  }
  // Parameters in order; maps first, so that they are aligned.
  void map(const TensorMap& m) {
    const auto bytes = m.encode();
    params.insert(params.end(), bytes.begin(), bytes.end());
  }
  void param(uint64_t v) {
    const auto* b = reinterpret_cast<const std::byte*>(&v);
    params.insert(params.end(), b, b + 8);
  }
  LaunchResult run(uint64_t seed = 0) {
    schedule.seed = seed;
    config.params = params;
    const Function* entry = nullptr;
    for (const Function& f : module->functions)
      if (f.entry) entry = &f;
    const DeviceModel* device = device_model(module->target == "sm_100a" ? "b200" : "h200");
    return launch(*module, *entry, config, *device, memory, schedule, watcher);
  }
};

// A module around a kernel's body. Registers: %p<8>, %r<300>, %rd<40>, %h<8>; `parameters` in PTX syntax.
inline std::string module_text(const std::string& target, const std::string& parameters,
                               const std::string& body) {
  return ".version 9.0\n.target " + target + "\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n" +
         ".visible .entry k(" + parameters +
         ")\n{\n.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<300>; .reg .b64 %rd<40>;\n" + body +
         "\nret;\n}\n";
}

// One thread waits for a phase of the mbarrier at shared + offset (register %rN holds the address).
inline std::string wait(const std::string& address, int parity) {
  static int label = 0;
  const std::string l = "W" + std::to_string(label++);
  return l + ": mbarrier.try_wait.parity.shared::cta.b64 %p7, [" + address + "], " + std::to_string(parity) +
         ";\n@!%p7 bra " + l + ";\n";
}

}  // namespace fp4lab::emu::test
