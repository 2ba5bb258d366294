// Chains: any form of the sweep (tests/emulator/sweep.h) behind any other whose operand it can make, one to
// three of them, on loaded words, constants and the same register again. What ptxas makes of two instructions
// that meet shows in programs of a few lines.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "../emulator/sweep.h"
#include "fp4lab/error.h"
#include "program.h"

namespace fp4lab::conformance {

namespace {

using sweep::Form;

constexpr unsigned kThreads = 256;

bool is_register(const std::string& type) { return type == "b16" || type == "b32" || type == "b64"; }
unsigned bytes_of(const std::string& type) { return type == "b16" ? 2 : type == "b64" ? 8 : 4; }

// Those whose results are known bit by bit, NaNs too.
const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = [] {
    const auto data = std::filesystem::path(__FILE__).parent_path() / "../emulator/data";
    std::vector<Form> all;
    for (const char* name : {"sweep_h200.txt", "sweep_video_h200.txt"})
      for (Form& f : sweep::forms_of((data / name).string()))
        if (!f.numbers_only && f.hash) all.push_back(std::move(f));
    return all;
  }();
  return kForms;
}

class Chain {
 public:
  explicit Chain(uint64_t seed) : r_(seed) {}

  Program make() {
    const unsigned length = r_.one_in(4) ? 1 : r_.one_in(3) ? 3 : 2;
    for (unsigned k = 0; k < length; ++k) step(k, k + 1 == length);
    return program();
  }

 private:
  // A predicate has no reader among the forms, so it ends the chain.
  const Form& form(bool last) {
    for (;;) {
      const Form& f = r_.pick(forms());
      const bool fits = made_.empty() || std::ranges::find(f.sources, type_) != f.sources.end();
      if (fits && (last || f.destination != "pred")) return f;
    }
  }

  void step(unsigned k, bool last) {
    const Form& f = form(last);
    std::vector<unsigned> takes;  // slots that what was made before fits in
    for (unsigned slot = 0; slot < f.sources.size(); ++slot)
      if (!made_.empty() && f.sources[slot] == type_) takes.push_back(slot);
    const unsigned taken = takes.empty() ? ~0u : r_.pick(takes);
    std::string line;
    for (unsigned slot = 0; slot < f.sources.size(); ++slot) {
      const std::string& source = f.sources[slot];
      line += ", " + (slot == taken ? made_ : is_register(source) ? value(source) : source);
    }
    made_ = fmt::format("%w{}", k), type_ = f.destination;
    declare(type_, made_);
    body_.push_back(fmt::format("  {} {}{};", f.opcode, made_, line));
    if (is_register(type_)) known_[type_].push_back(made_);
    if (last || r_.one_in(2)) store();
  }

  std::string value(const std::string& type) {
    std::vector<std::string>& known = known_[type];
    const unsigned how = r_.below(10);
    if (how < 2 && !known.empty()) return r_.pick(known);
    const std::string name = fmt::format("%v{}", values_++);
    declare(type, name);
    known.push_back(name);
    if (how < 5) {
      body_.push_back(fmt::format("  mov.{} {}, {:#x};", type, name, random_operand(r_, bytes_of(type))));
    } else {
      loads_.push_back(fmt::format("  ld.global.{} {}, [%in+{}];", type, name, slot_at(inputs_.size())));
      inputs_.push_back(bytes_of(type));
    }
    return name;
  }

  static size_t slot_at(size_t n) { return n * kThreads * 8; }
  void declare(const std::string& type, const std::string& name) {
    declarations_.push_back(fmt::format("  .reg .{} {};", type, name));
  }

  // Behind all, so that stores part nothing.
  void store() {
    const size_t to = slot_at(makers_.size());
    makers_.push_back(body_.size());
    if (type_ == "pred") {
      stores_.push_back(fmt::format("  selp.b64 %truth, 1, 0, {};", made_));
      stores_.push_back(fmt::format("  st.global.b64 [%out+{}], %truth;", to));
    } else {
      stores_.push_back(fmt::format("  st.global.{} [%out+{}], {};", type_, to, made_));
    }
  }

  Program program() {
    Program p;
    p.threads = kThreads;
    std::vector<std::string> lines{".version 8.7",
                                   ".target sm_90a",
                                   ".address_size 64",
                                   ".visible .entry k(.param .u64 out_p, .param .u64 in_p)",
                                   "{",
                                   "  .reg .b64 %out, %in, %truth;",
                                   "  .reg .b32 %me;"};
    const auto add = [&](const std::vector<std::string>& more) {
      lines.insert(lines.end(), more.begin(), more.end());
    };
    add(declarations_);
    add({"  ld.param.u64 %out, [out_p];", "  ld.param.u64 %in, [in_p];", "  mov.u32 %me, %tid.x;",
         "  mad.wide.u32 %out, %me, 8, %out;", "  mad.wide.u32 %in, %me, 8, %in;"});
    add(loads_);
    for (const size_t made : makers_) p.slot_lines.push_back(static_cast<uint32_t>(lines.size() + made));
    add(body_);
    add(stores_);
    add({"  ret;", "}"});
    for (const std::string& line : lines) p.text += line + "\n";
    p.out_bytes = slot_at(makers_.size());
    p.in.resize(slot_at(inputs_.size()));
    for (size_t n = 0; n < inputs_.size(); ++n)
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        const uint64_t x = random_operand(r_, inputs_[n]);
        std::memcpy(&p.in[slot_at(n) + 8 * thread], &x, 8);
      }
    return p;
  }

  Random r_;
  std::string made_, type_;  // by the last form
  std::map<std::string, std::vector<std::string>> known_;
  unsigned values_ = 0;
  std::vector<unsigned> inputs_;  // bytes of each
  std::vector<size_t> makers_;    // of what is stored: lines of the body up to them
  std::vector<std::string> declarations_, loads_, body_, stores_;
};

}  // namespace

Program generate_chain(uint64_t seed) { return Chain(seed).make(); }

}  // namespace fp4lab::conformance
