// cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col with the real driver's rules. A refusal prints the
// offending value and the rule to stderr.
#include "emulator/engine/tensor_map.h"

#include <fmt/format.h>

#include "emulator/driver/state.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  if (CUresult r = ready_anywhere()) return r;
  const TensorMapArguments arguments{type,       rank,    address,   dims, strides, element_strides,
                                     interleave, swizzle, promotion, fill};
  const std::string why = encode_tiled(map, arguments, box, state().device->major);
  return why.empty() ? CUDA_SUCCESS : explain(CUDA_ERROR_INVALID_VALUE, "cuTensorMapEncodeTiled: " + why);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dims, const cuuint64_t* strides, const int* lower,
                                 const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                 const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill) {
  if (CUresult r = ready_anywhere()) return r;
  const TensorMapArguments arguments{type,       rank,    address,   dims, strides, element_strides,
                                     interleave, swizzle, promotion, fill};
  const std::string why =
      encode_im2col(map, arguments, lower, upper, channels, pixels, state().device->major);
  return why.empty() ? CUDA_SUCCESS : explain(CUDA_ERROR_INVALID_VALUE, "cuTensorMapEncodeIm2col: " + why);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  if (CUresult r = ready_anywhere()) return r;
  const std::string why = replace_address(map, address);
  return why.empty() ? CUDA_SUCCESS : explain(CUDA_ERROR_INVALID_VALUE, "cuTensorMapReplaceAddress: " + why);
}
