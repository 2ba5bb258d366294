// Was it written before it ran, and is it still what ran? The first by git, the second by the hash in the
// record.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fp4lab/error.h"
#include "fp4lab/experiment.h"
#include "lab/bench/shell.h"

namespace fp4lab {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Lines that only one of them has, in order.
std::vector<std::string> difference(const std::string& then, const std::string& now) {
  const auto a = lines_of(then), b = lines_of(now);
  std::vector<std::string> changed;
  for (const std::string& line : a)
    if (std::ranges::find(b, line) == b.end()) changed.push_back("- " + line);
  for (const std::string& line : b)
    if (std::ranges::find(a, line) == a.end()) changed.push_back("+ " + line);
  if (changed.empty() && a != b) changed.push_back("- the same lines in another order");
  return changed;
}

struct Commit {
  std::string hash, date;  // UTC, as records have it
};

// Commits that touched the file, the first one first. Author dates: a rebase leaves them as they were.
std::vector<Commit> commits_of(const std::filesystem::path& file) {
  const Ran ran =
      run_shell(fmt::format("cd {} && TZ=UTC git log --reverse --date=format-local:%Y-%m-%dT%H:%M:%SZ "
                            "--format='%H %ad' -- {} 2>/dev/null",
                            shell_word(file.parent_path().string()), shell_word(file.filename().string())));
  std::vector<Commit> all;
  std::istringstream in(ran.output);
  for (Commit c; in >> c.hash >> c.date;) all.push_back(c);
  return all;
}

std::string text_at(const std::filesystem::path& file, const std::string& commit) {
  return run_shell(fmt::format("cd {} && git show {}:./{} 2>/dev/null",
                               shell_word(file.parent_path().string()), commit,
                               shell_word(file.filename().string())))
      .output;
}

}  // namespace

Registration verify(const Experiment& e, const std::vector<nlohmann::json>& records) {
  Registration r;
  const auto is_registration = [](const auto& j) { return j.value("type", "") == "registration"; };
  const auto first = std::ranges::find_if(records, is_registration);
  if (first == records.end()) {
    r.text = "it has not run";
    return r;
  }
  const std::string ran = first->value("date", ""), hash = first->value("hash", "");
  r.changed = difference(first->value("text", ""), e.text);
  // What was written before the first run, as it was then, in the first commit that has it.
  const std::filesystem::path file = std::filesystem::absolute(e.path);
  for (const Commit& c : commits_of(file)) {
    std::string then;
    try {
      then = parse_experiment(text_at(file, c.hash), e.path).hash;
    } catch (const Error&) {  // not yet an experiment
    }
    if (then != hash) continue;
    const bool before = c.date <= ran;
    r.state = before ? Registration::State::kBefore : Registration::State::kAfter;
    r.text = fmt::format("committed {} ({}), {} its first run ({})", c.date, c.hash.substr(0, 10),
                         before ? "before" : "after", ran);
    break;
  }
  if (r.text.empty()) {
    r.state = Registration::State::kNotCommitted;
    r.text = fmt::format(
        "it ran {}, and no commit has the file as it was then: nobody can tell when it was written", ran);
  }
  if (!r.changed.empty()) {
    const auto again = std::ranges::count_if(records, is_registration) > 1;
    r.text += again ? "; it was changed and has run again since" : "; it was changed since it ran";
  }
  return r;
}

}  // namespace fp4lab
