// The linker, as far as programs use it to compile PTX: what is "linked" from one text of PTX is that text,
// which the calls that load modules take. Several pieces are not put together.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

struct CUlinkState_st {
  std::string ptx;
};

// Options say how to compile and where a log goes: there is no compiler here.
CUresult cuLinkCreate(unsigned, CUjit_option*, void**, CUlinkState* out) {
  if (CUresult r = ready()) return r;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = new CUlinkState_st;
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState link, CUjitInputType type, void* data, size_t bytes, const char* name,
                       unsigned, CUjit_option*, void**) {
  if (CUresult r = ready()) return r;
  if (!link || !data || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY)
    return explain(
        CUDA_ERROR_NOT_SUPPORTED,
        fmt::format("cuLinkAddData({}): the emulator runs PTX, not machine code or libraries of it",
                    name ? name : ""));
  if (!link->ptx.empty())
    return explain(CUDA_ERROR_NOT_SUPPORTED,
                   fmt::format("cuLinkAddData({}): several texts are not linked to one", name ? name : ""));
  const Image image = read_image(data, bytes);
  if (image.ptx.empty()) return explain(CUDA_ERROR_INVALID_IMAGE, "cuLinkAddData: " + image.reason);
  link->ptx = image.ptx;
  return CUDA_SUCCESS;
}

CUresult cuLinkAddFile(CUlinkState link, CUjitInputType type, const char* path, unsigned count,
                       CUjit_option* options, void** values) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return cuLinkAddData(link, type, text.data(), text.size() + 1, path, count, options, values);
}

CUresult cuLinkComplete(CUlinkState link, void** image, size_t* bytes) {
  if (!link || !image || link->ptx.empty()) return CUDA_ERROR_INVALID_VALUE;
  *image = link->ptx.data();
  if (bytes) *bytes = link->ptx.size() + 1;
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState link) {
  delete link;
  return CUDA_SUCCESS;
}
