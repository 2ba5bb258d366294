// libFuzzer target for the PTX front end. See the Makefile's `fuzz`.
#include "load.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, unsigned long size) {
  parse_and_load(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
