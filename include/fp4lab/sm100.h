// The Blackwell kernels: the ladder of rungs, the plan each rung takes for a case, and launching one.
//
//   const Rung& rung = sm100::find_rung(Op::kGroup, "v2");
//   Plan plan = sm100::default_plan(rung, problem.spec);
//   Module module(device, ptx_text, "v2");              // compiled with sm100::compile_options(plan)
//   sm100::Launch launch = sm100::prepare(device, rung, plan, device_problem, module);
//   launch.run();
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fp4lab/device.h"
#include "fp4lab/device_problem.h"
#include "fp4lab/legality.h"
#include "fp4lab/plan.h"
#include "fp4lab/plan_text.h"
#include "fp4lab/problem.h"

namespace fp4lab::sm100 {

// Adding a rung is its file and one row of this table (rungs.cpp).
struct Rung {
  Op op;
  std::string_view name;                              // also the file's stem: "v2_warp_specialized"
  std::string_view parent;                            // the rung it changes; empty for the first
  std::string_view idea;                              // the one change, in a line
  std::string_view knobs;                             // what may vary beside the operation's sizes
  Plan (*plan)(const Case&);                          // a good plan for this case
  void (*limits)(const Plan&, std::vector<Reason>&);  // what the file's static assertions demand

  std::string file() const;   // "ptx/sm100/group_gemm/v2_warp_specialized.cu"
  std::string entry() const;  // "group_gemm_v2_warp_specialized"
};
std::span<const Rung> rungs();
// By full name or by the part before '_' ("v2"); "top" is the operation's last rung. Fails with the list of
// names.
const Rung& find_rung(Op op, std::string_view name);

constexpr std::string_view kArch = "sm_100a";
Op op_of(Operation operation);  // a plain GEMM is a group GEMM of one group

// The rung's plan for this case, complete: operation and group capacity included.
Plan default_plan(const Rung& rung, const Case& c);
// Everything that forbids this plan for this rung and case: rules of the machine, of the rung, of the sizes.
std::vector<Reason> reasons(const Rung& rung, const Plan& plan, const Case& c);
// The same as an error.
void require_legal(const Rung& rung, const Plan& plan, const Case& c);

// Options that turn the rung's file into this plan's kernel (architecture and include paths are the JIT's).
std::vector<std::string> compile_options(const Plan& plan);

// Who computes what, in numbers.
struct Work {
  int tiles = 0;            // of all groups, split-K parts counted
  int ctas = 0;             // launched
  int sms = 0;              // of the machine
  double waves = 0;         // tiles per concurrent CTA (pair)
  double busy = 0;          // share of the SMs that get any tile
  double rows_used = 0;     // share of the multiplied rows x columns that are C: the rest is padding
  int bytes_in_flight = 0;  // shared memory that loads may be filling, per CTA
};
Work work_of(const Plan& plan, const Case& c, int sms);

// A launch that is ready to be repeated: arguments, maps and workspace stay as they are. Depending on the
// plan it is one launch or one per group.
class Launch {
 public:
  // Enqueues one run on `stream`; what follows there waits for all of it. Nothing is waited for here.
  void run(CUstream stream = nullptr) const;
  const Kernel& kernel() const { return kernel_; }
  unsigned grid() const;  // CTAs, of all launches together
  std::size_t launches() const { return parts_.size(); }

 private:
  friend Launch prepare(const Device&, const Rung&, const Plan&, const DeviceProblem&, const Module&);
  struct Part {
    LaunchConfig config;
    std::vector<std::byte> args;
    DeviceBuffer workspace;
    std::vector<Stream> stream;  // one when the part has a stream of its own
    std::vector<Event> done;
  };
  explicit Launch(Kernel kernel) : kernel_(std::move(kernel)) {}
  void fork_and_join(CUstream stream) const;
  Kernel kernel_;
  std::vector<Part> parts_;
  std::vector<Event> start_;  // one when parts have streams
  std::vector<Graph> graph_;  // one when recorded
};
// Encodes tensor maps and arguments. Fails with the reasons when the plan is not legal for the rung and the
// problem.
Launch prepare(const Device& device, const Rung& rung, const Plan& plan, const DeviceProblem& problem,
               const Module& module);

}  // namespace fp4lab::sm100
