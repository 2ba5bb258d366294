// libFuzzer target for the PTX front end; not part of the build. From the repository's root, after `make`:
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc tests/fuzz/ptx_parse.cc \
//     $(find src/emulator -name '*.cpp' -not -path '*/driver/*') build/libfp4lab.a -lfmt -lpthread -o
//     build/ptx_fuzz
//   build/ptx_fuzz -max_len=20000 tests/emulator/data
#include "emulator/ptx/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, unsigned long size) {
  try {
    fp4lab::emu::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  } catch (const fp4lab::emu::PtxError&) {
  }
  return 0;
}
