// libFuzzer target for the PTX front end. See the Makefile's `fuzz`.
#include "emulator/ptx/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, unsigned long size) {
  try {
    fp4lab::emu::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  } catch (const fp4lab::emu::PtxError&) {
  }
  return 0;
}
