#include "jit/toolkit.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "fp4lab/error.h"
#include "fp4lab/jit.h"

namespace fp4lab::jit {
namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

namespace {

std::error_code ignored;

bool is_root(const fs::path& folder) {
  return fs::is_directory(folder / "ptx", ignored) && fs::is_directory(folder / "include/fp4lab", ignored);
}

fs::path find_root() {
  if (const std::string asked = environment("FP4LAB_ROOT"); !asked.empty()) {
    if (!is_root(asked)) fail("FP4LAB_ROOT={}: no ptx/ and include/fp4lab/ there", asked);
    return fs::canonical(asked);
  }
  const fs::path starts[] = {fs::read_symlink("/proc/self/exe", ignored).parent_path(),
                             fs::current_path(ignored)};
  for (const fs::path& start : starts)
    for (fs::path folder = start; !folder.empty(); folder = folder.parent_path()) {
      if (is_root(folder)) return folder;
      if (folder == folder.root_path()) break;
    }
  fail("no project folder (one with ptx/ and include/fp4lab/) above {} or {}; set FP4LAB_ROOT",
       starts[0].string(), starts[1].string());
}

// NVRTC opens libnvrtc-builtins.so.<version> by its bare name when it compiles. In a folder that the loader
// does not search it would not find it; once it is open, the loader gives the open one.
void open_builtins(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so."))
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Folders of toolkits, best first. A .toolchain copy exists only where set-up found no good toolkit, so it
// goes before the usual place.
std::vector<fs::path> toolkit_folders() {
  std::vector<fs::path> homes;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = environment(name); !home.empty()) homes.push_back(home);
  try {
    homes.push_back(project_root() / ".toolchain/cuda");
  } catch (const Error&) {  // an installed program may have no project around it
  }
  homes.push_back("/usr/local/cuda");
  return homes;
}

// A toolkit keeps its libraries in lib64 or targets/, a Python wheel in lib.
constexpr const char* kLibraryFolders[] = {"lib64", "lib", "targets/x86_64-linux/lib", ""};
constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

struct Search {
  std::vector<std::string> looked_at;
  std::shared_ptr<Nvrtc> found;

  // An absolute path is opened when it is there; a bare name goes through the loader.
  bool try_library(const std::string& path, const fs::path& home) {
    if (path.find('/') != path.npos && !fs::exists(path, ignored)) return false;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      looked_at.push_back(dlerror());
      return false;
    }
    auto library = std::make_shared<Nvrtc>();
    bool complete = true;
    const auto fill = [&](auto& member, const char* name) {
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(handle, name));
      if (!member) complete = false;
    };
    fill(library->version, "nvrtcVersion");
    fill(library->error_string, "nvrtcGetErrorString");
    fill(library->create_program, "nvrtcCreateProgram");
    fill(library->destroy_program, "nvrtcDestroyProgram");
    fill(library->compile_program, "nvrtcCompileProgram");
    fill(library->log_size, "nvrtcGetProgramLogSize");
    fill(library->log, "nvrtcGetProgramLog");
    fill(library->ptx_size, "nvrtcGetPTXSize");
    fill(library->ptx, "nvrtcGetPTX");
    fill(library->cubin_size, "nvrtcGetCUBINSize");
    fill(library->cubin, "nvrtcGetCUBIN");
    if (!complete || library->version(&library->major, &library->minor) != NVRTC_SUCCESS) {
      looked_at.push_back(fmt::format("{}: not a usable NVRTC", path));
      return false;
    }
    if (library->major * 100 + library->minor < 1209) {
      looked_at.push_back(
          fmt::format("{}: NVRTC {}.{}, 12.9 or newer is needed", path, library->major, library->minor));
      return false;
    }
    link_map* map = nullptr;
    const fs::path file = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map
                              ? fs::canonical(map->l_name, ignored)
                              : fs::path(path);
    library->library = file.string();
    open_builtins(file.parent_path());
    library->identity = fmt::format("NVRTC {}.{} ({}, {} bytes)", library->major, library->minor,
                                    file.filename().string(), fs::file_size(file, ignored));
    for (const fs::path& include :
         {home / "include", file.parent_path().parent_path() / "include", fs::path("/usr/include")})
      if (fs::exists(include / "cuda_fp16.h", ignored)) {
        library->include = include;
        break;
      }
    found = library;
    return true;
  }

  bool try_folder(const fs::path& home) {
    looked_at.push_back(home.string());
    for (const char* folder : kLibraryFolders)
      for (const char* name : kNames)
        if (try_library((home / folder / name).lexically_normal().string(), home)) return true;
    return false;
  }
};

std::shared_ptr<const Nvrtc> find_nvrtc(const std::string& asked) {
  Search search;
  if (!asked.empty()) {
    if (fs::is_directory(asked, ignored)) {
      if (search.try_folder(asked)) return search.found;
    } else {
      search.looked_at.push_back(asked);
      if (search.try_library(fs::absolute(asked).string(), fs::path(asked).parent_path().parent_path()))
        return search.found;
    }
    fail("no usable NVRTC at FP4LAB_NVRTC={}; looked at\n  {}", asked, fmt::join(search.looked_at, "\n  "));
  }
  for (const fs::path& home : toolkit_folders())
    if (search.try_folder(home)) return search.found;
  for (const char* name : kNames)
    if (search.try_library(name, {})) return search.found;
  fail("no NVRTC; looked at\n  {}\n  run `make setup`, or set CUDA_HOME to a CUDA toolkit (12.9 or newer)",
       fmt::join(search.looked_at, "\n  "));
}

}  // namespace

const fs::path& project_root() {
  static const fs::path root = find_root();
  return root;
}

std::shared_ptr<const Nvrtc> nvrtc() {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Nvrtc>>
      loaded;  // by FP4LAB_NVRTC; failures are not kept
  std::lock_guard lock(mutex);
  const std::string asked = environment("FP4LAB_NVRTC");
  auto& slot = loaded[asked];
  if (!slot) slot = find_nvrtc(asked);
  return slot;
}

std::string nvrtc_identity() {
  const auto library = nvrtc();
  return fmt::format("{}, {}", library->identity, library->library);
}

fs::path tool_path(const std::string& name) {
  for (const fs::path& home : toolkit_folders())
    if (fs::exists(home / "bin" / name, ignored)) return home / "bin" / name;
  std::istringstream path(environment("PATH"));
  for (std::string folder; std::getline(path, folder, ':');)
    if (!folder.empty() && access((fs::path(folder) / name).c_str(), X_OK) == 0)
      return fs::path(folder) / name;
  return {};
}

}  // namespace fp4lab::jit
