#include "emulator/isa/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "emulator/isa/opcode.h"

namespace fp4lab::emu {

namespace {

struct Chapter {
  std::string_view number, title;
};
constexpr Chapter kChapters[] = {
    {"9.7.1", "Integer arithmetic"},
    {"9.7.2", "Extended-precision integer arithmetic"},
    {"9.7.3", "Floating point"},
    {"9.7.4", "Half precision floating point"},
    {"9.7.5", "Mixed precision floating point"},
    {"9.7.6", "Comparison and selection"},
    {"9.7.7", "Half precision comparison"},
    {"9.7.8", "Logic and shift"},
    {"9.7.9", "Data movement and conversion"},
    {"9.7.10", "Texture"},
    {"9.7.11", "Surface"},
    {"9.7.12", "Control flow"},
    {"9.7.13", "Parallel synchronisation and communication"},
    {"9.7.14", "Warp-level matrix"},
    {"9.7.15", "Asynchronous warpgroup-level matrix"},
    {"9.7.16", "Tensor core, 5th generation"},
    {"9.7.17", "Stack"},
    {"9.7.18", "Video"},
    {"9.7.19", "Miscellaneous"},
};

// "9.7.16.10.9" -> "9.7.16"
std::string_view chapter_of(std::string_view section) {
  size_t end = 0;
  for (int dots = 0; end < section.size(); ++end)
    if (section[end] == '.' && ++dots == 3) break;
  return section.substr(0, end);
}

std::vector<int> numbers(std::string_view section) {
  std::vector<int> out{0};
  for (char c : section)
    if (c == '.')
      out.push_back(0);
    else
      out.back() = out.back() * 10 + (c - '0');
  return out;
}

std::string_view fidelity_name(Fidelity f) {
  switch (f) {
    case Fidelity::exact:
      return "exact";
    case Fidelity::bounded:
      return "within the manual's bound";
    case Fidelity::modelled:
      return "modelled";
  }
  return "";
}

// A bar would end the table's cell, in code as well.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string row_line(const Opcode& row) {
  std::string target = row.target == 901   ? "sm_90a"
                       : row.target == 100 ? "sm_100a"
                       : row.target        ? fmt::format("sm_{} on", row.target)
                                           : "any";
  return fmt::format("| `{}` | `{}` | {} | {} | {} |\n", row.spelling, cell(row.operands), row.section,
                     fidelity_name(row.fidelity), target);
}

}  // namespace

std::string support_page() {
  std::map<std::vector<int>, std::vector<const Opcode*>> chapters;
  for (const Opcode& row : opcodes()) chapters[numbers(chapter_of(row.section))].push_back(&row);
  std::string page = fmt::format(
      "# What the emulator executes\n\n"
      "{} rows of the opcode table, by chapter of the PTX ISA manual. A word in `<>` is one of several, in "
      "`{{}}` may "
      "be absent, the groups in `[]` come in any order. *exact*: the hardware's bits by the manual; *within "
      "the manual's "
      "bound*: the manual allows an error and the result keeps it; *modelled*: the arithmetic is known from "
      "one "
      "public source only. Whatever stands in no row is refused when the module is loaded.\n",
      opcodes().size());
  for (auto& [number, rows] : chapters) {
    std::string_view chapter = chapter_of(rows[0]->section), title = "Other";
    for (const Chapter& c : kChapters)
      if (c.number == chapter) title = c.title;
    std::stable_sort(rows.begin(), rows.end(), [](const Opcode* a, const Opcode* b) {
      return numbers(a->section) < numbers(b->section);
    });
    page += fmt::format(
        "\n## {} {}\n\n| spelling | operands | section | fidelity | target |\n|---|---|---|---|---|\n",
        chapter, title);
    for (const Opcode* row : rows) page += row_line(*row);
  }
  return page;
}

}  // namespace fp4lab::emu
