#include "fp4lab/check_program.h"

#include <fstream>
#include <map>
#include <sstream>

#include "fp4lab/emulator.h"
#include "fp4lab/error.h"

namespace fp4lab {
namespace {

constexpr size_t kBufferBytes = 32768;

std::string trimmed(std::string s) {
  s.erase(0, s.find_first_not_of(" \t"));
  s.erase(s.find_last_not_of(" \t") + 1);
  return s;
}

// What stands behind `mark`, which begins a comment or a setting.
bool behind(const std::string& line, const std::string& mark, std::string& rest) {
  const size_t at = line.find(mark);
  if (at == line.npos) return false;
  rest = line.substr(at + mark.size());
  return true;
}

struct Edit {
  size_t line;  // from 0
  std::string code, text;
};

// The comments of a file, as they are read.
struct Reading {
  std::vector<std::string> lines;
  std::vector<Edit> single;
  std::map<std::string, std::vector<Edit>> together;  // by the twin's name
};

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& l : lines) all += l + "\n";
  return all;
}

CUtensorMapSwizzle swizzle_named(const std::string& name, const std::filesystem::path& path) {
  if (name == "none") return CU_TENSOR_MAP_SWIZZLE_NONE;
  if (name == "32B") return CU_TENSOR_MAP_SWIZZLE_32B;
  if (name == "64B") return CU_TENSOR_MAP_SWIZZLE_64B;
  if (name == "128B") return CU_TENSOR_MAP_SWIZZLE_128B;
  fail("{}: // map {}: none, 32B, 64B or 128B", path.string(), name);
}

// Is the line a setting of the launch? Then it is taken over.
bool read_setting(const std::string& line, CheckProgram& p) {
  for (auto [key, value] : {std::pair{"// block ", &p.block},
                            {"// grid ", &p.grid},
                            {"// cluster ", &p.cluster},
                            {"// shared ", &p.dynamic_shared}})
    if (line.starts_with(key)) {
      *value = static_cast<unsigned>(std::stoul(line.substr(std::string(key).size())));
      return true;
    }
  if (!line.starts_with("// map ")) return false;
  p.map = trimmed(line.substr(7));
  return true;
}

// What the comment of `line` says of a twin, whose change is to be made in line `code`. Returns what cannot
// be understood about it, null when it can.
const char* read_twin(const std::string& line, size_t code, Reading& r) {
  std::string rest;
  if (behind(line, "// edge ", rest)) {
    r.single.push_back({code, "", rest});
  } else if (behind(line, "// else ", rest)) {
    const size_t mark = rest.find(" // ");
    if (mark == rest.npos) return "// else CODE // TEXT";
    r.single.push_back({code, rest.substr(0, mark), rest.substr(mark + 4)});
  } else if (behind(line, "// twin ", rest)) {
    const size_t mark = rest.find(':');
    if (mark == rest.npos) return "// twin NAME: CODE // TEXT, or // twin NAME: CODE";
    const std::string what = rest.substr(mark + 1);
    const size_t text = what.find("// ");
    r.together[rest.substr(0, mark)].push_back(
        {code, trimmed(what.substr(0, text)), text == what.npos ? "" : what.substr(text + 3)});
  }
  return nullptr;
}

// Reports quote lines: without what is said here of their twins.
void drop_comments(std::vector<std::string>& lines) {
  for (std::string& line : lines)
    for (const char* mark : {"// edge ", "// else ", "// twin "})
      if (const size_t at = line.find(mark); at != line.npos)
        line.resize(line.find_last_not_of(" \t", at ? at - 1 : 0) + 1);
}

