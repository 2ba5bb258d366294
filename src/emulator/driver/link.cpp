// The linker for PTX: the result is one PTX text, which the calls that load modules accept.
#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "emulator/driver/jit_options.h"
#include "emulator/driver/state.h"

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

struct CUlinkState_st {
  JitOptions options;
  std::vector<PtxText> texts;
  std::string whole;
  Handle<CUlinkState_st> handle = this;

  CUresult refuse(CUresult code, const std::string& why) const {
    options.write(why);
    return explain(code, why);
  }
};

CUresult cuLinkCreate(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  if (CUresult r = ready()) return r;
  if (!out || (count && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
  *out = new CUlinkState_st{{count, options, values}, {}, {}};
  (*out)->options.write("");
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState link, CUjitInputType type, void* data, size_t bytes, const char* name,
                       unsigned, CUjit_option*, void**) {
  if (CUresult r = ready_anywhere()) return r;
  if (!exists(link)) return CUDA_ERROR_INVALID_HANDLE;
  if (!data || !bytes || type < 0 || type >= CU_JIT_NUM_INPUT_TYPES) return CUDA_ERROR_INVALID_VALUE;
  const std::string shown = name && *name ? name : fmt::format("input {}", link->texts.size() + 1);
  if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY)
    return link->refuse(
        CUDA_ERROR_NOT_SUPPORTED,
        fmt::format("cuLinkAddData({}): the emulator runs PTX, not machine code or libraries of it", shown));
  Image image = read_image(data, bytes);
  if (image.ptx.empty())
    return link->refuse(image.code, fmt::format("cuLinkAddData({}): {}", shown, image.reason));
  link->texts.push_back({shown, std::move(image.ptx)});
  return CUDA_SUCCESS;
}

CUresult cuLinkAddFile(CUlinkState link, CUjitInputType type, const char* path, unsigned count,
                       CUjit_option* options, void** values) {
  if (CUresult r = ready_anywhere()) return r;
  if (!exists(link)) return CUDA_ERROR_INVALID_HANDLE;
  if (!path || !*path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return cuLinkAddData(link, type, text.data(), text.size() + 1, path, count, options, values);
}

// Texts that do not fit together are an invalid source (seen on an H200 with driver 580).
CUresult cuLinkComplete(CUlinkState link, void** image, size_t* bytes) {
  if (CUresult r = ready_anywhere()) return r;
  if (!exists(link)) return CUDA_ERROR_INVALID_HANDLE;
  if (!image || link->texts.empty()) return CUDA_ERROR_INVALID_VALUE;
  Image whole = linked(link->texts);
  if (whole.ptx.empty()) return link->refuse(CUDA_ERROR_INVALID_SOURCE, "cuLinkComplete: " + whole.reason);
  try {
    parse(whole.ptx, "linked", Compilation::as_written);  // checks that all symbols are defined
  } catch (const std::exception& e) {
    return link->refuse(CUDA_ERROR_INVALID_SOURCE, fmt::format("cuLinkComplete: {}", e.what()));
  }
  link->whole = std::move(whole.ptx);
  *image = link->whole.data();
  if (bytes) *bytes = link->whole.size() + 1;
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState link) {
  if (CUresult r = ready_anywhere()) return r;
  if (!exists(link)) return CUDA_ERROR_INVALID_HANDLE;
  delete link;
  return CUDA_SUCCESS;
}
