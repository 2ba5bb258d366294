// Kernels of every architecture behind one interface: a rung (a kernel file), a candidate (a rung with a plan
// for a case), and a launch that is ready to be repeated.
//
//   Device device = open_for_kernels("auto", "");                  // or "sm_100a", "sm_90a"
//   const Rung& rung = find_rung(arch_of(device), Op::kGroup, "top");
//   Candidate candidate = candidate_for(rung, c, {"cluster=1"});
//   require_legal(candidate, c);
//   Module module = load(device, *jit::compile(job_of(candidate)));
//   auto launch = prepare(device, candidate, device_problem, module);
//   launch->run(stream);
//
// What an architecture's kernels have of their own is in sm100.h and sm90.h.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fp4lab/device.h"
#include "fp4lab/device_problem.h"
#include "fp4lab/jit.h"
#include "fp4lab/legality.h"
#include "fp4lab/plan.h"
#include "fp4lab/plan_text.h"
#include "fp4lab/problem.h"
#include "fp4lab/sm90/plan.h"

namespace fp4lab {

// A kernel file. Adding one is the file and a row in its architecture's table (src/lab/*/rungs.cpp).
struct Rung {
  std::string_view arch;  // "sm_100a", "sm_90a": also the folder, ptx/sm100 and ptx/sm90
  Op op;
  std::string_view name;        // also the file's stem: "v2_warp_specialized"
  std::string_view parent;      // the rung it changes; empty for the first
  std::string_view idea;        // the one change, in a line
  std::string_view knobs;       // what may vary beside the operation's sizes
  std::string_view alias = {};  // another name: the rung that is run by default is also called "top"

