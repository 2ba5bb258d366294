#include "ptx_program.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "emulator/ptx/load.h"
#include "emulator/ptx/parser.h"

namespace fp4lab::ptx_test {

namespace {

std::vector<std::string> split(std::string text) {
  for (char& c : text)
    if (c == ',' || c == '\t') c = ' ';
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string w; in >> w;) words.push_back(w);
  return words;
}

unsigned bytes_of(const std::string& type) {
  if (type.find("64") != std::string::npos) return 8;
  if (type.find("32") != std::string::npos) return 4;
  if (type.find("16") != std::string::npos) return 2;
  if (type == "u8" || type == "s8" || type == "b8") return 1;
  fail("'{}' is no type of words", type);
}

uint64_t bits_of_word(const std::string& w, const std::string& type) {
  const bool hex = w.find("0x") != std::string::npos || w.find("0X") != std::string::npos;
  if (!hex && (type == "f32" || type == "f64")) {
    const double v = std::strtod(w.c_str(), nullptr);
    return type == "f32" ? std::bit_cast<uint32_t>(float(v)) : std::bit_cast<uint64_t>(v);
  }
  char* end = nullptr;
  const bool negative = w[0] == '-';
  const uint64_t v = std::strtoull(w.c_str() + negative, &end, 0);
  if (*end) fail("'{}' is no number", w);
  return negative ? -v : v;
}

// Words with ranges and repeats written out; `?` is an empty string.
std::vector<std::string> expand(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& w : words) {
    if (const size_t star = w.find('*'); star != std::string::npos) {
      for (int n = std::stoi(w.substr(star + 1)); n > 0; --n) all.push_back(w.substr(0, star));
    } else if (const size_t dots = w.find(".."); dots != std::string::npos) {
      for (long n = std::stol(w.substr(0, dots)); n <= std::stol(w.substr(dots + 2)); ++n)
        all.push_back(std::to_string(n));
    } else {
      all.push_back(w == "?" ? std::string() : w);
    }
  }
  return all;
}

class Reader {
 public:
  explicit Reader(Program& p) : p_(p) { p_.cases.emplace_back(); }

  void line(const std::string& text, uint32_t number) {
    number_ = number;
    if (const size_t slashes = text.find("//"); slashes != std::string::npos) {
      const std::string code = text.substr(0, slashes), comment = text.substr(slashes + 2);
      const std::vector<std::string> words = split(comment);
      if (!words.empty() && words[0] == "=")
        store(code, {words.begin() + 1, words.end()});
      else if (code.find_first_not_of(" \t") == std::string::npos && !words.empty())
        directive(words, comment);
    }
    const std::string mark = ".entry ";
    if (const size_t at = text.find(mark); at != std::string::npos) {
      const size_t begin = at + mark.size();
      entry_ = text.substr(begin, text.find_first_of(" (", begin) - begin);
    }
    if (text.starts_with(".target"))
      p_.target = text.find("sm_100") != std::string::npos  ? 100
                  : text.find("sm_90") != std::string::npos ? 90
                                                            : 0;
  }

  // Words given next to stores apply to every case that does not specify its output otherwise.
  void finish() {
    if (p_.cases.size() > 1) p_.cases.erase(p_.cases.begin());  // the part before the first `case`
    for (Case& c : p_.cases) {
      if (c.entry.empty()) c.entry = entry_;
      if (c.out.empty() && c.fault.empty() && c.refuse.empty()) c.out = beside_;
      for (const Word& w : c.out) c.out_bytes = std::max(c.out_bytes, w.offset + w.bytes);
      if (c.out.empty() && c.fault.empty() && c.refuse.empty())
        fail("{}: case '{}' expects nothing", p_.path.string(), c.name);
    }
  }

 private:
  void directive(const std::vector<std::string>& w, const std::string& comment) {
    Case& c = p_.cases.back();
    const auto rest = [&](const std::string& key) {
      const size_t at = comment.find(key) + key.size();
      const size_t begin = comment.find_first_not_of(' ', at);
      return begin == std::string::npos ? std::string() : comment.substr(begin);
    };
    if (w[0] == "case") {
      if (w.size() != 2) fail("{}:{}: the name of a case is one word", p_.path.string(), number_);
      // A new case begins as a copy of the part before the first one.
      Case fresh = p_.cases.front();
      fresh.name = w[1];
      p_.cases.push_back(fresh);
    } else if (w[0] == "entry" && w.size() == 2) {
      c.entry = w[1];
    } else if (w[0] == "grid" && numbers(w)) {
      c.grid = dim(w);
    } else if (w[0] == "block" && numbers(w)) {
      c.block = dim(w);
    } else if (w[0] == "cluster" && numbers(w)) {
      c.cluster = dim(w);
    } else if (w[0] == "shared" && numbers(w)) {
      c.shared = uint32_t(std::stoul(w[1]));
    } else if (w[0] == "in" && w.size() > 2) {
      for (const std::string& v : expand({w.begin() + 2, w.end()})) {
        const uint64_t bits = bits_of_word(v, w[1]);
        const auto* raw = reinterpret_cast<const std::byte*>(&bits);
        c.in.insert(c.in.end(), raw, raw + bytes_of(w[1]));
      }
    } else if (w[0] == "out" && w.size() > 2) {
      uint32_t offset = c.out.empty() ? 0 : c.out_bytes;
      for (const std::string& v : expand({w.begin() + 2, w.end()})) {
        const uint32_t bytes = bytes_of(w[1]);
        if (!v.empty()) c.out.push_back(word(offset, bytes, bits_of_word(v, w[1])));
        offset += bytes;
      }
      c.out_bytes = offset;
    } else if (w[0] == "fault" && w.size() > 1) {
      c.fault = rest("fault");
    } else if (w[0] == "refuse" && w.size() > 1) {
      c.refuse = rest("refuse");
    } else if (w.size() == 2 && w[0] == "emulator" && w[1] == "only") {
      p_.hardware = false;
    } else if (w.size() == 1 && w[0] == "contracted") {
      p_.contracted = true;
    }
  }

