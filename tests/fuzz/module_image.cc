// libFuzzer target for what module loads are given: fatbins and PTX text. See the Makefile's `fuzz`.
#include "emulator/driver/state.h"
#include "load.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fp4lab::emu::driver::state().device = fp4lab::emu::device_model("b200");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, unsigned long size) {
  if (size < 4) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (static_cast<unsigned char>(bytes[0]) == 0xb1) bytes[0] = 'P';  // a wrapper is a pointer: trusted
  const auto image = fp4lab::emu::driver::read_image(bytes.data(), bytes.size());
  if (image.ptx.empty() == image.reason.empty()) __builtin_trap();
  if (!image.ptx.empty()) parse_and_load(image.ptx);
  return 0;
}
