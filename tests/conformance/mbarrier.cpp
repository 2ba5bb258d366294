// One thread drives three mbarriers through random legal sequences: the results of waits and the pending
// counts of states must be the hardware's.
#include "fp4lab/error.h"
#include "program.h"

namespace fp4lab::conformance {

namespace {

// The barrier as the manual describes it (PTX ISA 9.7.13.15), to keep the sequences legal.
struct Barrier {
  unsigned expected = 0, pending = 0;
  int bytes = 0;
  unsigned phase = 0;
  unsigned token_phase = 0;
  bool has_token = false;

  void settle() {
    if (pending == 0 && bytes == 0) ++phase, pending = expected;
  }
};

class Writer {
 public:
  explicit Writer(uint64_t seed) : r_(seed) {}

  Program run() {
    text_ =
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out_p, .param .u64 "
        "in_p)\n{\n"
        "  .reg .b64 %out, %s<3>, %x; .reg .b32 %t; .reg .pred %p;\n  .shared .align 8 .b64 bar[3];\n"
        "  ld.param.u64 %out, [out_p];\n";
    lines_ = 8;
    for (unsigned i = 0; i < 3; ++i) init(i);
    for (unsigned n = 60 + r_.below(100); n > 0; --n) step();
    p_.text = text_ + "  ret;\n}\n";
    p_.threads = 1;
    p_.out_bytes = p_.slot_lines.size() * 8;
    return std::move(p_);
  }

 private:
  void line(const std::string& s) {
    text_ += "  " + s + "\n";
    ++lines_;
  }
  void log(const std::string& value) {
    const size_t slot = p_.slot_lines.size();
    p_.slot_lines.push_back(lines_);
    line(value);
    line(fmt::format("st.global.b32 [%out+{}], %t;", slot * 8));
  }
  void log_predicate() { log("selp.b32 %t, 1, 0, %p;"); }

  void init(unsigned i) {
    Barrier& b = b_[i] = {};
    b.expected = b.pending = 1 + r_.below(6);
    line(fmt::format("mbarrier.init.shared::cta.b64 [bar+{}], {};", 8 * i, b.expected));
  }

  void arrive(unsigned i) {
    Barrier& b = b_[i];
    if (b.pending == 0) return;
    const unsigned count = r_.one_in(2) ? 1 : 1 + r_.below(b.pending);
    const bool drop = r_.one_in(5) && b.expected > count;
    const bool expect = !drop && count == 1 && r_.one_in(3);
    const std::string name = drop ? "arrive_drop" : expect ? "arrive.expect_tx" : "arrive";
    const bool no_complete = !drop && !expect && count < b.pending && r_.one_in(4);
    const int bytes = static_cast<int>(16 * (1 + r_.below(8)));
    if (expect) b.bytes += bytes;
    b.token_phase = b.phase, b.has_token = true;
    line(fmt::format("mbarrier.{}{}.shared::cta.b64 %s{}, [bar+{}]{};", name,
                     no_complete ? ".noComplete" : "", i, 8 * i,
                     expect                       ? fmt::format(", {}", bytes)
                     : count == 1 && !no_complete ? ""
                                                  : fmt::format(", {}", count)));
    if (drop) b.expected -= count;
    b.pending -= count;
    if (r_.one_in(2)) log(fmt::format("mbarrier.pending_count.b64 %t, %s{};", i));
    b.settle();
  }

  void step() {
    const unsigned i = r_.below(3);
    Barrier& b = b_[i];
    switch (r_.below(10)) {
      case 0:
        if (b.bytes < 4000) {
          const unsigned k = 16 * (1 + r_.below(10));
          line(fmt::format("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar+{}], {};", 8 * i, k));
          b.bytes += static_cast<int>(k);
        }
        return;
      case 1:
      case 2:
        if (b.bytes > 0) {
          const unsigned k =
              r_.one_in(2) ? static_cast<unsigned>(b.bytes) : 1 + r_.below(static_cast<unsigned>(b.bytes));
          line(fmt::format("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar+{}], {};", 8 * i, k));
          b.bytes -= static_cast<int>(k);
          b.settle();
        }
        return;
      case 3:
      case 4: {
        const unsigned parity = r_.below(2);
        const bool done = (b.phase & 1) != parity;
        if (done && r_.one_in(2)) {  // try_wait may return false for no reason
          const std::string again = fmt::format("W{}", labels_++);
          line(fmt::format("{}: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar+{}], {};", again, 8 * i,
                           parity));
          line(fmt::format("@!%p bra {};", again));
        } else {
          line(fmt::format("mbarrier.test_wait.parity.shared::cta.b64 %p, [bar+{}], {};", 8 * i, parity));
        }
        return log_predicate();
      }
      case 5:
        if (b.has_token && b.phase - b.token_phase <= 1) {
          line(fmt::format("mbarrier.test_wait.shared::cta.b64 %p, [bar+{}], %s{};", 8 * i, i));
          log_predicate();
        }
        return;
      case 6:
        if (r_.one_in(4)) {
          line(fmt::format("mbarrier.inval.shared::cta.b64 [bar+{}];", 8 * i));
          init(i);
        }
        return;
      default:
        return arrive(i);
    }
  }

  Random r_;
  Program p_;
  std::string text_;
  uint32_t lines_ = 0, labels_ = 0;
  Barrier b_[3];
};

}  // namespace

Program generate_mbarrier(uint64_t seed) { return Writer(seed).run(); }

}  // namespace fp4lab::conformance
