#include "fp4lab/jit.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "../message.h"

using namespace fp4lab;
namespace fs = std::filesystem;

namespace {

// A folder of its own with a kernel and a header, and a cache in it.
struct Playground {
  fs::path folder;
  std::string old_cache;
  Playground() {
    std::string name = (fs::temp_directory_path() / "fp4lab-jit-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    folder = name;
    write("factor.h", "#pragma once\n#include \"deeper.h\"\n#define FACTOR (2.0f + DEEPER)\n");
    write("deeper.h", "#define DEEPER 0.0f\n");
    write("tiny.cu",
          "#include \"factor.h\"\n"
          "extern \"C\" __global__ void scale(float* x, int n) {\n"
          "  __shared__ float s[256];\n"
          "  s[threadIdx.x] = x[threadIdx.x] * FACTOR;\n"
          "  __syncthreads();\n"
          "  x[threadIdx.x] = s[(threadIdx.x + n) & 255];\n"
          "}\n");
    set_cache((folder / "cache").string());
  }
  ~Playground() {
    unsetenv("FP4LAB_CACHE");
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  void set_cache(const std::string& path) { setenv("FP4LAB_CACHE", path.c_str(), 1); }
  void write(const char* name, const std::string& text) { std::ofstream(folder / name) << text; }
  jit::Job job(const char* name = "tiny.cu") const { return {.source = folder / name}; }
};

}  // namespace

TEST_CASE("jit: a kernel becomes PTX with line information, a cubin and a report") {
  Playground play;
  for (const char* arch : {"sm_100a", "sm_90a"}) {
    jit::Job job = play.job();
    job.arch = arch;
    const auto artifact = jit::compile(job);
    CHECK_FALSE(artifact->from_cache);
    CHECK(has(artifact->ptx, std::string(".target ") + arch));
    CHECK(has(artifact->ptx, ".loc"));
    CHECK(has(artifact->ptx, "tiny.cu"));
    CHECK(
        artifact->cubin.starts_with("\x7f"
                                    "ELF"));
    CHECK(artifact->name == "tiny");
    const auto& report = artifact->kernel("scale");
    CHECK(report.registers > 0);
    CHECK(report.registers <= 255);
    CHECK(report.shared_bytes == 1024);
    CHECK(report.barriers == 1);
    CHECK(report.stack_frame == 0);
    CHECK(report.spill_stores == 0);
    CHECK(report.spill_loads == 0);
    CHECK(has(message_of([&] { artifact->kernel("absent"); }), "there are: scale"));
  }
}

TEST_CASE("jit: the second compilation is a cache hit with the same bytes") {
  Playground play;
  const auto first = jit::compile(play.job());
  const auto second = jit::compile(play.job());
  CHECK(second->from_cache);
  CHECK(second->folder == first->folder);
  CHECK(second->ptx == first->ptx);
  CHECK(second->cubin == first->cubin);
  CHECK(second->log == first->log);
  CHECK(second->kernel("scale").registers == first->kernel("scale").registers);
  for (const char* name :
       {"kernel.cu", "options", "log", "kernel.ptx", "kernel.cubin", "report.json", "checksums"})
    CHECK_MESSAGE(fs::exists(first->folder / name), name);
  CHECK_FALSE(jit::compile(play.job(), jit::CacheUse::kRebuild)->from_cache);
  CHECK_FALSE(jit::compile(play.job(), jit::CacheUse::kOff)->from_cache);
}

TEST_CASE("jit: the key follows text, headers of headers, defines and architecture") {
  Playground play;
  const std::string key = jit::cache_key(play.job());
  CHECK(key.size() == 32);
  CHECK(jit::cache_key(play.job()) == key);
  jit::Job job = play.job();
  job.defines = {"DEEPER=1"};
  CHECK(jit::cache_key(job) != key);
  job = play.job();
  job.arch = "sm_90a";
  CHECK(jit::cache_key(job) != key);
  play.write("deeper.h", "#define DEEPER 1.0f\n");  // reached through factor.h only
  CHECK(jit::cache_key(play.job()) != key);
  play.write("deeper.h", "#define DEEPER 0.0f\n");
  CHECK(jit::cache_key(play.job()) == key);
}

TEST_CASE("jit: an include that text does not tell is refused") {
  Playground play;
  play.write("computed.cu", "#define FILE \"factor.h\"\n#include FILE\n");
  const std::string text = message_of([&] { jit::cache_key(play.job("computed.cu")); });
  CHECK(has(text, "computed.cu:2:"));
  CHECK(has(text, "#include FILE"));
}

TEST_CASE("jit: a compile error shows the source path and NVRTC's log") {
  Playground play;
  play.write("wrong.cu", "extern \"C\" __global__ void k(float* x) {\n  x[0] = undeclared_thing;\n}\n");
  const std::string text = message_of([&] { jit::compile(play.job("wrong.cu")); });
  CHECK(has(text, (play.folder / "wrong.cu").string() + " does not compile for sm_100a"));
  CHECK(has(text, "wrong.cu(2): error"));
  CHECK(has(text, "undeclared_thing"));
  CHECK_FALSE(fs::exists(play.folder / "cache"));
  CHECK(has(message_of([&] { jit::compile(play.job("absent.cu")); }), "absent.cu: No such file"));
}

TEST_CASE("jit: a damaged cache entry is found out and built again") {
  Playground play;
  const auto first = jit::compile(play.job());
  const auto damage = [&](const char* name, const std::function<void(const fs::path&)>& how) {
    how(first->folder / name);
    const auto again = jit::compile(play.job());
    CHECK_FALSE_MESSAGE(again->from_cache, name);
    CHECK(again->ptx == first->ptx);
    CHECK_MESSAGE(jit::compile(play.job())->from_cache, name);
  };
  damage("kernel.cubin", [](const fs::path& p) { fs::resize_file(p, fs::file_size(p) / 2); });
  damage("kernel.ptx", [](const fs::path& p) { std::fstream(p, std::ios::in | std::ios::out).put('#'); });
  damage("report.json", [](const fs::path& p) { fs::resize_file(p, 0); });
  damage("checksums", [](const fs::path& p) { fs::resize_file(p, 40); });
  damage("log", [](const fs::path& p) { fs::remove(p); });
}

TEST_CASE("jit: a cache that cannot be written costs nothing but the cache") {
  Playground play;
  play.write("file", "");
  for (const std::string& place :
       {(play.folder / "file/cache").string(), std::string("/proc/fp4lab-cache")}) {
    play.set_cache(place);
    const auto artifact = jit::compile(play.job());
    CHECK(artifact->cubin.size() > 0);
    CHECK(artifact->folder.empty());
  }
}

TEST_CASE("jit: threads that want the same kernel get the same bytes, and no temporary folder stays") {
  Playground play;
  jit::ArtifactPtr artifacts[4];
  {
    std::vector<std::jthread> threads;
    for (auto& artifact : artifacts)
      threads.emplace_back([&] {
        try {
          artifact = jit::compile(play.job());
        } catch (const Error& error) {
          fmt::print(stderr, "{}\n", error.what());
        }
      });
  }
  int compiled = 0;
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE(artifacts[i]);
    CHECK(artifacts[i]->ptx == artifacts[0]->ptx);
    bool first = true;
    for (size_t j = 0; j < i; ++j) first = first && artifacts[j] != artifacts[i];
    if (first && !artifacts[i]->from_cache) ++compiled;
  }
  CHECK(compiled == 1);
  for (const auto& entry : fs::recursive_directory_iterator(play.folder / "cache"))
    CHECK_FALSE(entry.path().filename().string().starts_with(".tmp-"));
}

TEST_CASE("jit: compile_all keeps the order, goes on after a failure and tells its progress") {
  Playground play;
  play.write("wrong.cu", "this is no kernel\n");
  std::vector<jit::Job> jobs(4, play.job());
  for (int i = 0; i < 4; ++i) jobs[i].defines = {"VARIANT=" + std::to_string(i)};
  jobs[2].source = play.folder / "wrong.cu";
  std::vector<size_t> done;
  const auto outcomes = jit::compile_all(jobs, 2, [&](size_t n, size_t total, size_t, const jit::Outcome&) {
    CHECK(total == 4);
    done.push_back(n);
  });
  CHECK(done == std::vector<size_t>{1, 2, 3, 4});
  for (size_t i : {0, 1, 3}) {
    REQUIRE(outcomes[i].artifact);
    CHECK(has(outcomes[i].artifact->options.back(), "VARIANT=" + std::to_string(i)));
  }
  CHECK_FALSE(outcomes[2].artifact);
  CHECK(has(outcomes[2].error, "wrong.cu does not compile"));
  CHECK_THROWS_AS(
      jit::compile_all(jobs, 2, [](size_t, size_t, size_t, const jit::Outcome&) { fail("stop"); }), Error);
}

TEST_CASE("jit: no NVRTC is an error with every place looked at") {
  Playground play;
  fs::create_directories(play.folder / "empty");
  setenv("FP4LAB_NVRTC", (play.folder / "empty").c_str(), 1);
  const std::string empty = message_of([] { jit::nvrtc_identity(); });
  setenv("FP4LAB_NVRTC", (play.folder / "absent.so").c_str(), 1);
  const std::string absent = message_of([] { jit::nvrtc_identity(); });
  unsetenv("FP4LAB_NVRTC");
  CHECK(has(empty, "no usable NVRTC"));
  CHECK(has(empty, (play.folder / "empty").string()));
  CHECK(has(absent, "absent.so"));
  CHECK(has(jit::nvrtc_identity(), "NVRTC 1"));
}

TEST_CASE("jit: a PTX file is assembled, and what is not PTX is refused by name") {
  Playground play;
  const auto compiled = jit::compile(play.job());
  play.write("edited.ptx", compiled->ptx);
  const auto artifact = jit::load_ptx(play.folder / "edited.ptx");
  CHECK(artifact->arch == "sm_100a");
  CHECK(artifact->ptx == compiled->ptx);
  REQUIRE(artifact->kernels.size() == 1);
  CHECK(artifact->kernels[0].name == "scale");
  if (!jit::tool_path("ptxas").empty()) {
    CHECK(
        artifact->cubin.starts_with("\x7f"
                                    "ELF"));
    CHECK(artifact->kernels[0].shared_bytes == 1024);
    play.write("wrong.ptx",
               ".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() { frobnicate.u32; }\n");
    CHECK(has(message_of([&] { jit::load_ptx(play.folder / "wrong.ptx"); }), "frobnicate"));
  }
  play.write("empty.ptx", " \n");
  play.write("text.ptx", "hello\n");
  CHECK(has(message_of([&] { jit::load_ptx(play.folder / "empty.ptx"); }), "empty.ptx is empty"));
  CHECK(has(message_of([&] { jit::load_ptx(play.folder / "text.ptx"); }), "text.ptx is not PTX"));
  CHECK(has(message_of([&] { jit::load_ptx(play.folder / "absent.ptx"); }), "absent.ptx: No such file"));
  CHECK(has(message_of([&] { jit::load_ptx(play.folder); }), "is a folder"));
}

TEST_CASE("jit: the ptxas report is read whole") {
  const auto kernels = jit::parse_ptxas_report(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'big' for 'sm_100a'\n"
      "ptxas info    : Function properties for helper\n"
      "ptxas         .     64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Function properties for big\n"
      "ptxas         .     256 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 3 barriers, 256 bytes cumulative stack size, 4112 bytes "
      "smem\n"
      "ptxas info    : Compiling entry function 'small' for 'sm_100a'\n"
      "ptxas info    : Function properties for small\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n");
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].name == "big");
  CHECK(kernels[0].registers == 168);
  CHECK(kernels[0].barriers == 3);
  CHECK(kernels[0].shared_bytes == 4112);
  CHECK(kernels[0].stack_frame == 256);
  CHECK(kernels[0].spill_stores == 12);
  CHECK(kernels[0].spill_loads == 16);
  CHECK(kernels[1].registers == 8);
  CHECK(kernels[1].shared_bytes == 0);
  CHECK(kernels[1].barriers == 0);
}
