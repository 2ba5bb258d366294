// Programs in files, which somebody else wrote or the reduction of one that differs left:
//
//   // threads 64 ctas 2 out 8192 in 4096 shared 0
//   .version 9.0 ... .visible .entry k(.param .u64 out, .param .u64 in) ...
//
// The first line has the launch, `out` and `in` in bytes. Beside x.ptx may lie x.in, the input (otherwise
// half random bits, half special values of every width), and x.out, what a GPU made of it.
#pragma once

#include <filesystem>
#include <optional>

#include "program.h"

namespace fp4lab::conformance {

// Throws fp4lab::Error with the path where the first line is none.
Program read_given(const std::filesystem::path&);
std::optional<std::vector<std::byte>> given_result(const std::filesystem::path&);

// Writes stem.ptx, stem.in and stem.out as they are read. False if that could not be done.
bool write_given(const std::filesystem::path& stem, const Program&, const std::vector<std::byte>& result);

}  // namespace fp4lab::conformance
