// Kernel files and PTX from anywhere in a rung's place.
#include <xxhash.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "fp4lab/error.h"
#include "fp4lab/rung.h"

namespace fp4lab {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) fail("{}: it is a folder", file.string());
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) fail("{}: {}", file.string(), std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), {}};
}

bool in_name(char c) { return std::isalnum(uint8_t(c)) || c == '_'; }

// Whether `word` stands in the text by itself, not as a part of a longer name.
bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) {
    const size_t end = at + word.size();
    if ((at == 0 || !in_name(text[at - 1])) && (end == text.size() || !in_name(text[end]))) return true;
  }
  return false;
}

}  // namespace

const Rung& rung_like(std::string_view arch, Op op, const std::filesystem::path& file) {
  const std::string text = text_of(file), stem = file.stem().string();
  const auto in_head = [&](std::string_view mark) {  // the word behind it
    std::string word;
    if (const size_t at = text.find(mark); at != text.npos)
      for (size_t i = at + mark.size(); i < text.size() && in_name(text[i]); ++i) word += text[i];
    return word;
  };
  const std::string parent = in_head("// Parent: "), run_as = in_head("KERNEL=");
  // In full, as entry and file name of a copied rung have it; the rest may speak of something else.
  std::vector<const Rung*> surely, perhaps;
  std::string says;
  for (const Rung* rung : rungs(arch, op)) {
    const std::string_view number = rung->name.substr(0, rung->name.find('_'));
    const bool by_start = stem.starts_with(number) &&
                          (stem.size() == number.size() || !std::isalnum(uint8_t(stem[number.size()])));
    const bool by_name = rung->name == stem, by_entry = has_word(text, rung->entry());
    const bool by_parent = rung->name == parent, by_run = rung->name == run_as;
    if (by_name || by_entry) surely.push_back(rung);
    if (by_start || by_parent || by_run) perhaps.push_back(rung);
    for (const auto& [named, where] : {std::pair(by_name || by_start, "its name"),
                                       {by_entry, "its entry"},
                                       {by_parent, "its header (Parent)"},
                                       {by_run, "its header (KERNEL=)"}})
      if (named) says += fmt::format("{}{} says {}", says.empty() ? "" : ", ", where, rung->name);
  }
  const auto& named = surely.empty() ? perhaps : surely;
  if (named.size() == 1) return *named[0];
  if (named.empty())
    fail("{}: neither its name nor its header comment names a rung: add --like RUNG", file.string());
  fail("{}: {}: choose a rung with --like RUNG", file.string(), says);
}

std::string plan_marked(std::string_view ptx) {
  const size_t mark = ptx.rfind(kPtxPlanMark);
  if (mark == ptx.npos) return {};
  const size_t begin = mark + kPtxPlanMark.size();
  return std::string(ptx.substr(begin, ptx.find_first_of("\r\n", begin) - begin));
}

Candidate candidate_of_ptx(const Rung& like, const Case& c, const std::filesystem::path& ptx) {
  Candidate candidate = candidate_for(like, c, {});
  candidate.ptx = ptx;
  const std::string line = plan_marked(text_of(ptx));
  if (line.empty() || line == plan_line(candidate)) return candidate;
  try {
    candidate = candidate_of_line(like, c, line);
  } catch (const Error& error) {
    fail("{}: the plan on its last line is none of {}: {}", ptx.string(), like.name, error.what());
  }
  candidate.ptx = ptx;
  return candidate;
}

std::string kernel_name(const Candidate& candidate) {
  const std::filesystem::path& file = candidate.ptx.empty() ? candidate.source : candidate.ptx;
  return file.empty() ? std::string(candidate.rung->name) : file.filename().string();
}

std::string text_hash(const Candidate& candidate) {
  std::vector<std::filesystem::path> files;
  if (!candidate.ptx.empty())
    files = {candidate.ptx};
  else if (!candidate.source.empty())
    files = jit::source_files(job_of(candidate));
  if (files.empty()) return {};
  std::string all;
  for (const auto& file : files) all += text_of(file);
  return fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
}

}  // namespace fp4lab
