// Error texts, and entry points by name.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>

#include "emulator/driver/state.h"

using namespace fp4lab::emu::driver;

namespace {

struct Text {
  CUresult code;
  const char *name, *text;
};
#define TEXT(code, text) \
  { code, #code, text }
constexpr Text kTexts[] = {
    TEXT(CUDA_SUCCESS, "no error"),
    TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    TEXT(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    TEXT(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    TEXT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    TEXT(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    TEXT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    TEXT(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    TEXT(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    TEXT(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    TEXT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    TEXT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    TEXT(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    TEXT(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    TEXT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
         "part or all of the requested memory range is already mapped"),
    TEXT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    TEXT(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    TEXT(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    TEXT(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    TEXT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    TEXT(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    TEXT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    TEXT(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size"),
    TEXT(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef TEXT

const Text* find(CUresult code) {
  for (const Text& t : kTexts)
    if (t.code == code) return &t;
  return nullptr;
}

// The newest exported version of an entry point: cuMemAlloc -> cuMemAlloc_v2.
void* exported(const std::string& name) {
  Dl_info self;
  if (!dladdr(reinterpret_cast<void*>(&exported), &self)) return nullptr;
  static void* library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (!library) return nullptr;
  for (const char* suffix : {"_v4", "_v3", "_v2", ""})
    if (void* p = dlsym(library, (name + suffix).c_str())) return p;
  return nullptr;
}

}  // namespace

CUresult cuGetErrorName(CUresult code, const char** name) {
  const Text* t = find(code);
  *name = t ? t->name : nullptr;
  return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  const Text* t = find(code);
  *text = t ? t->text : nullptr;
  return t ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#undef cuGetProcAddress
extern "C" CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t,
                                                CUdriverProcAddressQueryResult* status) {
  *function = exported(name);
  if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
extern "C" CUresult CUDAAPI cuGetProcAddress(const char* name, void** function, int version,
                                             cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
