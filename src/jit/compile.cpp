#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "fp4lab/error.h"
#include "fp4lab/jit.h"
#include "jit/cache.h"
#include "jit/includes.h"
#include "jit/toolkit.h"

namespace fp4lab::jit {
namespace fs = std::filesystem;
namespace {

// A job with its paths resolved, its options complete and its text read: what the key is made of.
struct Prepared {
  Artifact artifact;
  std::vector<fs::path> folders;  // of project headers
  std::shared_ptr<const Nvrtc> nvrtc;
};

std::string key_of(const Prepared& p, const std::vector<SourceFile>& files) {
  std::string text;
  const auto add = [&](std::string_view part) {  // with its length, so that no two lists read the same
    text += fmt::format("{}\n", part.size());
    text += part;
  };
  add("fp4lab jit 1");
  add(p.nvrtc->identity);
  for (const std::string& option : p.artifact.options) add(option);
  for (const SourceFile& file : files) {
    add(file.path.string());
    add(file.text);
  }
  return hash(text);
}

Prepared prepare(const Job& job) {
  Prepared p;
  p.nvrtc = nvrtc();
  const fs::path& root = project_root();
  Artifact& a = p.artifact;
  a.source_path = (job.source.is_absolute() ? job.source : root / job.source).lexically_normal();
  a.arch = job.arch;
  a.compiler = p.nvrtc->identity;
  fs::path name = a.source_path.lexically_relative(root / "ptx");
  if (name.empty() || *name.begin() == "..") name = a.source_path.filename();
  a.name = name.replace_extension().string();

  p.folders = {root / "ptx", root / "include"};
  a.options = {"--gpu-architecture=" + job.arch,
               "--std=c++20",
               "-lineinfo",           // .loc in the PTX, so that an error can name the line of the kernel
               "--ptxas-options=-v",  // registers, spills and shared memory in the log
               "--no-cache",          // NVRTC's own (12.9 and later) gives no log, so no report
               "-I" + (root / "ptx").string(),
               "-I" + (root / "include").string()};
  for (const std::string& option : job.options)
    for (const char* prefix : {"-I", "--include-path="})
      if (option.starts_with(prefix)) p.folders.push_back(option.substr(std::string_view(prefix).size()));
  if (!p.nvrtc->include.empty()) a.options.push_back("-I" + p.nvrtc->include.string());
  for (const std::string& define : job.defines) a.options.push_back("-D" + define);
  a.options.insert(a.options.end(), job.options.begin(), job.options.end());
  return p;
}

struct Program {
  const Nvrtc& nvrtc;
  nvrtcProgram handle = nullptr;
  ~Program() {
    if (handle) nvrtc.destroy_program(&handle);
  }
  void check(const char* call, nvrtcResult result) const {
    if (result != NVRTC_SUCCESS) fail("{} failed: {} ({})", call, nvrtc.error_string(result), int(result));
  }
  // NVRTC's texts come with their terminating NUL counted; a cubin does not.
  template <class Size, class Get>
  std::string text(const char* call, Size size, Get get, bool ends_in_nul) const {
    size_t bytes = 0;
    check(call, size(handle, &bytes));
    std::string out(bytes, '\0');
    if (bytes) check(call, get(handle, out.data()));
    if (ends_in_nul && !out.empty() && out.back() == '\0') out.pop_back();
    return out;
  }
};

void build(Prepared& p) {
  Artifact& a = p.artifact;
  const Nvrtc& nvrtc = *p.nvrtc;
  Program program{nvrtc};
  program.check("nvrtcCreateProgram", nvrtc.create_program(&program.handle, a.source.c_str(),
                                                           a.source_path.c_str(), 0, nullptr, nullptr));
  std::vector<const char*> options;
  for (const std::string& option : a.options) options.push_back(option.c_str());
  const nvrtcResult result = nvrtc.compile_program(program.handle, int(options.size()), options.data());
  a.log = program.text("nvrtcGetProgramLog", nvrtc.log_size, nvrtc.log, true);
  if (result != NVRTC_SUCCESS)
    fail("{} does not compile for {} with {}: {}\n  options: {}\n{}", a.source_path.string(), a.arch,
         a.compiler, nvrtc.error_string(result), fmt::join(a.options, " "), a.log);
  a.ptx = program.text("nvrtcGetPTX", nvrtc.ptx_size, nvrtc.ptx, true);
  a.cubin = program.text("nvrtcGetCUBIN", nvrtc.cubin_size, nvrtc.cubin, false);
  a.kernels = parse_ptxas_report(a.log);
  if (a.kernels.size() != ptx_entries(a.ptx).size())
    warn_once(fmt::format("{}: the ptxas report names {} kernels, the PTX has {}", a.source_path.string(),
                          a.kernels.size(), ptx_entries(a.ptx).size()));
}

ArtifactPtr make(Prepared p, const std::vector<SourceFile>& files, CacheUse use) {
  Artifact& a = p.artifact;
  std::error_code ignored;
  const bool damaged = use == CacheUse::kNormal && fs::exists(entry_folder(a), ignored);
  if (use == CacheUse::kNormal && fetch(a)) return std::make_shared<Artifact>(std::move(a));
  a.source = files[0].text;
  build(p);
  // NVRTC reads headers from disk after the key was made. When one was edited in between, the key is not of
  // this result.
  if (use != CacheUse::kOff) {
    if (key_of(p, project_files(a.source_path, p.folders)) == a.key)
      keep(a, damaged || use == CacheUse::kRebuild);
    else
      warn_once(fmt::format("{} or a header of it changed during its compilation: not cached",
                            a.source_path.string()));
  }
  return std::make_shared<Artifact>(std::move(a));
}

}  // namespace

const KernelReport& Artifact::kernel(std::string_view wanted) const {
  std::string names;
  for (const KernelReport& k : kernels) {
    if (k.name == wanted) return k;
    names += (names.empty() ? "" : ", ") + k.name;
  }
  fail("{}: no report on a kernel \"{}\"; there are: {}", source_path.string(), wanted,
       names.empty() ? "none" : names);
}

std::vector<fs::path> source_files(const Job& job) {
  const Prepared p = prepare(job);
  std::vector<fs::path> paths;
  for (const SourceFile& file : project_files(p.artifact.source_path, p.folders)) paths.push_back(file.path);
  return paths;
}

std::string cache_key(const Job& job) {
  const Prepared p = prepare(job);
  return key_of(p, project_files(p.artifact.source_path, p.folders));
}

ArtifactPtr compile(const Job& job, CacheUse use) {
  const auto start = std::chrono::steady_clock::now();
  Prepared p = prepare(job);
  const std::vector<SourceFile> files = project_files(p.artifact.source_path, p.folders);
  p.artifact.key = key_of(p, files);

  // Threads that want the same key share one compilation.
  static std::mutex mutex;
  static std::map<std::string, std::shared_future<ArtifactPtr>> running;
  const std::string key = p.artifact.key;
  std::promise<ArtifactPtr> promise;
  {
    std::unique_lock lock(mutex);
    if (auto found = running.find(key); found != running.end()) {
      auto result = found->second;
      lock.unlock();
      return result.get();
    }
    running[key] = promise.get_future().share();
  }
  ArtifactPtr artifact;
  std::exception_ptr error;
  try {
    artifact = make(std::move(p), files, use);
    std::const_pointer_cast<Artifact>(artifact)->seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    promise.set_value(artifact);
  } catch (...) {
    error = std::current_exception();
    promise.set_exception(error);
  }
  std::lock_guard lock(mutex);
  running.erase(key);
  if (error) std::rethrow_exception(error);
  return artifact;
}

std::vector<Outcome> compile_all(std::span<const Job> jobs, unsigned threads, const Progress& progress) {
  std::vector<Outcome> outcomes(jobs.size());
  if (!threads) threads = std::max(1u, std::thread::hardware_concurrency());
  std::mutex mutex;
  size_t next = 0, done = 0;
  std::exception_ptr stopped;  // thrown by the callback: stop, and let the caller have it
  const auto work = [&] {
    for (;;) {
      size_t index;
      {
        std::lock_guard lock(mutex);
        if (stopped || next == jobs.size()) return;
        index = next++;
      }
      Outcome outcome;
      try {
        outcome.artifact = compile(jobs[index]);
      } catch (const std::exception& error) {
        outcome.error = error.what();
      }
      std::lock_guard lock(mutex);
      outcomes[index] = std::move(outcome);
      ++done;
      try {
        if (progress && !stopped) progress(done, jobs.size(), index, outcomes[index]);
      } catch (...) {
        stopped = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (size_t i = 1; i < std::min<size_t>(threads, jobs.size()); ++i) pool.emplace_back(work);
    work();
  }
  if (stopped) std::rethrow_exception(stopped);
  return outcomes;
}

}  // namespace fp4lab::jit
