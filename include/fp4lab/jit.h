// Kernel text in, artifacts out: NVRTC at run time, with a cache that cannot lie.
//
//   auto artifact = jit::compile({.source = "ptx/sm100/group_gemm/v0_baseline.cu", .arch = "sm_100a",
//                                 .defines = {"FP4LAB_PLAN={.stages=5}"}});
//   Module module = load(device, *artifact);
//
// The cache's key is the XXH3-128 of the kernel's text, every project header that it includes (transitively),
// the options and NVRTC's identity. An entry is a folder that holds source, options, log, PTX, cubin,
// report.json and the checksums of them all (the format of xxh128sum, so `xxh128sum -c checksums` verifies
// it). It is built in a temporary folder and renamed into place: readers see all of it or nothing, and an
// entry that does not match its checksums is built again. Place: FP4LAB_CACHE, else $XDG_CACHE_HOME/fp4lab,
// else ~/.cache/fp4lab.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fp4lab {
class Device;
class Module;
}  // namespace fp4lab

namespace fp4lab::jit {

struct Job {
  std::filesystem::path source;        ///< a relative path is taken from the project's root
  std::string arch = "sm_100a";        ///< or sm_90a, ...
  std::vector<std::string> defines{};  ///< "NAME" or "NAME=VALUE", no -D
  std::vector<std::string> options{};  ///< further NVRTC options, after the standard ones
};

/// What ptxas said about one kernel; -1 where it said nothing.
struct KernelReport {
  std::string name;
  int registers = -1;     ///< per thread
  int shared_bytes = -1;  ///< static shared memory per CTA
  int barriers = -1;      ///< named barriers
  int stack_frame = -1;   ///< bytes per thread
  int spill_stores = -1;  ///< bytes per thread
  int spill_loads = -1;   ///< bytes per thread
};

struct Artifact {
  std::string name;                   ///< "sm100/group_gemm/v0_baseline", from the path below ptx/
  std::filesystem::path source_path;  ///< absolute
  std::string arch;
  std::string key;                      ///< 32 hexadecimal digits; empty for a loaded PTX file
  std::vector<std::string> options;     ///< all of them, as given to NVRTC
  std::string compiler;                 ///< "NVRTC 13.0 (libnvrtc.so.13.0.88)"
  std::string source, log, ptx, cubin;  ///< cubin may be empty for a loaded PTX file
  std::vector<KernelReport> kernels;
  std::filesystem::path folder;  ///< the cache entry; empty when it could not be kept
  bool from_cache = false;
  double seconds = 0;  ///< what this call took

  /// Throws with the names there are.
  const KernelReport& kernel(std::string_view name) const;
};
using ArtifactPtr = std::shared_ptr<const Artifact>;

enum class CacheUse { kNormal, kRebuild, kOff };  // kRebuild: compile and replace the entry

/// Compiles or fetches. Throws Error with NVRTC's log and the source path when the text does not compile, and
/// with every place looked at when there is no NVRTC. A cache that cannot be read or written costs a warning
/// on stderr, nothing else. Safe from many threads and processes at once; one process compiles the same key
/// once.
ArtifactPtr compile(const Job& job, CacheUse use = CacheUse::kNormal);

struct Outcome {
  ArtifactPtr artifact;  ///< null when it failed
  std::string error;     ///< then this says why
};
/// Called after each job, never two at a time: jobs done, jobs in all, index of the job, its outcome.
using Progress = std::function<void(size_t done, size_t total, size_t index, const Outcome&)>;
/// Compiles all, with `threads` at once (0: one per core), in the order given. A failed job does not stop the
/// others.
std::vector<Outcome> compile_all(std::span<const Job> jobs, unsigned threads = 0,
                                 const Progress& progress = {});

/// The kernel's file and every project header that it includes, transitively. Throws when one cannot be read.
std::vector<std::filesystem::path> source_files(const Job& job);
/// The key that compile() would use. Throws when a file cannot be read.
std::string cache_key(const Job& job);
/// Folder of the cache (it need not exist); empty when neither FP4LAB_CACHE, XDG_CACHE_HOME nor HOME is set.
std::filesystem::path cache_folder();

/// An edited PTX file as an artifact. Assembles it with ptxas when there is one, so that its errors show here
/// with their lines and the report is filled; without ptxas the cubin stays empty and the driver assembles at
/// load. Throws when the file cannot be read, is empty or is not PTX.
ArtifactPtr load_ptx(const std::filesystem::path& file);

/// Kernels of a ptxas -v report, in its order.
std::vector<KernelReport> parse_ptxas_report(std::string_view log);
/// Names of the .entry functions of PTX text, in order.
std::vector<std::string> ptx_entries(std::string_view ptx);

/// The folder that holds ptx/ and include/fp4lab: FP4LAB_ROOT, else the nearest one above the executable,
/// else above the working folder. Throws when there is none.
const std::filesystem::path& project_root();
/// Version text and path of the NVRTC in use, loading it if need be. Throws when there is none.
std::string nvrtc_identity();
/// "ptxas", "nvdisasm": of the toolkit, else of PATH; empty when there is none.
std::filesystem::path tool_path(const std::string& name);
/// A cubin as nvdisasm prints it, with the source line of each instruction, lines of callers included. Fails
/// where there is no nvdisasm, with where to get it.
std::string disassemble(const std::string& cubin);

}  // namespace fp4lab::jit

namespace fp4lab {
/// Loads an artifact: its PTX on the emulator, its cubin on hardware (its PTX where there is no cubin).
Module load(const Device& device, const jit::Artifact& artifact);
}  // namespace fp4lab
