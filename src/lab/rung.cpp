#include "fp4lab/rung.h"

#include <algorithm>

#include "fp4lab/error.h"
#include "fp4lab/jit.h"
#include "fp4lab/sm100.h"
#include "fp4lab/sm90.h"
#include "fp4lab/suggest.h"

namespace fp4lab {
namespace {

constexpr std::string_view kArchitectures[] = {sm100::kArch, sm90::kArch};

std::string_view op_name(Op op) { return op == Op::kGroup ? "group" : "dual"; }

// A kernel file whose row was forgotten.
std::string without_row(const Rung& sibling, std::string_view name) {
  const std::filesystem::path file = sibling.file();
  std::error_code none;
  for (const auto& each :
       std::filesystem::directory_iterator(jit::project_root() / file.parent_path(), none)) {
    const std::string stem = each.path().stem().string();
    if (stem == name || stem.substr(0, stem.find('_')) == name)
      return fmt::format("\n  {} is there, but has no row in src/lab/{}/rungs.cpp",
                         (file.parent_path() / each.path().filename()).string(),
                         file.parent_path().parent_path().filename().string());
  }
  return {};
}

const sm100::Rung& blackwell(const Rung& rung) { return static_cast<const sm100::Rung&>(rung); }

// f(plan) of the family that the candidate is of.
template <class F>
auto with_plan(const Candidate& candidate, F f) {
  const bool is_sm90 = std::holds_alternative<sm90::Plan>(candidate.plan);
  if (is_sm90 != (candidate.rung->arch == sm90::kArch))
    fail("{} is for {}, its plan is not", candidate.rung->name, candidate.rung->arch);
  return std::visit(f, candidate.plan);
}

}  // namespace

std::string Rung::file() const {
  // ptx/sm90, ptx/sm100: the architecture without its underscore and suffix
  return fmt::format("ptx/sm{}/{}_gemm/{}.cu", arch.substr(3, arch.size() - 4), op_name(op), name);
}
std::string Rung::entry() const { return fmt::format("{}_gemm_{}", op_name(op), name); }

std::span<const std::string_view> architectures() { return kArchitectures; }

std::vector<const Rung*> rungs() {
  std::vector<const Rung*> all;
  for (const Rung& rung : sm100::rungs()) all.push_back(&rung);
  for (const Rung& rung : sm90::rungs()) all.push_back(&rung);
  return all;
}

std::vector<const Rung*> rungs(std::string_view arch, Op op) {
  std::vector<const Rung*> some = rungs();
  std::erase_if(some, [&](const Rung* rung) { return rung->arch != arch || rung->op != op; });
  return some;
}

const Rung& find_rung(std::string_view arch, Op op, std::string_view name) {
  const std::vector<const Rung*> some = rungs(arch, op);
  if (some.empty()) fail("there are no {} GEMM kernels for {}", op_name(op), arch);
  if (name == "default") name = "top";
  std::vector<std::string> names;
  for (const Rung* rung : some) {
    if (rung->name == name || rung->alias == name || rung->name.substr(0, rung->name.find('_')) == name)
      return *rung;
    names.emplace_back(rung->name);
  }
  fail("no {} GEMM kernel for {} is called '{}'{}{}\n  there are: {}", op_name(op), arch, name,
       did_you_mean(name, names), without_row(*some.front(), name), fmt::join(names, " "));
}

Op op_of(Operation operation) { return operation == Operation::kDual ? Op::kDual : Op::kGroup; }

std::span<const KnobInfo> knob_table(std::string_view arch) {
  return arch == sm90::kArch ? sm90::knob_table() : knob_table();
}

Device open_for_kernels(std::string_view name, std::string_view arch) {
  if (!arch.empty() && std::ranges::find(kArchitectures, arch) == std::end(kArchitectures))
    fail("no kernels for '{}'; there are kernels for {}", arch, fmt::join(kArchitectures, " and "));
  if (!arch.empty()) return Device::open(name, arch);
  if (name != "emulator")
    for (const std::string_view each : kArchitectures)
      if (gpu_available(each)) return Device::open(name, each);
  return Device::open(name, kArchitectures[0]);
}

std::string_view arch_of(const Device& device) {
  for (const std::string_view arch : kArchitectures)
    if (device.runs(arch)) return arch;
  fail("{}: no kernels for compute capability {}.{}; there are kernels for sm_100a and sm_90a", device.name(),
       device.compute_major(), device.compute_minor());
}

namespace {

// Names that the architecture's plans have, each once.
void check_knobs(std::string_view arch, const std::vector<std::string>& knobs) {
  std::vector<std::string> names, set;
  for (const KnobInfo& knob : knob_table(arch)) names.emplace_back(knob.name);
  for (const std::string& knob : knobs) {
    const std::string name = knob.substr(0, knob.find('='));
    if (name.size() == knob.size()) fail("'{}' is not of the form knob=value", knob);
    if (std::ranges::find(set, name) != set.end())
      fail("knob {} is set twice: {}", name, fmt::join(knobs, ", "));
    set.push_back(name);
    if (std::ranges::find(names, name) != names.end()) continue;
    for (const std::string_view other : kArchitectures)
      for (const KnobInfo& theirs : knob_table(other))
        if (theirs.name == name)
          fail("'{}' is a knob of the {} kernels (--arch {}), not of those for {}", name, other, other, arch);
    fail("no knob of the {} kernels is called '{}'{}\n  knobs are: {}", arch, name, did_you_mean(name, names),
         fmt::join(names, " "));
  }
}

}  // namespace

Candidate candidate_for(const Rung& rung, const Case& c, const std::vector<std::string>& knobs) {
  check_knobs(rung.arch, knobs);
  if (rung.arch == sm90::kArch) return {&rung, sm90::plan_for(rung, c, knobs), {}};
  return {&rung, sm100::plan_for(blackwell(rung), c, knobs), {}};
}

Candidate candidate_of_line(const Rung& rung, const Case& c, const std::string& line) {
  std::vector<std::string> knobs;
  size_t at = 0;
  while (at < line.size()) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    at = end + 1;
    int m = 0, n = 0, k = 0;
    if (std::sscanf(word.c_str(), "%dx%dx%d", &m, &n, &k) == 3)
      for (const std::string& knob :
           {fmt::format("mma_m={}", m), fmt::format("mma_n={}", n), fmt::format("block_k={}", k)})
        knobs.push_back(knob);
    else if (!word.empty())
      knobs.push_back(word);
  }
  if (rung.arch == sm90::kArch) return candidate_for(rung, c, knobs);
  // A line leaves knobs out that have their default: start from the defaults, not from the rung's plan.
  Plan plan;
  for (const std::string& knob : knobs) set_knob(plan, knob);
  return {&rung, plan, {}};
}

