// Error names and texts.
#include "runtime/runtime.h"

namespace {

struct Text {
  cudaError_t code;
  const char *name, *text;
};
constexpr Text kTexts[] = {
#define ERROR(code, text) {code, #code, text},
#include "runtime/errors.def"
#undef ERROR
};
constexpr char kUnrecognized[] = "unrecognized error code";

}  // namespace

const char* cudaGetErrorName(cudaError_t code) {
  for (const Text& t : kTexts)
    if (t.code == code) return t.name;
  return kUnrecognized;
}

const char* cudaGetErrorString(cudaError_t code) {
  for (const Text& t : kTexts)
    if (t.code == code) return t.text;
  return kUnrecognized;
}
