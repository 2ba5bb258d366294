// Error names and texts.
#include "emulator/driver/state.h"

namespace {

struct Text {
  CUresult code;
  const char *name, *text;
};
constexpr Text kTexts[] = {
#define ERROR(code, text) {code, #code, text},
#include "emulator/driver/errors.def"
#undef ERROR
};

const Text* find(CUresult code) {
  for (const Text& t : kTexts)
    if (t.code == code) return &t;
  return nullptr;
}

}  // namespace

CUresult cuGetErrorName(CUresult code, const char** name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  const Text* t = find(code);
  *name = t ? t->name : nullptr;
  return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  const Text* t = find(code);
  *text = t ? t->text : nullptr;
  return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
