// The two libraries export the same as the toolkit's: every name with its symbol version, and the same texts.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "../command.h"
#include "../skip.h"

namespace {

namespace fs = std::filesystem;

fs::path ours(const char* name) {
  return fs::read_symlink("/proc/self/exe").parent_path() / "emulator" / name;
}

// The toolkit's library used by the build; empty if there is none.
fs::path theirs(const char* name) {
  const char* home = std::getenv("CUDA_HOME");
  for (const char* folder : {"lib64", "lib64/stubs", "lib", "lib/stubs"})
    if (const fs::path file = fs::path(home && *home ? home : "/usr/local/cuda") / folder / name;
        fs::exists(file))
      return file;
  return {};
}

std::set<std::string> names(const fs::path& library) {
  const Outcome o = run_command(fmt::format("nm -D --defined-only '{}'", library.string()));
  REQUIRE(o.status == 0);
  std::set<std::string> found;
  std::istringstream lines(o.text);
  for (std::string line; std::getline(lines, line);) found.insert(line.substr(line.rfind(' ') + 1));
  return found;
}

void check_all_there(const std::set<std::string>& wanted, const std::set<std::string>& have) {
  CHECK(wanted.size() > 300);
  for (const std::string& name : wanted) CHECK_MESSAGE(have.contains(name), name, " is not exported");
}

}  // namespace

TEST_CASE("runtime library: exports the toolkit's names, with their symbol versions") {
  if (!fs::exists(ours("libcudart.so.13"))) FP4LAB_SKIP("no runtime library was built");
  const fs::path real = theirs("libcudart.so.13");
  if (real.empty()) FP4LAB_SKIP("no libcudart.so.13 in the toolkit");
  const auto wanted = names(real), have = names(ours("libcudart.so.13"));
  CHECK(wanted.contains("cudaMalloc@@libcudart.so.13"));
  check_all_there(wanted, have);
  for (const std::string& name : have)
    CHECK_MESSAGE(wanted.contains(name), name, " is not in the toolkit's library");
}

TEST_CASE("driver library: exports the names of the toolkit's stub") {
  const fs::path real = theirs("libcuda.so");
  if (real.empty()) FP4LAB_SKIP("no stub of libcuda.so in the toolkit");
  check_all_there(names(real), names(ours("libcuda.so.1")));
  CHECK(fs::read_symlink(ours("libcuda.so")) == "libcuda.so.1");  // as some programs name it to dlopen
}

TEST_CASE("runtime library: error names and texts are the toolkit's") {
  const fs::path real = theirs("libcudart.so.13");
  if (real.empty() || !fs::exists(ours("libcudart.so.13"))) FP4LAB_SKIP("no libcudart.so.13 to compare with");
  void *a = dlopen(real.c_str(), RTLD_NOW | RTLD_LOCAL),
       *b = dlopen(ours("libcudart.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(a, dlerror());
  REQUIRE_MESSAGE(b, dlerror());
  for (const char* function : {"cudaGetErrorName", "cudaGetErrorString"}) {
    const auto real_text = reinterpret_cast<decltype(&cudaGetErrorName)>(dlsym(a, function)),
               our_text = reinterpret_cast<decltype(&cudaGetErrorName)>(dlsym(b, function));
    for (int code = 0; code <= 1100; ++code)
      CHECK(std::string(real_text(cudaError_t(code))) == our_text(cudaError_t(code)));
  }
}
