#include "cli/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"
#include "fp4lab/error.h"
#include "fp4lab/run.h"
#include "fp4lab/suggest.h"
#include "fp4lab/sweep.h"

namespace fp4lab::cli {
namespace {

constexpr const char* kSet = "set a knob of the plan, e.g. stages=4; repeatable";

bool is_operation(const std::string& word) { return word == "group" || word == "dual" || word == "gemm"; }

void require_operation(const std::string& word) {
  if (!is_operation(word))
    fail("no operation '{}'{}\n  there are: group dual gemm", word,
         did_you_mean(word, {"group", "dual", "gemm"}));
}

bool is_shape(const std::string& word) {
  const size_t colon = word.find(':');
  return colon != word.npos && is_operation(word.substr(0, colon));
}

bool is_case(const std::string& word) {
  return is_shape(word) || std::ranges::any_of(cases(), [&](const Case& c) { return c.name == word; });
}

// "g2k1536,group:96,128/256/512": a comma in front of a number belongs to the shape.
std::vector<std::string> split_cases(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    if (!parts.empty() && is_shape(parts.back()) && part.find_first_not_of("0123456789/-") == part.npos)
      parts.back() += "," + part;
    else
      parts.push_back(part);
    at = comma + 1;
  }
  return parts;
}

}  // namespace

Argument add_list(Arguments& app, const std::string& name, std::vector<std::string>& values,
                  const std::string& help) {
  return app.add_option(name, values, help).one_each();
}

void Numbers::declare(Arguments& app) {
  app.add_option("--dist", distribution,
                 "input distribution: task-group, task-dual, full or moderate; default: that of the task");
  app.add_option("--seed", seed, "seed of the input numbers (of the first set, if there are several)")
      .whole_number_from(0)
      .capture_default_str();
}

Distribution Numbers::of(Operation operation) const {
  return distribution.empty() ? task_distribution(operation) : find_distribution(distribution);
}

void Target::declare(Arguments& app) {
  app.add_option("--device", device, "where to run: auto (a GPU if there is one), emulator or cuda")
      .capture_default_str();
  app.add_option("--arch", arch, "sm_100a or sm_90a; default: that of the device, sm_100a on the emulator");
}

void Conditions::declare(Arguments& app) {
  add_list(app, "--set", knobs, kSet);
  app.add_option("--schedules", schedules,
                 "emulator: repeat under N schedules of the asynchronous operations")
      .whole_number_from(1)
      .capture_default_str();
  app.add_flag("--check", check,
               "emulator: also fail on races and missing fences, even where the result is right");
}

void Conditions::prepare(const Device& device) const {
  if (schedules > 1 && !device.is_emulator())
    fail("--schedules {}: only the emulator can choose the schedule; the device is {}", schedules,
         device.name());
  if (check) check_order(device);
}

std::string Conditions::text() const {
  std::string text = check ? "checked" : "";
  if (schedules > 1) text += fmt::format("{}{} schedules", text.empty() ? "" : ", ", schedules);
  return text;
}

std::vector<Case> chosen_cases(const std::vector<std::string>& names, const std::string& operation,
                               const char* command) {
  const bool any = operation == "all";
  if (!any) require_operation(operation);
  std::vector<Case> chosen;
  const auto add = [&](const Case& c) {
    if (std::ranges::none_of(chosen, [&](const Case& other) { return other.name == c.name; }))
      chosen.push_back(c);
  };
  for (const std::string& text : names)
    for (const std::string& name : split_cases(text)) {
      if (name == "all" || name == "correctness") {
        const size_t before = chosen.size();
        for (const Case& c : cases())
          if ((any || operation_name(c.operation) == operation) && c.full_size == (name == "all")) add(c);
        if (chosen.size() == before && names.size() == 1)
          fail("there are no {} cases of {}", name, operation);
        continue;
      }
      const Case c = find_case(name);
      if (!any && operation_name(c.operation) != operation)
        fail("case {} is a {} GEMM, not for '{} {}'", c.name, operation_name(c.operation), command,
             operation);
      add(c);
    }
  return chosen;
}

void KernelFile::declare(Arguments& app, const Argument& kernel) {
  app.add_option("--kernel-file", path,
                 "run this .cu file in place of a rung, e.g. an edited copy of ptx/*/*_gemm/*.cu")
      .not_with(kernel);
  app.add_option("--like", like,
                 "the rung whose plan, limits and launch --kernel-file uses; default: the one named by the "
                 "file's name, entry point or header comment")
      .not_with(kernel);
}

