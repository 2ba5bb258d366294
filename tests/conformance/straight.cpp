#include "straight.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "../emulator/sweep.h"
#include "fp4lab/error.h"

namespace fp4lab::conformance {

namespace {

// By mnemonic, so that those with many forms do not dominate.
const std::vector<std::vector<sweep::Form>>& vocabulary() {
  static const std::vector<std::vector<sweep::Form>> forms = [] {
    auto file = std::filesystem::path(__FILE__).parent_path() / "../emulator/data/sweep_h200.txt";
    std::map<std::string, std::vector<sweep::Form>> by_name;
    for (sweep::Form& f : sweep::forms_of(file.string())) {
      if (f.numbers_only) continue;
      // ptxas may contract a product and a sum without rounding modifiers.
      const std::string& o = f.opcode;
      const bool sum = o.starts_with("add.") || o.starts_with("sub.") || o.starts_with("mul.");
      const bool rounds = o.find(".rn") != o.npos || o.find(".rz") != o.npos || o.find(".rm") != o.npos ||
                          o.find(".rp") != o.npos;
      if (sum && (o.find(".f") != o.npos || o.find(".bf") != o.npos) && !rounds) continue;
      by_name[o.substr(0, o.find('.'))].push_back(std::move(f));
    }
    std::vector<std::vector<sweep::Form>> keep;
    for (auto& [_, list] : by_name) keep.push_back(std::move(list));
    return keep;
  }();
  return forms;
}

}  // namespace

std::string Straight::Pools::declaration() const {
  return fmt::format("  .reg .b16 %h<{}>; .reg .b32 %r<{}>; .reg .b64 %d<{}>; .reg .pred %p<{}>;", h, r, d,
                     p);
}

void Straight::line(const std::string& s) {
  text_ += s;
  text_ += '\n';
  ++lines_;
}
void Straight::module_head() {
  line(".version 8.7");
  line(".target sm_90a");
  line(".address_size 64");
  line(
      ".const .align 8 .b32 table[16] = {1, -1, 0x3f800000, 7, 0x7f800000, 31, 0x80000000, 9, 100, "
      "0x40490fdb, 2, 0xdeadbeef, 0, 64, 0x7fffffff, 5};");
}
void Straight::find_places(unsigned threads) {
  line("  mov.u32 %me, %tid.x; mov.u32 %t, %ctaid.x;");
  line(fmt::format("  mad.lo.u32 %t, %t, {}, %me;", threads));
  line("  mad.wide.u32 %out, %t, 8, %out;");
  line(fmt::format("  mad.wide.u32 %in, %t, {}, %in;", pools_.bytes()));
}
Program Straight::finish(unsigned threads, unsigned ctas) {
  p_.text = std::move(text_);
  p_.threads = threads, p_.ctas = ctas;
  fill_input();
  p_.out_bytes = p_.slot_lines.size() * all_ * 8;
  return std::move(p_);
}
std::string Straight::label() { return fmt::format("L{}", labels_++); }
std::string Straight::reg(const std::string& type) {
  return type == "b16"   ? fmt::format("%h{}", r_.below(pools_.h))
         : type == "b32" ? fmt::format("%r{}", r_.below(pools_.r))
         : type == "b64" ? fmt::format("%d{}", r_.below(pools_.d))
                         : fmt::format("%p{}", r_.below(pools_.p));
}
std::string Straight::guard() { return fmt::format("@{}{} ", r_.one_in(2) ? "!" : "", reg("pred")); }

void Straight::log(const std::string& type, const std::string& name) {
  if (!logging_) return;
  const size_t at = p_.slot_lines.size() * all_ * 8;
  p_.slot_lines.push_back(lines_);
  if (type == "pred") {
    line(fmt::format("  selp.b32 %t, 1, 0, {};", name));
    line(fmt::format("  st.global.b32 [%out+{}], %t;", at));
  } else {
    line(fmt::format("  st.global.{} [%out+{}], {};", type, at, name));
  }
}

void Straight::load_pools() {
  unsigned at = 0;
  for (unsigned i = 0; i < pools_.d; ++i, at += 8)
    line(fmt::format("  ld.global.b64 %d{}, [%in+{}];", i, at));
  for (unsigned i = 0; i < pools_.r; ++i, at += 4)
    line(fmt::format("  ld.global.b32 %r{}, [%in+{}];", i, at));
  for (unsigned i = 0; i < pools_.h; ++i, at += 2)
    line(fmt::format("  ld.global.b16 %h{}, [%in+{}];", i, at));
  for (unsigned i = 0; i < pools_.p; ++i)
    line(fmt::format("  setp.lt.u32 %p{}, %r{}, %r{};", i, 2 * i, 2 * i + 1));
}

void Straight::fill_input() {
  p_.in.resize(size_t(all_) * pools_.bytes());
  size_t at = 0;
  auto put = [&](unsigned n, unsigned bytes) {
    for (unsigned i = 0; i < n; ++i, at += bytes) {
      const uint64_t x = random_operand(r_, bytes);
      std::memcpy(&p_.in[at], &x, bytes);
    }
  };
  for (unsigned t = 0; t < all_; ++t) put(pools_.d, 8), put(pools_.r, 4), put(pools_.h, 2);
}

void Straight::form(bool guarded) {
  const sweep::Form& f = r_.pick(r_.pick(vocabulary()));
  const std::string d = reg(f.destination);
  std::string s = fmt::format("{} {}", f.opcode, d);
  std::set<std::string> used;  // min(x, x) is x to the compiler, also for a NaN
  for (const std::string& source : f.sources) {
    std::string x = source;
    if (source == "b16" || source == "b32" || source == "b64") do
        x = reg(source);
      while (!used.insert(x).second);
    s += ", " + x;
  }
  // ptxas 13.0 expands some guarded instructions into several and guards only the first; abs and neg of a NaN
  // keep its payload or not, unpredictably.
  for (const char* name : {"testp", "set.", "cvt", "abs", "neg"})
    if (f.opcode.starts_with(name)) guarded = false;
  // ptxas 13.0 converts a register that holds an f32 where a shift's amount is narrower than what is
  // shifted.
  if (f.opcode.starts_with("sh") && f.sources.back() == "b32")
    line(fmt::format("  and.b32 {0}, {0}, 127;", s.substr(s.rfind(' ') + 1)));
  if (guarded) s = guard() + s;
  line("  " + s + ";");
  log(f.destination, d);
}

void Straight::carries() {
  static constexpr const char* kChains[][3] = {{"add.cc", "addc.cc", "addc"},
                                               {"sub.cc", "subc.cc", "subc"},
                                               {"mad.lo.cc", "madc.hi.cc", "addc"},
                                               {"mad.hi.cc", "madc.lo.cc", "madc.hi"}};
  const auto& chain = r_.pick(kChains);
  const bool wide = r_.one_in(3);
  std::string names[3];
  for (unsigned i = 0; i < 3; ++i) {
    const std::string type = wide ? "b64" : "b32";
    names[i] = reg(type);
    std::string s =
        fmt::format("  {}.{} {}, {}, {}", chain[i], wide ? "u64" : "u32", names[i], reg(type), reg(type));
    if (std::string_view(chain[i]).starts_with("mad")) s += ", " + reg(type);
    line(s + ";");
  }
  log(wide ? "b64" : "b32", names[2]);
  log(wide ? "b64" : "b32", names[0]);
  log(wide ? "b64" : "b32", names[1]);
}

}  // namespace fp4lab::conformance