std::string plan_line(const Candidate& candidate) {
  return with_plan(candidate, [](const auto& plan) { return plan_line(plan); });
}

std::vector<std::pair<std::string, std::string>> knob_values(const Candidate& candidate) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const KnobInfo& knob : knob_table(candidate.rung->arch))
    all.emplace_back(knob.name,
                     with_plan(candidate, [&](const auto& plan) { return knob_value(plan, knob.name); }));
  return all;
}

namespace {
std::vector<Reason> reasons(const Rung& rung, const Plan& plan, const Case& c) {
  return sm100::reasons(blackwell(rung), plan, c);
}
std::vector<std::string> compile_options(const Plan& plan) { return sm100::compile_options(plan); }
std::vector<std::string> compile_options(const sm90::Plan& plan) { return plan.defines(); }
Placement placement(const Plan& plan, const Case& c, int sms) { return sm100::placement(plan, c, sms); }
std::unique_ptr<Launch> prepare(const Device& device, const Plan& plan, const DeviceProblem& problem,
                                const Module& module, const std::string& entry) {
  return sm100::prepare(device, plan, problem, module, entry);
}

// The rung's entry; a file of one's own may call it otherwise, if it is the only one.
std::string entry_in(const Module& module, const Candidate& candidate) {
  const std::string usual = candidate.rung->entry();
  if (candidate.ptx.empty() && candidate.source.empty()) return usual;
  std::vector<std::string> names = module.kernels();
  if (names.empty() || std::ranges::find(names, usual) != names.end()) return usual;
  std::erase(names, sm90::kRepackEntry);
  if (names.size() == 1) return names[0];
  fail("{}: which kernel to launch? It must be called {} or be the only one; there {}",
       kernel_name(candidate), usual,
       names.empty() ? "is none" : fmt::format("are {}", fmt::join(names, ", ")));
}
}  // namespace

std::vector<Reason> reasons(const Candidate& candidate, const Case& c) {
  return with_plan(candidate, [&](const auto& plan) { return reasons(*candidate.rung, plan, c); });
}

void require_legal(const Candidate& candidate, const Case& c) {
  const std::vector<Reason> all = reasons(candidate, c);
  if (all.empty()) return;
  std::string text;
  for (const Reason& reason : all) text += fmt::format("\n  {}: {}", reason.rule, reason.text);
  fail("{} cannot run {} with plan {}:{}", candidate.rung->name, c.name, plan_line(candidate), text);
}

jit::Job job_of(const Candidate& candidate) {
  return {
      .source = candidate.source.empty() ? std::filesystem::path(candidate.rung->file()) : candidate.source,
      .arch = std::string(candidate.rung->arch),
      .options = with_plan(candidate, [](const auto& plan) { return compile_options(plan); })};
}

jit::ArtifactPtr artifact_of(const Candidate& candidate) {
  return candidate.ptx.empty() ? jit::compile(job_of(candidate)) : jit::load_ptx(candidate.ptx);
}

Placement placement(const Candidate& candidate, const Case& c, int sms) {
  return with_plan(candidate, [&](const auto& plan) { return placement(plan, c, sms); });
}

std::unique_ptr<Launch> prepare(const Device& device, const Candidate& candidate,
                                const DeviceProblem& problem, const Module& module) {
  require_legal(candidate, problem.spec());
  const std::string entry = entry_in(module, candidate);
  return with_plan(candidate,
                   [&](const auto& plan) { return prepare(device, plan, problem, module, entry); });
}

}  // namespace fp4lab