const Rung& KernelFile::rung(std::string_view arch, Op op) const {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) fail("--kernel-file {}: no such file", path);
  if (path.ends_with(".ptx")) fail("--kernel-file {}: this is PTX; use --ptx", path);
  return like.empty() ? rung_like(arch, op, path) : find_rung(arch, op, like);
}

void KernelFile::put_into(Candidate& candidate) const {
  if (given()) candidate.source = std::filesystem::absolute(path);
  if (!given() && !like.empty()) fail("--like {} needs --kernel-file FILE", like);
}

std::vector<const Rung*> chosen_rungs(std::string_view arch, Op op, const std::string& names,
                                      const KernelFile& file) {
  if (file.given()) return {&file.rung(arch, op)};
  if (names == "all") return rungs(arch, op);
  std::vector<const Rung*> chosen;
  for (const std::string& name : parse_axis("--kernel", names).values) {
    const Rung* rung = &find_rung(arch, op, name);
    if (std::ranges::find(chosen, rung) == chosen.end()) chosen.push_back(rung);
  }
  return chosen;
}

void OneKernel::declare(Arguments& app, const char* positional) {
  app.add_option("operation", words, positional);
  app.add_option("--case", case_name,
                 "a case (see 'fp4lab cases') or a shape M/N/K, e.g. group:96,128/256/512");
  const Argument rung =
      app.add_option("--kernel", kernel, "a rung (see 'fp4lab kernels'); default: the top one");
  file.declare(app, rung);
  app.add_option("--arch", arch, "sm_100a or sm_90a").capture_default_str();
  add_list(app, "--set", knobs, kSet);
}

void OneKernel::declare_ptx(Arguments& app) {
  app.add_option("--ptx", ptx, "run this PTX file in place of the compiled kernel").existing_file();
}

namespace {

struct Words {
  std::string operation, case_name, kernel;
};

// What the words are, by what they look like.
Words sorted(const OneKernel& o) {
  Words w{"", o.case_name, o.kernel};
  std::vector<std::string> rest;
  for (const std::string& word : o.words) {
    if (is_operation(word) && w.operation.empty())
      w.operation = word;
    else if (is_case(word) && w.case_name.empty())
      w.case_name = word;
    else
      rest.push_back(word);
  }
  for (const std::string& word : rest) {
    // "KERNEL CASE" with a name that is none: the kernel comes first.
    if (w.kernel.empty() && (rest.size() > 1 || !w.case_name.empty()))
      w.kernel = word;
    else if (w.case_name.empty())
      w.case_name = word;
    else
      fail("'{}': the case is {} and the kernel {} already", word, w.case_name, w.kernel);
  }
  if (w.case_name.empty()) fail("no case given: use --case, e.g. --case g2k1536; 'fp4lab cases' lists them");
  return w;
}

}  // namespace

Case OneKernel::the_case() const {
  const Words w = sorted(*this);
  const Case c = find_case(w.case_name);
  if (!w.operation.empty() && operation_name(c.operation) != w.operation)
    fail("case {} is a {} GEMM, not {}", c.name, operation_name(c.operation), w.operation);
  return c;
}

Candidate OneKernel::choose(const Case& c) const {
  const std::string name = sorted(*this).kernel;
  const Op op = op_of(c.operation);
  if (file.given() && !name.empty())
    fail(
        "both kernel '{}' and --kernel-file {} are given: use one (--like names the rung whose plan the file "
        "uses)",
        name, file.path);
  if (file.given() && !ptx.empty()) fail("--kernel-file {} and --ptx {} exclude each other", file.path, ptx);
  const Rung& rung = file.given()                   ? file.rung(arch, op)
                     : !ptx.empty() && name.empty() ? rung_like(arch, op, ptx)
                                                    : find_rung(arch, op, name.empty() ? "top" : name);
  if (!ptx.empty() && knobs.empty()) return candidate_of_ptx(rung, c, ptx);
  Candidate candidate = candidate_for(rung, c, knobs);
  candidate.ptx = ptx;
  file.put_into(candidate);
  return candidate;
}

}  // namespace fp4lab::cli
