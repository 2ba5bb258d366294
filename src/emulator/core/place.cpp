#include "emulator/core/place.h"

#include <cxxabi.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <vector>

#include "emulator/core/machine.h"

namespace fp4lab::emu {

std::string lane_list(uint32_t lanes) {
  if (lanes == 0) return "no lane";
  if (lanes == ~0u) return "all 32 lanes";
  std::string text = std::popcount(lanes) == 1 ? "lane " : "lanes ";
  bool first = true;
  for (unsigned i = 0; i < kLanes;) {
    if (!(lanes >> i & 1)) {
      ++i;
      continue;
    }
    unsigned end = i;
    while (end + 1 < kLanes && (lanes >> (end + 1) & 1)) ++end;
    if (!first) text += ", ";
    first = false;
    text += end == i ? fmt::format("{}", i) : fmt::format("{}-{}", i, end);
    i = end + 1;
  }
  return text;
}

std::string ptx_position(const Module& m, const Source& s) {
  return fmt::format("{}:{}:{}", m.name.empty() ? "ptx" : m.name, s.line, s.column);
}

namespace {

// NVRTC writes absolute paths; below the current folder, or one of FP4LAB_SOURCES (separated by colons), they
// are shown from there.
std::string_view shown_path(std::string_view file) {
  static const std::vector<std::string> folders = [] {
    std::vector<std::string> all{std::filesystem::current_path().string() + "/"};
    const char* given = std::getenv("FP4LAB_SOURCES");
    std::istringstream list(given ? given : "");
    for (std::string folder; std::getline(list, folder, ':');)
      if (!folder.empty()) all.push_back(folder.ends_with('/') ? folder : folder + "/");
    return all;
  }();
  for (const std::string& folder : folders)
    if (file.starts_with(folder)) return file.substr(folder.size());
  return file;
}

}  // namespace

std::string cuda_position(const Module& m, const Source& s) {
  constexpr size_t kShown = 4;  // library templates are inlined a dozen levels deep
  std::vector<std::string> frames;
  for (uint32_t at = s.location; at && at < m.locations.size() && frames.size() < 64;
       at = m.locations[at].caller) {
    const Location& l = m.locations[at];
    if (l.file == 0 || l.file >= m.files.size()) break;
    frames.push_back(fmt::format("{}:{}", shown_path(m.files[l.file]), l.line));
  }
  if (frames.size() > kShown) {  // the innermost, and the outermost two
    const auto first = frames.begin() + 1, last = frames.end() - 2;
    *first = fmt::format("({} between)", last - first);
    frames.erase(first + 1, last);
  }
  return fmt::format("{}", fmt::join(frames, ", called at "));
}

namespace {

// "f<A<B, C>, D>" without the arguments of arguments: "f<A<...>, D>".
std::string without_inner_arguments(std::string_view name) {
  std::string text;
  unsigned depth = 0;
  for (const char c : name) {
    if (c == '>' && depth && --depth == 1) text += "...";
    if (depth < 2) text += c;
    if (c == '<') ++depth;
  }
  return text;
}

}  // namespace

std::string kernel_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  // The C++ library fails to demangle some names of several kilobytes (CUTLASS's).
  if (status != 0) return mangled.size() > 120 ? mangled.substr(0, 100) + "..." : mangled;
  std::string text = without_inner_arguments(demangled.get());
  // Removes the parameters, which begin at the last parenthesis outside of template arguments.
  int depth = 0;
  for (size_t i = text.size(); i-- > 0;) {
    if (text[i] == ')' || text[i] == '>') ++depth;
    if (text[i] == '(' || text[i] == '<') --depth;
    if (text[i] == '(' && depth == 0) {
      text.resize(i);
      break;
    }
  }
  return text.starts_with("void ") ? text.substr(5) : text;
}

std::string ptx_excerpt(const Module& m, const Source& s) {
  std::string_view line = m.line_text(s.line);
  std::string caret;
  for (uint32_t i = 1; i < s.column && i <= line.size(); ++i) caret += line[i - 1] == '\t' ? '\t' : ' ';
  return fmt::format("    {}\n    {}^", line, caret);
}

namespace {

bool is_barrier(const Source& s) { return s.tokens[0] == "bar" || s.tokens[0] == "barrier"; }

bool waits(const Source& s) {
  const std::string_view first = s.tokens[0];
  if (first == "mbarrier") return s.has("try_wait") || s.has("test_wait");
  if (first == "wgmma" || first == "cp") return s.has("wait_group") || s.has("wait_all");
  return is_barrier(s) && !s.has("arrive");
}

bool arrives(const Source& s) {
  const std::string_view first = s.tokens[0];
  if (first == "mbarrier") return s.has("arrive") || s.has("arrive_drop");
  if (first == "tcgen05") return s.has("commit");
  return is_barrier(s) && !(s.has("cluster") && s.has("wait"));
}

template <class Is>
uint32_t nearest(const Function& f, size_t pc, bool back, Is is) {
  const size_t end = back ? 0 : f.source.size() - 1;
  while (pc != end) {
    pc = back ? pc - 1 : pc + 1;
    if (!f.source[pc].tokens.empty() && is(f.source[pc])) break;
  }
  return f.source[pc].line;
}

}  // namespace

uint32_t line_of_wait_before(const Function& f, size_t pc) { return nearest(f, pc, true, waits); }
uint32_t line_of_arrival_behind(const Function& f, size_t pc) { return nearest(f, pc, false, arrives); }

std::string one_line(const Module& m, const Source& s) {
  std::string_view line = m.line_text(s.line);
  size_t begin = line.find_first_not_of(" \t");
  if (begin != line.npos) line.remove_prefix(begin);
  std::string cuda = cuda_position(m, s);
  return fmt::format("{}:{}  {}{}", m.name.empty() ? "ptx" : m.name, s.line, line,
                     cuda.empty() ? "" : fmt::format("  ({})", cuda));
}

}  // namespace fp4lab::emu
