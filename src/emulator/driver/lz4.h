// LZ4 blocks, which nvcc -compress-mode=speed and every nvcc before 12.4 write into a fatbin.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace fp4lab::emu::driver {

// The decompressed block of `bytes` bytes; empty if the data is not a block of that size.
std::string unlz4(std::span<const std::byte> block, size_t bytes);

}  // namespace fp4lab::emu::driver
