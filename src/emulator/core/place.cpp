#include "emulator/core/place.h"

#include <bit>
#include <filesystem>

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

std::string cuda_position(const Module& m, const Source& s) {
  std::string text;
  for (uint32_t at = s.location, depth = 0; at && at < m.locations.size() && depth < 16;
       at = m.locations[at].caller, ++depth) {
    const Location& l = m.locations[at];
    if (l.file == 0 || l.file >= m.files.size()) break;
    // NVRTC writes absolute paths; below the current folder they are shown from there.
    static const std::string here = std::filesystem::current_path().string() + "/";
    std::string_view file = m.files[l.file];
    if (file.starts_with(here)) file.remove_prefix(here.size());
    text += fmt::format("{}{}:{}", depth ? ", called at " : "", file, l.line);
  }
  return text;
}

std::string ptx_excerpt(const Module& m, const Source& s) {
  std::string_view line = m.line_text(s.line);
  std::string caret;
  for (uint32_t i = 1; i < s.column && i <= line.size(); ++i) caret += line[i - 1] == '\t' ? '\t' : ' ';
  return fmt::format("    {}\n    {}^", line, caret);
}

std::string one_line(const Module& m, const Source& s) {
  std::string_view line = m.line_text(s.line);
  size_t begin = line.find_first_not_of(" \t");
  if (begin != line.npos) line.remove_prefix(begin);
  std::string cuda = cuda_position(m, s);
  return fmt::format("{}:{}  {}{}", m.name.empty() ? "ptx" : m.name, s.line, line,
                     cuda.empty() ? "" : fmt::format("  ({})", cuda));
}

}  // namespace fp4lab::emu
