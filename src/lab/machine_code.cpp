#include "fp4lab/machine_code.h"

#include <algorithm>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

namespace fp4lab {
namespace {

struct Instruction {
  std::string opcode;  // with its modifiers
  std::string role;
  bool guarded = false;
  std::string target;  // label of a branch
};

// Section titles of a kernel file, "// -- load warp: ..." -> "load", by line.
std::map<int, std::string> roles_of(std::string_view source) {
  std::map<int, std::string> roles;
  std::istringstream lines{std::string(source)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    static const std::regex title("^ *// -- ([a-z]+)");
    std::smatch m;
    if (std::regex_search(line, m, title)) roles[number] = m[1];
  }
  return roles;
}

class Code {
 public:
  Code(std::string_view assembly, std::string_view source, std::string_view file);

  std::vector<Instruction> all;
  bool is(int i, std::string_view start) const { return all[i].opcode.starts_with(start); }
  bool is_mma(int i) const { return is(i, "UTC") && all[i].opcode.find("MMA") != std::string::npos; }
  // Where execution may go on after instruction i.
  std::vector<int> next(int i) const;
  int target(int i) const {
    const auto at = labels_.find(all[i].target);
    return at == labels_.end() ? -1 : at->second;
  }

 private:
  std::map<std::string, int> labels_;
};

Code::Code(std::string_view assembly, std::string_view source, std::string_view file) {
  const std::map<int, std::string> roles = roles_of(source);
  const std::regex place(R"~(//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?)~");
  const std::regex code(R"(^\s+/\*[0-9a-f]{4,}\*/\s+(@!?U?P\S+ +)?([A-Z][A-Za-z0-9_.]*)([^;]*);)");
  const std::regex branch(R"(`\((\.L_x_\d+)\))");
  std::istringstream lines{std::string(assembly)};
  std::string role = "setup";
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    if (line.starts_with(".L_x_")) {
      labels_[line.substr(0, line.find(':'))] = int(all.size());
    } else if (std::regex_search(line, m, place)) {
      // The last of a group of lines is the outermost caller.
      if (m[1].str().ends_with(file) && !m[3].matched)
        if (auto after = roles.upper_bound(std::stoi(m[2])); after != roles.begin())
          role = std::prev(after)->second;
    } else if (std::regex_search(line, m, code)) {
      Instruction in{m[2], role, m[1].matched, ""};
      const std::string rest = m[3];
      if (std::smatch to; in.opcode.starts_with("BRA") && std::regex_search(rest, to, branch))
        in.target = to[1];
      all.push_back(std::move(in));
    }
  }
}

std::vector<int> Code::next(int i) const {
  const Instruction& in = all[i];
  const bool branch = !in.target.empty();
  const bool leaves = in.opcode.starts_with("EXIT") || in.opcode.starts_with("RET");
  const bool always = !in.guarded && !in.opcode.starts_with("BRA.DIV");
  std::vector<int> places;
  if (!(always && (branch || leaves)) && i + 1 < int(all.size())) places.push_back(i + 1);
  if (branch && target(i) >= 0) places.push_back(target(i));
  return places;
}

// The way from `from` to an instruction that `ends`, by no instruction twice and not longer than any stage or
// loop here, with the most that `counts` and then the fewest others.
struct Way {
  std::vector<int> steps;
  int counted = -1;
};
Way best_way(const Code& code, int from, const std::function<bool(int)>& ends,
             const std::function<bool(int)>& counts) {
  Way best;
  std::vector<int> steps;
  std::set<int> seen;
  int tries = 0;
  const std::function<void(int, int)> walk = [&](int i, int counted) {
    if (steps.size() > 400 || ++tries > 1'000'000 || !seen.insert(i).second) return;
    steps.push_back(i);
    if (steps.size() > 1 && ends(i)) {
      counted += counts(i);
      if (counted > best.counted || (counted == best.counted && steps.size() < best.steps.size()))
        best = {steps, counted};
    } else {
      for (const int to : code.next(i)) walk(to, counted + counts(i));
    }
    steps.pop_back();
    seen.erase(i);
  };
  walk(from, 0);
  return best;
}

// In the multiply role: among the waits, the earliest of those that the commit leads back to.
std::optional<MachineCode::Stage> stage_of(const Code& code) {
  const auto commit = [&](int i) { return code.is(i, "UTCBAR"); };
  const auto mma = [&](int i) { return code.is_mma(i); };
  Way longest;
  for (int i = 0; i < int(code.all.size()); ++i) {
    if (code.all[i].role != "multiply" || !code.is(i, "SYNCS.PHASECHK") || code.all[i].guarded) continue;
    const Way way = best_way(code, i, commit, mma);
    if (way.counted <= 0) continue;
    // back without another commit: the loop over stages, not the one over tiles
    const auto to_wait = [&](int at) { return at == i || commit(at); };
    const Way back = best_way(code, way.steps.back(), to_wait, [&](int at) { return at == i; });
    if (back.counted <= 0) continue;
    if (way.counted > longest.counted ||
        (way.counted == longest.counted && way.steps.size() > longest.steps.size()))
      longest = way;
  }
  if (longest.counted <= 0) return std::nullopt;
  const auto copy =
      std::find_if(longest.steps.begin(), longest.steps.end(), [&](int i) { return code.is(i, "UTCCP"); });
  return MachineCode::Stage{int(longest.steps.size()), int(copy - longest.steps.begin()) + 1};
}

// 16 columns of 32 lanes are 1: LDTM.x16, LDTM.16dp256bit.x4.
double columns_of(const std::string& opcode) {
  std::smatch m;
  static const std::regex times("\\.x(\\d+)");
  const double n = std::regex_search(opcode, m, times) ? std::stod(m[1]) : 1;
  const bool fragments = opcode.find("16dp256bit") != std::string::npos;
  return n * (fragments ? 4 : 1) / 16;
}

// The loop around loads from TMEM; where they are unrolled altogether, from the first to the last.
std::optional<double> epilogue_of(const Code& code, int products) {
  const auto load = [&](int i) { return code.is(i, "LDTM"); };
  const auto per_16 = [&](const std::vector<int>& steps) {
    double columns = 0;
    for (const int i : steps)
      if (load(i)) columns += columns_of(code.all[i].opcode);
    return columns > 0 ? double(steps.size()) / (columns / products) : 0;
  };
  double most = 0;
  for (int i = 0; i < int(code.all.size()); ++i) {
    const int head = code.all[i].target.empty() ? -1 : code.target(i);
    if (head < 0 || head > i) continue;
    const Way way = best_way(
        code, head, [&](int at) { return at == i; }, load);
    const auto loads = std::count_if(way.steps.begin(), way.steps.end(), load);
    const bool inner = std::none_of(way.steps.begin(), way.steps.end(), [&](int at) {
      return code.is(at, "SYNCS.PHASECHK") ||
             (at != i && !code.all[at].target.empty() && code.target(at) > head && code.target(at) <= at);
    });
    if (loads && inner) most = std::max(most, per_16(way.steps));
  }
  if (most == 0) {
    std::vector<int> role;
    for (int i = 0; i < int(code.all.size()); ++i)
      if (code.all[i].role == "epilogue") role.push_back(i);
    most = per_16(role);
  }
  return most > 0 ? std::optional(most) : std::nullopt;
}

int store_bytes(const std::string& opcode) {
  for (const auto& [text, bytes] :
       {std::pair(".256", 32), {".128", 16}, {".64", 8}, {".U16", 2}, {".S16", 2}, {".U8", 1}, {".S8", 1}})
    if (opcode.find(text) != std::string::npos) return bytes;
  return 4;
}

}  // namespace

MachineCode read_machine_code(std::string_view assembly, std::string_view source, std::string_view file,
                              int products) {
  const Code code(assembly, source, file);
  MachineCode result;
  result.instructions = int(code.all.size());
  for (int i = 0; i < int(code.all.size()); ++i) {
    const Instruction& in = code.all[i];
    const bool wide =
        in.opcode.find(".GPU") != std::string::npos || in.opcode.find(".SYS") != std::string::npos;
    if (code.is(i, "MEMBAR") && wide) ++result.gpu_fences[in.role];
    if (code.is(i, "STG")) ++result.global_stores[store_bytes(in.opcode)];
  }
  result.stage = stage_of(code);
  result.epilogue = epilogue_of(code, products);
  return result;
}

}  // namespace fp4lab
