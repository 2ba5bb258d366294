// Where things are: the project, and the parts of a CUDA toolkit that are used at run time.
#pragma once

#include <nvrtc.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace fp4lab::jit {

std::string environment(const char* name);  // empty when unset

// NVRTC, opened at run time. nvrtc.h gives the types; nothing links the library.
struct Nvrtc {
  std::string library;  // path it was loaded from
  int major = 0, minor = 0;
  std::string identity;  // version, file name and size: two patch releases of one version differ in it
  std::filesystem::path include;  // the toolkit's headers

  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetErrorString) error_string;
  decltype(&nvrtcCreateProgram) create_program;
  decltype(&nvrtcDestroyProgram) destroy_program;
  decltype(&nvrtcCompileProgram) compile_program;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetPTXSize) ptx_size;
  decltype(&nvrtcGetPTX) ptx;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
};

// Looks in FP4LAB_NVRTC (a library or a folder, and then nowhere else), CUDA_HOME, CUDA_PATH,
// <project>/.toolchain/cuda, /usr/local/cuda and the loader's path. NVRTC before 12.9 is passed over. Throws
// with every place looked at.
std::shared_ptr<const Nvrtc> nvrtc();

}  // namespace fp4lab::jit