  std::string file() const;   // "ptx/sm100/group_gemm/v2_warp_specialized.cu"
  std::string entry() const;  // "group_gemm_v2_warp_specialized"
};

// The architectures that have kernels, the emulator's default first.
std::span<const std::string_view> architectures();
// Rungs of all architectures and operations, each ladder from the bottom up.
std::vector<const Rung*> rungs();
std::vector<const Rung*> rungs(std::string_view arch, Op op);
// By full name, by the part before '_' ("v2") or by its alias; "default" is "top". Fails with the list of
// names.
const Rung& find_rung(std::string_view arch, Op op, std::string_view name);
Op op_of(Operation operation);  // a plain GEMM is a group GEMM of one group
// The knobs of an architecture's plans.
std::span<const KnobInfo> knob_table(std::string_view arch);

// Opens cuda, emulator or auto (see Device::open) for one of the architectures; without one, for the first of
// them that a GPU here runs, and on the emulator for sm_100a.
Device open_for_kernels(std::string_view name, std::string_view arch);
// The architecture whose kernels the device runs. Fails when there are none for it.
std::string_view arch_of(const Device& device);

// A rung with its plan for a case: the plan is of the rung's architecture.
struct Candidate {
  const Rung* rung;
  std::variant<Plan, sm90::Plan> plan;
  std::filesystem::path ptx;  // an edited PTX file to run in the kernel's place; empty for the compiled one
  std::filesystem::path source = {};  // a kernel file in the rung's place, absolute; empty: the rung's own
};
// The rung's plan for the case with these knobs ("stages=4") in place of its own. A knob that follows another
// one follows it here too, unless it is named: scale buffers in TMEM go with the stages. Fails on a knob or
// value that there is not, and on a knob that is set twice; a plan that is not legal is returned, for its
// reasons.
Candidate candidate_for(const Rung& rung, const Case& c, const std::vector<std::string>& knobs);
// The rung that a kernel file or PTX from anywhere is to run like, with its plan, limits and launch: the one
// that its entry (group_gemm_v2_warp_specialized) or its whole name is; else the one that the start of its
// name (v2_mine.cu) and its head (Parent: v2_warp_specialized) name. Fails where there is none, and where
// there are several, with who says what.
const Rung& rung_like(std::string_view arch, Op op, const std::filesystem::path& file);
// A PTX file with the plan that its last line names (see kPtxPlanMark), whatever knobs that takes; without
// such a line with the rung's own plan for the case.
Candidate candidate_of_ptx(const Rung& like, const Case& c, const std::filesystem::path& ptx);
// What tables and records call it: the rung's name, or that of the file that runs in its place ("my.cu").
std::string kernel_name(const Candidate& candidate);
// Of the file that runs in the rung's place, with all project headers that it includes: 16 hexadecimal
// digits, equal for equal texts wherever they lie; empty for a rung as it is. Fails where one cannot be read.
std::string text_hash(const Candidate& candidate);
// One line for logs, tables and records; equal for equal kernels.
std::string plan_line(const Candidate& candidate);
// The candidate whose plan_line() this is. Fails on a knob or value that there is not.
Candidate candidate_of_line(const Rung& rung, const Case& c, const std::string& line);
// Every knob of the plan with its value, in the order of its architecture's table.
std::vector<std::pair<std::string, std::string>> knob_values(const Candidate& candidate);
// Everything that forbids this plan for its rung and case: rules of the machine, of the rung, of the sizes.
std::vector<Reason> reasons(const Candidate& candidate, const Case& c);
// The same as an error.
void require_legal(const Candidate& candidate, const Case& c);
// What turns the rung's file into this plan's kernel (meaningless when the candidate brings its own PTX).
jit::Job job_of(const Candidate& candidate);
// The kernel, compiled; or the candidate's own PTX, loaded.
jit::ArtifactPtr artifact_of(const Candidate& candidate);

// Begins the last line of a PTX file, which says which plan it was compiled for ("fp4lab ptx" writes it).
inline constexpr std::string_view kPtxPlanMark = "// fp4lab plan: ";
// The plan that PTX text says it was compiled for; empty where it says none.
std::string plan_marked(std::string_view ptx);

// Who computes what, in numbers.
struct Placement {
  int tiles = 0;            // of all groups, parts of K counted
  int ctas = 0;             // launched
  int threads = 0;          // of a CTA
  int cluster = 1;          // CTAs
  int sms = 0;              // of the machine
  double waves = 0;         // tiles per concurrent CTA (cluster)
  double busy = 0;          // share of the SMs that get any tile
  double rows_used = 0;     // share of the multiplied rows x columns that are C: the rest is padding
  int stages = 0;           // of the ring of loads
  int shared_bytes = 0;     // of a CTA
  int bytes_in_flight = 0;  // shared memory that loads may be filling, per CTA
};
Placement placement(const Candidate& candidate, const Case& c, int sms);

// A kernel that is ready to compute its problem again and again: arguments, tensor maps and workspace stay as
// they are. It keeps its module alive, but not the DeviceProblem, whose buffers it reads and writes. One run
// at a time: runs of one Launch share its workspace, so they follow each other in one stream (or a graph).
class Launch {
 public:
  virtual ~Launch() = default;
  Launch() = default;
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Enqueues one run on `stream` (null: the default stream) and waits for nothing: from the operands as they
  // lie in the DeviceProblem then, everything done to activations included, to C. May be captured in a graph.
  virtual void run(CUstream stream) const = 0;
  void run() const { run(nullptr); }

  // The one step that is not part of run(): weights into the kernel's own order. prepare() has done it once;
  // it is needed again when the weights have changed, or to be timed. A kernel that reads weights as they are
  // has no such step: the name is empty, the call does nothing.
  virtual std::string_view weight_step() const { return {}; }  // "repack_weights"
  virtual void prepare_weights(CUstream) const {}
  virtual std::size_t weight_bytes() const { return 0; }  // of the weights in that order

  virtual unsigned grid() const = 0;                  // CTAs, of all its launches together
  virtual std::size_t launches() const { return 1; }  // of kernels in a run
};
// `module` is of job_of(candidate) or of the candidate's own PTX. Fails with the reasons when the plan is not
// legal for the problem, and when the device is too small for it. Work on the weights may still be under way
// on the default stream.
std::unique_ptr<Launch> prepare(const Device& device, const Candidate& candidate,
                                const DeviceProblem& problem, const Module& module);

}  // namespace fp4lab
