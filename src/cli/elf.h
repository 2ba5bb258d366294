// What can be told of a program from its ELF file without running it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fp4lab::cli {

struct ElfSummary {
  bool is_elf = false;
  std::vector<std::string> needed;  // DT_NEEDED: the shared libraries it is linked with
  bool has_rpath = false;           // DT_RPATH, which beats LD_LIBRARY_PATH
  bool has_device_code = false;     // a section .nv_fatbin, where nvcc puts the program's own kernels
};

// A file that is not a 64-bit little-endian ELF, or is a broken one, has is_elf = false.
ElfSummary summarize_elf(const std::filesystem::path&);

}  // namespace fp4lab::cli