CheckTwin twin_of(const CheckProgram& p, const std::vector<std::string>& lines, const std::string& name,
                  const std::vector<Edit>& edits) {
  CheckTwin t;
  t.name = name;
  t.line = static_cast<int>(edits[0].line) + 1;
  t.now = edits[0].code;
  std::vector<std::string> changed = lines;
  for (const Edit& e : edits) {
    changed[e.line] = e.code;
    if (!e.text.empty()) t.expected = e.text;
  }
  t.was = trimmed(lines[edits[0].line]);
  if (t.expected.empty()) fail("{}:{}: the twin does not say what is expected", p.path.string(), t.line);
  if (t.expected.starts_with("note: ")) t.note = true, t.expected.erase(0, 6);
  if (const size_t end = t.expected.find("] "); t.expected.starts_with("[") && end != t.expected.npos) {
    t.kind = t.expected.substr(1, end - 1);
    t.expected.erase(0, end + 2);
  }
  t.ptx = joined(changed);
  return t;
}

}  // namespace

CheckProgram read_check_program(const std::filesystem::path& path) {
  CheckProgram p;
  p.path = path;
  std::ifstream in(path);
  if (!in) fail("{}: cannot be read", path.string());
  Reading r;
  for (std::string line; std::getline(in, line);) r.lines.push_back(line);
  size_t code = 0;  // the last line with code
  for (size_t k = 0; k < r.lines.size(); ++k) {
    const std::string& line = r.lines[k];
    if (read_setting(line, p)) continue;
    if (p.title.empty() && line.starts_with("// ")) p.title = line.substr(3);
    if (line.starts_with(".target ")) p.arch = trimmed(line.substr(8));
    const std::string own = trimmed(line);
    if (!own.empty() && !own.starts_with("//")) code = k;
    if (const char* why = read_twin(line, code, r)) fail("{}:{}: {}\n  {}", path.string(), k + 1, why, line);
  }
  drop_comments(r.lines);
  p.ptx = joined(r.lines);
  for (const Edit& e : r.single) p.twins.push_back(twin_of(p, r.lines, "", {e}));
  for (const auto& [name, edits] : r.together) p.twins.push_back(twin_of(p, r.lines, name, edits));
  return p;
}

CheckOutcome run_check_program(const Device& device, const CheckProgram& p, const std::string& ptx,
                               std::uint64_t seed) {
  const auto emulator = [&]<class F>(F*, const char* name) {
    auto* f = reinterpret_cast<F*>(device.driver().symbol(name));
    if (!f)
      fail("{}: the order of accesses can be checked on the emulator only, not on {}", p.path.string(),
           device.name());
    return f;
  };
  emulator(&fp4lab_emulator_check, "fp4lab_emulator_check")(1);
  emulator(&fp4lab_emulator_seed, "fp4lab_emulator_seed")(seed);
  const Module module(device, ptx, p.path.filename().string());
  DeviceBuffer out(device, kBufferBytes), in(device, kBufferBytes);
  out.fill(0), in.fill(0);
  CUdeviceptr first = out.address(), second = in.address();
  CUtensorMap map{};
  if (!p.map.empty()) {
    map = encode(device, {.address = in.address(),
                          .dims = {128, 128},
                          .strides = {128},
                          .box = {p.map == "32B"   ? 32u
                                  : p.map == "64B" ? 64u
                                                   : 128u,
                                  8},
                          .swizzle = swizzle_named(p.map, p.path)});
  }
  void* parameters[] = {&first, &second, &map};
  CheckOutcome o;
  try {
    launch_pointers(
        module.kernel("k"),
        {.grid = {p.grid}, .block = {p.block}, .cluster = {p.cluster}, .dynamic_shared = p.dynamic_shared},
        parameters);
    device.synchronize();
  } catch (const Error&) {
    o.ok = false;
    o.report = emulator(&fp4lab_emulator_report, "fp4lab_emulator_report")();
    emulator(&fp4lab_emulator_forgive, "fp4lab_emulator_forgive")();
  }
  o.notes = emulator(&fp4lab_emulator_notes, "fp4lab_emulator_notes")();
  o.findings = emulator(&fp4lab_emulator_findings, "fp4lab_emulator_findings")();
  emulator(&fp4lab_emulator_check, "fp4lab_emulator_check")(0);
  return o;
}

}  // namespace fp4lab
