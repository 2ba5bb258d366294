// Measuring on a GPU: contenders (kernels of the lab, libraries) compute a case on several sets of inputs,
// are verified, timed and verified again, and every result becomes a record at once.
//
//   const InputSets sets(device, c, distribution, 1, 4);
//   const Timer timer(device, {});
//   const Measurement m = measure(timer, nvml, sets, contender);
//   file.add(record_of(m));
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fp4lab/compare.h"
#include "fp4lab/cublas_lt.h"
#include "fp4lab/device_problem.h"
#include "fp4lab/nvml.h"
#include "fp4lab/problem.h"
#include "fp4lab/rung.h"
#include "fp4lab/timing.h"

namespace fp4lab {

/// How near an output is to the exact result.
struct OutputCheck {
  Comparison comparison;    // all sets and groups together
  double relative_rms = 0;  // |got - want| / |want|, both as vectors
};

/// A case with several sets of numbers (seeds first, first + 1, ...), each with its exact result and its
/// place in device memory.
class InputSets {
 public:
  InputSets(const Device& device, const Case& c, Distribution distribution, std::uint64_t seed, int count);

  const Case& spec() const { return sets_.front()->problem.spec; }
  Distribution distribution() const { return sets_.front()->problem.distribution; }
  std::uint64_t seed() const { return sets_.front()->problem.seed; }
  size_t size() const { return sets_.size(); }
  const Problem& problem(size_t set) const { return sets_.at(set)->problem; }
  const DeviceProblem& on_device(size_t set) const { return sets_.at(set)->on_device; }
  /// Exact sums, rounded once to fp16: one matrix per group, row-major.
  const std::vector<std::vector<std::uint16_t>>& want(size_t set) const { return sets_.at(set)->want; }

  /// Fills every output so that what is not written shows.
  void poison() const;
  /// Reads every output back and compares. With `slack` an element beyond the tolerance is allowed what fp32
  /// accumulation may cost it (see accumulation_bound).
  OutputCheck check(bool slack = true) const;
  /// Writes all sets as raw files for programs that are not ours: FOLDER/problem.json says names, shapes and
  /// layouts.
  void write(const std::string& folder) const;

 private:
  struct Set {
    Problem problem;
    std::vector<std::vector<std::uint16_t>> want;
    DeviceProblem on_device;
  };
  std::vector<std::unique_ptr<Set>> sets_;
};

/// Something that computes the case. `enqueue` holds whatever it needs (modules, buffers, graphs).
struct Contender {
  std::string kernel;     // "v15_top", "cublas-fp16"
  bool peer = false;      // a library that kernels are compared with
  std::string how;        // the plan; of a library: what was chosen
  std::string launch;     // "stream", "graph"
  bool must_pass = true;  // beyond the tolerance it is an error; otherwise the error is stated
  std::string remark;     // what a reader must know: "e4m3 is not NVFP4"
  Timer::Enqueue enqueue;
  // What is done to weights once, beforehand, and is not part of a call: repacking. Empty: nothing.
  std::string weight_step;
  Timer::Enqueue prepare_weights;
  std::size_t weight_bytes = 0;  // of one set's weights in the kernel's own order
};

struct Measurement {
  std::string case_name, kernel, how, launch, remark;
  bool peer = false;
  Distribution distribution{};
  std::uint64_t seed = 0;
  size_t sets = 0;
  double flops = 0, bytes = 0;  // of the case in NVFP4: every input and output byte once
  OutputCheck before, after;
  bool passed = false;  // within the tolerance, before and after
  Timing timing;
  GpuSpan gpu;
  std::string weight_step;  // and its own time, beside the timing
  double weight_us = 0;
  std::size_t weight_bytes = 0;
  std::vector<std::pair<std::string, double>> variants;  // what else was tried, us
  std::string error;                                     // why there is no time; empty when there is one
};

/// Verifies, times and verifies again, on every set. Wrong output is not timed: it, and whatever the
/// contender throws, is in Measurement::error.
Measurement measure(const Timer& timer, const Nvml& nvml, const InputSets& sets, const Contender& contender);

/// The contender as a graph of each set's call: one launch however many kernels a call consists of.
Contender as_graph(const Timer& timer, size_t sets, const Contender& contender);

/// Times each briefly, those that compute the right output only, and gives the fastest. `tried`: all of them
/// with their times (NaN: wrong or failed). Throws when none is right, with the first one's trouble.
Contender fastest(const Timer& timer, const InputSets& sets, std::vector<Contender> contenders,
                  std::vector<std::pair<std::string, double>>& tried);

/// A kernel of the lab: compiled, and prepared for every set, weights in its own order included.
Contender kernel_contender(const Timer& timer, const InputSets& sets, const Candidate& candidate);

enum class LaunchChoice { kBest, kStream, kGraph };
/// Measures it as it is launched or as a graph, or as whichever is faster (both times are then in variants).
/// Whatever goes wrong is in Measurement::error.
Measurement measure_kernel(const Timer& timer, const Nvml& nvml, const InputSets& sets,
                           const Candidate& candidate, LaunchChoice choice);

/// cuBLAS on operands that were expanded beforehand: fp16 (exact) or e4m3 (not NVFP4: its error is stated).
/// One product per group, on as many branches as is fastest; the dual GEMM as one product with both weight
/// matrices or two, then silu(x) y in a kernel of ours; each from a stream and as a graph. The fastest
/// variant that is right is the peer. Where one that keeps the sums in fp16 is not within the tolerance, it
/// follows as a second contender.
std::vector<Contender> cublas_contenders(const Timer& timer, const std::shared_ptr<CublasLt>& lt,
                                         const InputSets& sets, GemmType input,
                                         std::vector<std::pair<std::string, double>>& tried);

/// A ceiling of the device, measured.
struct Limit {
  std::string name;  // "tensor" in FLOP/s, "bytes" in B/s
  std::string how;
  double per_second = 0;
  Timing timing;
  GpuSpan gpu;
};
/// The best of a few large fp16 products, each with cuBLAS's best algorithm for it, fp32 accumulation, on
/// random numbers, timed as cases are: in short bursts, at the clocks that those meet.
Limit tensor_limit(const Timer& timer, const Nvml& nvml, const std::shared_ptr<CublasLt>& lt);
/// A large device-to-device copy; bytes read and written both count.
Limit byte_limit(const Timer& timer, const Nvml& nvml, size_t bytes = size_t(2) << 30);

/// Where, when and with what a run happened. "unknown (...)" where something cannot be told.
nlohmann::json session_record(const Device& device, const Nvml& nvml, const TimingOptions& options,
                              const std::string& command_line);
/// What a measurement came to: launch, sets, flops, bytes, passed, error, us (a spread), samples_us, gpu,
/// checks, weights, variants. A record of `sweep` has them beside its run's; record_of adds what was
/// measured.
nlohmann::json time_fields(const Measurement& m);
nlohmann::json record_of(const Measurement& m);
nlohmann::json record_of(const Limit& limit);
nlohmann::json record_of(const GpuSpan& span);  // clocks, power, temperature; null without readings

}  // namespace fp4lab