  void store(const std::string& code, std::vector<std::string> words) {
    const size_t bracket = code.find("[%out");
    if (bracket == std::string::npos)
      fail("{}:{}: `// =` must follow a store to [%out+N]", p_.path.string(), number_);
    uint32_t offset = 0;
    if (code[bracket + 5] == '+') offset = uint32_t(std::stoul(code.substr(bracket + 6), nullptr, 0));
    const std::string opcode = split(code.substr(code.find("st.")))[0];
    const std::string type = opcode.substr(opcode.rfind('.') + 1);
    uint64_t within = 0;
    if (words.size() > 2 && words[words.size() - 2] == "within") {
      within = std::stoull(words.back());
      words.resize(words.size() - 2);
    }
    for (const std::string& v : expand(words)) {
      const uint32_t bytes = bytes_of(type);
      if (!v.empty()) {
        Word w = word(offset, bytes, bits_of_word(v, type));
        w.within = within;
        beside_.push_back(w);
      }
      offset += bytes;
    }
  }

  Word word(uint32_t offset, uint32_t bytes, uint64_t bits) const {
    Word w;
    w.offset = offset;
    w.bytes = bytes;
    w.bits = bytes == 8 ? bits : bits & ((uint64_t(1) << (8 * bytes)) - 1);
    w.line = number_;
    return w;
  }
  static bool numbers(const std::vector<std::string>& w) {
    return w.size() > 1 && std::all_of(w.begin() + 1, w.end(), [](const std::string& s) {
             return s.find_first_not_of("0123456789") == std::string::npos;
           });
  }
  static emu::Dim3 dim(const std::vector<std::string>& w) {
    emu::Dim3 d;
    d.x = uint32_t(std::stoul(w[1]));
    if (w.size() > 2) d.y = uint32_t(std::stoul(w[2]));
    if (w.size() > 3) d.z = uint32_t(std::stoul(w[3]));
    return d;
  }

  Program& p_;
  std::vector<Word> beside_;
  std::string entry_;
  uint32_t number_ = 0;
};

// Compares the output buffer with the expected words.
std::vector<std::string> compare(const Program& p, const Case& c, const std::vector<std::byte>& out) {
  std::vector<std::string> failures;
  for (const Word& w : c.out) {
    uint64_t got = 0;
    std::memcpy(&got, out.data() + w.offset, w.bytes);
    const uint64_t distance = got > w.bits ? got - w.bits : w.bits - got;
    if (distance <= w.within) continue;
    failures.push_back(fmt::format("{}:{}: {}byte {} is 0x{:0{}x}, expected 0x{:0{}x}",
                                   p.path.filename().string(), w.line, c.name.empty() ? "" : c.name + ": ",
                                   w.offset, got, 2 * w.bytes, w.bits, 2 * w.bytes));
  }
  return failures;
}

// Whether a failed run or a refusal is the expected one.
std::vector<std::string> judge_failure(const Program& p, const Case& c, const std::string& wanted,
                                       const std::string& text) {
  if (!wanted.empty() && text.find(wanted) != std::string::npos) return {};
  return {fmt::format("{}: {}{}\n{}", p.path.filename().string(), c.name.empty() ? "" : c.name + ": ",
                      wanted.empty() ? "failed" : fmt::format("should have failed with '{}', but:", wanted),
                      text)};
}

std::vector<std::string> missing_failure(const Program& p, const Case& c, const std::string& wanted) {
  return {fmt::format("{}: {}: should have failed with '{}'", p.path.filename().string(), c.name, wanted)};
}

constexpr size_t kMargin = 64;  // so that no buffer is empty

}  // namespace

Program read_program(const std::filesystem::path& path) {
  Program p;
  p.path = path;
  std::ifstream file(path);
  if (!file) fail("cannot read {}", path.string());
  std::ostringstream whole;
  whole << file.rdbuf();
  p.text = whole.str();
  Reader reader(p);
  std::istringstream lines(p.text);
  uint32_t number = 0;
  for (std::string text; std::getline(lines, text);) {
    try {
      reader.line(text, ++number);
    } catch (const std::logic_error& e) {  // std::stoi
      fail("{}:{}: cannot read '{}'", path.string(), number, text);
    }
  }
  reader.finish();
  return p;
}

