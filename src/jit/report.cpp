// What ptxas -v prints, read back. The lines of interest, as NVRTC 13.0 gives them:
//   ptxas info    : Compiling entry function 'k' for 'sm_100a'
//   ptxas info    : Function properties for k
//   ptxas         .     256 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 32 registers, used 1 barriers, 256 bytes cumulative stack size, 1024 bytes smem
#include <algorithm>
#include <charconv>
#include <sstream>

#include "fp4lab/jit.h"

namespace fp4lab::jit {
namespace {

// The number that stands before `what` in `line`; -1 when `what` is not there.
int number_before(std::string_view line, std::string_view what) {
  size_t end = line.find(what);
  if (end == line.npos) return -1;
  while (end > 0 && line[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = -1;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

std::string after(std::string_view line, std::string_view what, char closing) {
  const size_t at = line.find(what);
  if (at == line.npos) return "";
  line.remove_prefix(at + what.size());
  return std::string(line.substr(0, line.find(closing)));
}

}  // namespace

std::vector<KernelReport> parse_ptxas_report(std::string_view log) {
  std::vector<KernelReport> kernels;
  std::string properties_of;  // a function that is not inlined has properties of its own
  std::istringstream lines{std::string(log)};
  for (std::string line; std::getline(lines, line);) {
    if (std::string name = after(line, "Compiling entry function '", '\''); !name.empty()) {
      kernels.emplace_back().name = name;
    } else if (std::string function = after(line, "Function properties for ", '\n'); !function.empty()) {
      properties_of = function.substr(0, function.find_last_not_of(" \r") + 1);
    } else if (kernels.empty()) {
      continue;
    } else if (KernelReport& k = kernels.back(); line.find("bytes stack frame") != line.npos) {
      if (properties_of != k.name) continue;
      k.stack_frame = number_before(line, "bytes stack frame");
      k.spill_stores = number_before(line, "bytes spill stores");
      k.spill_loads = number_before(line, "bytes spill loads");
    } else if (line.find("Used ") != line.npos && line.find(" registers") != line.npos) {
      k.registers = number_before(line, "registers");
      // ptxas leaves out what is zero.
      k.barriers = std::max(0, number_before(line, "barriers"));
      k.shared_bytes = std::max(0, number_before(line, "bytes smem"));
    }
  }
  return kernels;
}

std::vector<std::string> ptx_entries(std::string_view ptx) {
  std::vector<std::string> names;
  for (size_t at = 0; (at = ptx.find(".entry", at)) != ptx.npos;) {
    at += 6;
    const size_t begin = ptx.find_first_not_of(" \t\r\n", at);
    if (begin == at || begin == ptx.npos) continue;
    const size_t end = ptx.find_first_of(" \t\r\n({;", begin);
    names.emplace_back(ptx.substr(begin, end - begin));
  }
  return names;
}

}  // namespace fp4lab::jit
