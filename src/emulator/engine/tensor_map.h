// Tensor maps: what cuTensorMapEncodeTiled makes and cp.async.bulk.tensor reads. The real encoding is secret;
// ours fills the same 128 bytes.
#pragma once

#include <cuda.h>

#include <string>

namespace fp4lab::emu {

// Checks every rule of cuda.h's cuTensorMapEncodeTiled and fills the map. Returns an empty string, or what is
// wrong with which value. `major` is the device's compute capability: some types and swizzles need 10.
std::string encode_tiled(CUtensorMap* map, CUtensorMapDataType type, uint32_t rank, void* address,
                         const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                         const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                         CUtensorMapFloatOOBfill fill, int major);

std::string replace_address(CUtensorMap* map, void* address);

}  // namespace fp4lab::emu