std::vector<std::filesystem::path> all_programs() {
  std::vector<std::filesystem::path> paths;
  const auto folder = std::filesystem::path(__FILE__).parent_path().parent_path() / "ptx";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".ptx") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Outcome run_on_emulator(const Program& p, const Case& c, uint64_t seed) {
  Outcome outcome;
  emu::GlobalMemory memory;
  std::unique_ptr<emu::Module> module;
  try {
    module = emu::parse(p.text, p.path.filename().string(),
                        p.contracted ? emu::Compilation::optimised : emu::Compilation::as_written);
    emu::load(*module, memory);
  } catch (const std::runtime_error& e) {
    outcome.failures = judge_failure(p, c, c.refuse, e.what());
    return outcome;
  }
  if (!c.refuse.empty()) {
    outcome.failures = missing_failure(p, c, c.refuse);
    return outcome;
  }
  const auto found = module->function_index.find(c.entry);
  if (found == module->function_index.end()) fail("{}: no kernel '{}'", p.path.string(), c.entry);
  const emu::Function& f = module->functions[found->second];

  const uint64_t out = memory.allocate(c.out_bytes + kMargin), in = memory.allocate(c.in.size() + kMargin);
  std::memset(memory.host(out), 0xcd, c.out_bytes + kMargin);
  if (!c.in.empty()) std::memcpy(memory.host(in), c.in.data(), c.in.size());
  emu::LaunchConfig config;
  config.grid = c.grid;
  config.block = c.block;
  config.cluster = c.cluster;
  config.dynamic_shared = c.shared;
  config.params.resize(f.param_bytes);
  const uint64_t params[] = {out, in};
  if (f.param_bytes)
    std::memcpy(config.params.data(), params, std::min<size_t>(f.param_bytes, sizeof params));
  emu::Schedule schedule;
  schedule.seed = seed;
  schedule.threads = 1;
  const emu::DeviceModel* device = emu::device_model(p.target == 100 ? "b200" : "h200");
  if (!device) fail("no device model for {}", p.path.string());
  const emu::LaunchResult result = emu::launch(*module, f, config, *device, memory, schedule);
  outcome.statistics = result.statistics;
  if (!result.ok) {
    outcome.failures = judge_failure(p, c, c.fault, result.report);
  } else if (!c.fault.empty()) {
    outcome.failures = missing_failure(p, c, c.fault);
  } else {
    std::vector<std::byte> bytes(c.out_bytes);
    std::memcpy(bytes.data(), memory.host(out), bytes.size());
    outcome.failures = compare(p, c, bytes);
  }
  emu::unload(*module, memory);
  return outcome;
}

Outcome run_on_driver(const Program& p, const Case& c, Driver& d) {
  Outcome outcome;
  CUmodule module = nullptr;
  CUdeviceptr out = 0, in = 0;
  try {
    CUjit_option option = CU_JIT_OPTIMIZATION_LEVEL;
    void* none = nullptr;
    d.cuModuleLoadDataEx(&module, p.text.c_str(), !p.contracted, &option, &none);
    if (!c.refuse.empty()) outcome.failures = missing_failure(p, c, c.refuse);
    CUfunction function;
    d.cuModuleGetFunction(&function, module, c.entry.c_str());
    d.cuMemAlloc(&out, c.out_bytes + kMargin);
    d.cuMemAlloc(&in, c.in.size() + kMargin);
    d.cuMemsetD8(out, 0xcd, c.out_bytes + kMargin);
    if (!c.in.empty()) d.cuMemcpyHtoD(in, c.in.data(), c.in.size());
    void* params[] = {&out, &in};
    CUlaunchAttribute cluster{};
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {c.cluster.x, c.cluster.y, c.cluster.z};
    CUlaunchConfig config{};
    config.gridDimX = c.grid.x, config.gridDimY = c.grid.y, config.gridDimZ = c.grid.z;
    config.blockDimX = c.block.x, config.blockDimY = c.block.y, config.blockDimZ = c.block.z;
    config.sharedMemBytes = c.shared;
    config.attrs = &cluster;
    config.numAttrs = c.cluster.count() > 1 ? 1 : 0;
    d.cuLaunchKernelEx(&config, function, params, nullptr);
    d.cuCtxSynchronize();
    std::vector<std::byte> bytes(c.out_bytes);
    d.cuMemcpyDtoH(bytes.data(), out, bytes.size());
    outcome.failures = compare(p, c, bytes);
    if (!c.fault.empty()) outcome.failures = missing_failure(p, c, c.fault);
  } catch (const Error& e) {
    outcome.failures = judge_failure(p, c, c.refuse.empty() ? c.fault : c.refuse, e.what());
  }
  if (out) d.cuMemFree.status(out);
  if (in) d.cuMemFree.status(in);
  if (module) d.cuModuleUnload.status(module);
  return outcome;
}

}  // namespace fp4lab::ptx_test
