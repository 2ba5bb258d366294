// The block format is described in doc/lz4_Block_format.md of github.com/lz4/lz4: sequences of a token,
// literals and a match that copies from what was already written.
#include "emulator/driver/lz4.h"

#include <cstdint>

namespace fp4lab::emu::driver {

std::string unlz4(std::span<const std::byte> block, size_t bytes) {
  std::string out;
  size_t at = 0;
  const auto next = [&](uint32_t& value) {
    if (at == block.size()) return false;
    value = std::to_integer<uint32_t>(block[at++]);
    return true;
  };
  // A length of 15 continues in bytes that are added, up to and including the first that is not 255.
  const auto length = [&](size_t& n) {
    for (uint32_t more = 255; n >= 15 && more == 255; n += more)
      if (!next(more)) return false;
    return true;
  };
  out.reserve(bytes);
  for (uint32_t token; next(token);) {
    size_t literals = token >> 4;
    if (!length(literals) || literals > block.size() - at || literals > bytes - out.size()) return {};
    out.append(reinterpret_cast<const char*>(block.data()) + at, literals);
    at += literals;
    if (at == block.size())
      return out.size() == bytes ? out : std::string();  // the last sequence has no match
    uint32_t low, high;
    if (!next(low) || !next(high)) return {};
    const size_t offset = low | high << 8;
    size_t match = token & 15;
    if (!length(match)) return {};
    match += 4;
    if (!offset || offset > out.size() || match > bytes - out.size()) return {};
    for (size_t from = out.size() - offset; match; --match) out += out[from++];  // may overlap itself
  }
  return {};
}

}  // namespace fp4lab::emu::driver
