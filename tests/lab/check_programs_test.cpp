// The checkers on programs whose order is right, and on twins that lack one edge of it: tests/check has a
// pair for each class of finding, tests/bugs one for each real bug. The notes quote what is said here;
// FP4LAB_WRITE_NOTES=1 writes them anew.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "fp4lab/check_program.h"
#include "fp4lab/error.h"
#include "fp4lab/json_text.h"

using namespace fp4lab;

namespace {

constexpr uint64_t kSeeds = 20;

const std::filesystem::path kRoot = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();

std::vector<CheckProgram> programs(const char* folder) {
  std::vector<CheckProgram> all;
  for (const auto& e : std::filesystem::directory_iterator(kRoot / "tests" / folder))
    if (e.path().extension() == ".ptx") all.push_back(read_check_program(e.path()));
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.arch != b.arch ? a.arch < b.arch : a.path < b.path;
  });
  return all;
}

struct Said {
  std::string kind, what, text;
};

// What the emulator says of a twin: the first finding that has the expected words; empty when no seed shows
// it.
Said said_of(const Device& device, const CheckProgram& p, const CheckTwin& t, std::string& seen) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const CheckOutcome o = run_check_program(device, p, t.ptx, seed);
    seen = o.report + o.notes;
    for (const auto& f : parse_json(o.findings)) {
      const bool note = f.at("severity") == "note";
      const std::string text = f.at("text");
      if (note == t.note && (t.kind.empty() || t.kind == f.at("kind")) && text.find(t.expected) != text.npos)
        return {f.at("kind"), f.at("what"), text};
    }
  }
  return {};
}

struct Row {
  std::string kind, program;
  const CheckTwin* twin;
  Said said;
};

std::vector<Row> check_all(const std::vector<CheckProgram>& all) {
  std::vector<Row> rows;
  std::unique_ptr<Device> device;
  std::string arch;
  for (const CheckProgram& p : all) {
    CAPTURE(p.path.filename().string());
    if (p.arch != arch) {
      device.reset();  // another machine can be chosen only when nobody uses this one
      device = std::make_unique<Device>(Device::open("emulator", p.arch));
      arch = p.arch;
    }
    CHECK_FALSE(p.twins.empty());
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const CheckOutcome o = run_check_program(*device, p, p.ptx, seed);
      CAPTURE(seed);
      CHECK_MESSAGE(o.ok, o.report);
      CHECK(o.notes == "");
      CHECK(o.findings == "[]");
      if (o.findings != "[]") break;
    }
    for (const CheckTwin& t : p.twins) {
      CAPTURE(t.line);
      CAPTURE(t.name);
      std::string seen;
      const Said said = said_of(*device, p, t, seen);
      CHECK_MESSAGE(!said.kind.empty(), "expected: " << t.expected << "\nsaid: " << seen);
      rows.push_back({said.kind, p.path.filename().string(), &t, said});
    }
  }
  return rows;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

// The file must say this, but for `loose` passages, which depend on which schedule comes first;
// FP4LAB_WRITE_NOTES=1 makes it so.
void check_notes(const std::filesystem::path& path, const std::string& wanted, const std::regex& loose) {
  CAPTURE(path.string());
  const auto settled = [&](const std::string& text) { return std::regex_replace(text, loose, "$1..."); };
  if (std::getenv("FP4LAB_WRITE_NOTES"))
    std::ofstream(path) << wanted;
  else
    CHECK_MESSAGE(settled(read_file(path)) == settled(wanted),
                  "out of date: FP4LAB_WRITE_NOTES=1 build/tests -tc='check programs*'");
}

// Addresses of device memory depend on what was allocated before.
std::string settled(const std::string& text) {
  static const std::regex address("0xa0[0-9a-f]{9}");
  return std::regex_replace(text, address, "0xa0...");
}

std::string cell(std::string text) {
  text = settled(text);
  for (size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string table_of(std::vector<Row> rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(!a.twin->note, a.kind) != std::pair(!b.twin->note, b.kind)
               ? std::pair(a.twin->note, a.kind) < std::pair(b.twin->note, b.kind)
               : a.program < b.program;
  });
  std::string text = "| class | broken how | what is said | pair |\n|---|---|---|---|\n";
  std::string last;
  for (const Row& r : rows) {
    const std::string kind = r.said.kind + (r.twin->note ? " (note)" : "");
    const std::string change =
        r.twin->name.empty() && r.twin->now.empty() ? fmt::format("without `{}`", r.twin->was)
        : r.twin->name.empty() ? fmt::format("`{}` instead of `{}`", r.twin->now, r.twin->was)
                               : r.twin->name;
    text += fmt::format("| {} | {} | {} | {}:{} |\n", kind == last ? "" : "**" + kind + "**", cell(change),
                        cell(r.said.what), r.program, r.twin->line);
    last = kind;
  }
  return text;
}

}  // namespace

namespace {

struct ClassRow {
  std::string name, severity, result, what;
};

// Every class that there is; what has the same name and severity is one.
std::vector<ClassRow> classes() {
  std::vector<ClassRow> all;
  for (const ClassRow& row : std::vector<ClassRow>{
#define FAULT(kind, name, result, what) {name, "error", #result, what},
#include "emulator/core/faults.def"
#undef FAULT
#define ORDER_CLASS(id, name, severity, what) \
  {name, severity, std::string(severity) == "error" ? "CUDA_ERROR_LAUNCH_FAILED" : "", what},
#include "emulator/watch/order_classes.def"
#undef ORDER_CLASS
       }) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const ClassRow& r) {
      return r.name == row.name && r.severity == row.severity;
    });
    if (same == all.end())
      all.push_back(row);
    else
      same->what += "; " + row.what;
  }
  return all;
}

