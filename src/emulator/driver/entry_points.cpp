// The whole driver API by name. The header with its prototypes is not included: every entry point becomes a
// weak function here that prints its name once and fails, and a definition in another file replaces it. So no
// list of the implemented ones is needed. The build keeps this file out of archives, where a weak definition
// could win.
#include "emulator/driver/entry_points.h"

#include <atomic>
#include <cstdio>

namespace {

int missing(const char* name, std::atomic<bool>& said) {
  constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
  if (!said.exchange(true))
    std::fprintf(stderr, "fp4lab emulator: %s is not emulated; it returns CUDA_ERROR_NOT_SUPPORTED\n", name);
  return kNotSupported;
}

}  // namespace

// Every stream does its work at submission, so the two default streams only differ in capture. The handle is
// passed on unchanged: such a call works on the legacy stream.
#if defined(__x86_64__)
#define JUMP(to) asm("jmp " #to "@PLT")
#else
#define JUMP(to) asm("b " #to)
#endif

extern "C" {
#define ENTRY(base, version, symbol)   \
  __attribute__((weak)) int symbol() { \
    static std::atomic<bool> said;     \
    return missing(#symbol, said);     \
  }
#define PER_THREAD(base, version, symbol, legacy) \
  __attribute__((weak, naked)) void symbol() { JUMP(legacy); }
#include "emulator/driver/entries.def"
#undef ENTRY
#undef PER_THREAD
}

namespace fp4lab::emu::driver {

std::span<const EntryPoint> entry_points() {
  static const EntryPoint table[] = {
#define ENTRY(base, version, symbol) {#base, version, false, reinterpret_cast<void*>(&symbol)},
#define PER_THREAD(base, version, symbol, legacy) {#base, version, true, reinterpret_cast<void*>(&symbol)},
#include "emulator/driver/entries.def"
#undef ENTRY
#undef PER_THREAD
  };
  return table;
}

}  // namespace fp4lab::emu::driver