// Classes without a pair here, and what shows them instead.
const std::map<std::string, std::string> kElsewhere{
    {"illegal-instruction", "tests/ptx/own_form_of_a_peer.ptx"},
    {"launch-order", "tests/emulator/launch_order_test.cpp"},
    {"stopped", "tests/runtime/programs_test.cpp"},
    {"assertion-failed", "tests/ptx/traps.ptx"},
    {"not-implemented", "a limit of the emulator, see notes/support.md"},
    {"undefined-behaviour", "tests/ptx/traps.ptx"},
};

std::string class_table(const std::vector<Row>& rows) {
  std::map<std::string, int> pairs;
  for (const Row& r : rows) ++pairs[r.said.kind + (r.twin->note ? " (note)" : "")];
  std::string text = "| class | what it is | the launch returns | pairs |\n|---|---|---|---|\n";
  for (const ClassRow& c : classes()) {
    const std::string key = c.name + (c.severity == "note" ? " (note)" : "");
    const auto elsewhere = kElsewhere.find(key);
    CHECK_MESSAGE((pairs[key] > 0) != (elsewhere != kElsewhere.end()),
                  key << " has " << pairs[key] << " pairs");
    text += fmt::format("| {} | {} | {} | {} |\n", key, c.what, c.result.empty() ? "success" : c.result,
                        pairs[key]                      ? fmt::format("{}", pairs[key])
                        : elsewhere != kElsewhere.end() ? elsewhere->second
                                                        : "");
    pairs.erase(key);
  }
  for (const auto& [key, n] : pairs) CHECK_MESSAGE(n == 0, key << " is not among the classes");
  return text;
}

// `text` with what stands between the two marks replaced.
std::string between(std::string text, const std::string& name, const std::string& body) {
  const std::string begin = fmt::format("<!-- begin {} -->\n", name),
                    end = fmt::format("<!-- end {} -->\n", name);
  const size_t from = text.find(begin), to = text.find(end);
  REQUIRE(from != text.npos);
  REQUIRE(to != text.npos);
  return text.replace(from + begin.size(), to - from - begin.size(), body);
}

}  // namespace

TEST_CASE("check programs: right ones are silent, each broken twin is reported") {
  const auto all = programs("check");
  REQUIRE(all.size() >= 20);
  const std::vector<Row> rows = check_all(all);
  const auto path = kRoot / "notes/checkers.md";
  const std::string text =
      between(between(read_file(path), "classes", class_table(rows)), "table", table_of(rows));
  // The third column may vary.
  check_notes(path, text, std::regex("(\\n\\|[^|\\n]*\\|(?:[^|\\n]|\\\\\\|)*\\|)(?:[^|\\n]|\\\\\\|)*"));
}

TEST_CASE("check programs: every real bug is reported by its own class, its repair is silent") {
  const auto all = programs("bugs");
  REQUIRE(all.size() >= 8);
  std::map<std::string, Said> said;
  for (const Row& r : check_all(all)) {
    said[r.program + " " + r.twin->name] = r.said;
    CHECK_MESSAGE(!r.twin->kind.empty(), r.program << ":" << r.twin->line << " names no class");
  }
  // notes/bugs quotes: <!-- FILE.ptx TWIN --> and a block of text behind it.
  const std::regex quote("<!-- (\\S+\\.ptx [^>]*?) -->\n```text\n([^`]*)```\n");
  std::map<std::string, int> quoted;
  for (const auto& e : std::filesystem::directory_iterator(kRoot / "notes/bugs")) {
    const std::string text = read_file(e.path());
    std::string wanted;
    auto last = text.cbegin();
    for (std::sregex_iterator m(text.begin(), text.end(), quote), none; m != none; ++m) {
      CAPTURE(e.path().string());
      const std::string key = (*m)[1];
      CHECK_MESSAGE(said.contains(key), "no such twin: " << key);
      ++quoted[key];
      wanted.append(last, text.cbegin() + m->position(0));
      wanted += fmt::format("<!-- {} -->\n```text\n{}\n```\n", key, settled(said[key].text));
      last = text.cbegin() + m->position(0) + m->length(0);
    }
    wanted.append(last, text.cend());
    if (e.path().extension() == ".md") check_notes(e.path(), wanted, std::regex("(```text\n)[^`]*"));
  }
  for (const CheckProgram& p : all) {
    const std::string name = p.path.filename().string();
    int told = 0;
    for (const auto& [key, count] : quoted) told += key.starts_with(name + " ");
    CHECK_MESSAGE(told >= 1, "notes/bugs does not tell of " << name);
  }
}

TEST_CASE("check programs: a comment that cannot be understood is refused with its line") {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("fp4lab_check_{}.ptx", getpid());
  std::ofstream(path) << "// a title\n.target sm_100a\nbar.sync 0; // else bar.sync 1;\n";
  CHECK_THROWS_WITH(read_check_program(path), doctest::Contains(".ptx:3: // else CODE // TEXT"));
  std::filesystem::remove(path);
}
