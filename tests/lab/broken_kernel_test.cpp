// Kernels that are wrong on purpose never pass, and what is said names the line or the thing.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "fp4lab/mutate.h"
#include "fp4lab/run.h"
#include "fp4lab/sm100.h"

using namespace fp4lab;

namespace {

struct Lab {
  Device device = Device::open("emulator", sm100::kArch);
  Case spec = find_case("group:100/128/4096");  // more stages than the ring has, a ragged tile
  Trial trial{device, spec, Distribution::kModerate, 1};

  void seed(uint64_t s) {
    reinterpret_cast<decltype(&fp4lab_emulator_seed)>(device.driver().symbol("fp4lab_emulator_seed"))(s);
  }
};

// The line (from 1) where `what` begins in `text`.
int line_of(const std::string& text, size_t what) {
  return 1 + int(std::count(text.begin(), text.begin() + long(what), '\n'));
}

// Whether the PTX line was inlined from where the rung's source calls `function`: .loc says so before it.
bool is_called_by(const Mutant& m, const std::string& ptx, const std::string& source, const char* function) {
  const size_t call = source.find(std::string(function) + "(");
  if (call == source.npos) return false;
  const std::string from = fmt::format("inlined_at 1 {} ", line_of(source, call));
  std::vector<std::string> lines;
  std::istringstream in(ptx);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (int at = m.line - 2; at >= 0 && at > m.line - 10; --at)
    if (lines[size_t(at)].find(from) != std::string::npos) return true;
  return false;
}

// Equivalent to the original: what the PTX means does not change.
bool equivalent(const Mutant& m, const jit::Artifact& artifact) {
  // The accumulator is added to from the second MMA on in any case: only the first one's predicate matters.
  if (m.rule == "accumulate always") return true;
  // Lanes reconverge after the elected lane's block with or without it.
  if (m.rule == "warp sync removed") return true;
  // After its last load the load thread sees the last stages released before the CTA may end. The epilogue
  // waits for a later commit of the same pipe, so a single one of these waits hides behind that one.
  if ((m.rule == "mbarrier wait removed" || m.rule == "one try, no loop") &&
      is_called_by(m, artifact.ptx, artifact.source, "drain"))
    return true;
  // Values cannot show a missing fence; the ordering checker does (tests/emulator).
  return m.rule == "fence removed";
}

}  // namespace

TEST_CASE("no broken variant of the baseline or the warp-specialised kernel passes") {
  Lab lab;
  for (const std::string rung : {"v0_baseline", "v2_warp_specialized"}) {
    const Candidate candidate = candidate_for(sm100::find_rung(Op::kGroup, rung), lab.spec, {});
    const auto artifact = jit::compile(job_of(candidate));
    REQUIRE(run_trial(lab.device, lab.trial, candidate).passed());
    int reported = 0;
    for (const Mutant& m : mutants(artifact->ptx)) {
      if (equivalent(m, *artifact)) continue;
      CAPTURE(rung);
      CAPTURE(m.rule);
      CAPTURE(m.line);
      CAPTURE(m.before);
      bool noticed = false;
      for (uint64_t s = 0; s < 20 && !noticed; ++s) {
        lab.seed(s);
        const RunResult r = run_ptx(lab.device, lab.trial, candidate, m.applied(artifact->ptx), "mutant");
        noticed = !r.passed();
        reported += !r.error.empty();
        if (noticed && r.error.empty()) CHECK(r.exact.describe().find("first: row") != std::string::npos);
      }
      CHECK(noticed);
    }
    CHECK(reported > 20);
  }
}

TEST_CASE("what is said of a broken kernel names the place and the values") {
  Lab lab;
  const Candidate candidate = candidate_for(sm100::find_rung(Op::kGroup, "v2"), lab.spec, {});
  const auto artifact = jit::compile(job_of(candidate));
  const auto said = [&](const char* rule) {
    for (const Mutant& m : mutants(artifact->ptx)) {
      if (m.rule != rule) continue;
      const RunResult r = run_ptx(lab.device, lab.trial, candidate, m.applied(artifact->ptx), "mutant");
      if (!r.error.empty()) return r.error;
    }
    return std::string("nothing");
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string deadlock = said("expect_tx + 16 bytes");
  CHECK(has(deadlock, "deadlock"));
  CHECK(has(deadlock, "16 bytes pending"));
  CHECK(has(deadlock, "mbarrier.try_wait"));
  // The wait that explains the others is named first, with who announced and who delivered.
  CHECK(has(deadlock, "look first at warp 5, lane 0"));
  CHECK(has(deadlock, "16 are missing"));
  CHECK(has(deadlock, "announced 36880, by warp 4, lane 0"));
  const std::string silent_pipe = said("commit removed");
  CHECK(has(silent_pipe, "look first at warp 4, lane 0"));
  CHECK(has(silent_pipe, "no arrival yet on the mbarrier"));
  CHECK(has(silent_pipe, "has not arrived since phase 0: warp 4, lane 0, which now waits for the mbarrier"));
  CHECK(has(silent_pipe, "last: "));
  CHECK(has(said("mbarrier phase flipped"), "parity"));
  CHECK(has(said("dealloc removed"), "never freed"));
  CHECK(has(said("scale column off by one"), "scale"));
  CHECK(has(said("tcgen05.wait removed"), "before"));
}

TEST_CASE("every mutant changes one line and keeps the line numbers") {
  const std::string ptx =
      "a;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;\n\tfence.proxy.async;\n\tbar.sync 0;\n";
  const auto all = mutants(ptx);
  REQUIRE(all.size() == 8);
  CHECK(all[0].rule == "mbarrier wait removed");
  CHECK(all[0].applied(ptx) == "a;\n\tsetp.eq.u32 p, 0, 0;\n\tfence.proxy.async;\n\tbar.sync 0;\n");
  CHECK(all[1].after ==
        "{ .reg .b32 m; xor.b32 m, %r2, 1; mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], m; }");
  CHECK(all[4].line == 3);
  CHECK(all[5].rule == "proxy fence of global memory alone");
  CHECK(all[7].rule == "bar removed");
}

TEST_CASE("mutants of inline assembly as other programs write it") {
  const auto only = [](const std::string& ptx, const char* rule) -> std::string {
    for (const Mutant& m : mutants(ptx))
      if (m.rule == rule) return m.applied(ptx);
    return "none";
  };
  // Several instructions, a label and a block on a line, and a hint behind the phase.
  CHECK(only("{ .reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], %r2, %r3; @P1 "
             "bra DONE; }",
             "mbarrier phase flipped") ==
        "{ .reg .pred P1; LAB_WAIT: { .reg .b32 m; xor.b32 m, %r2, 1; "
        "mbarrier.try_wait.parity.shared::cta.b64 P1, "
        "[%r1], m, %r3; } @P1 bra DONE; }");
  // An instruction on several lines.
  CHECK(only("x;\ntcgen05.mma.cta_group::1.kind::f16 [%r1],\n  %rd1, %rd2, %r3, p;\ny;", "mma removed") ==
        "x;\n\n\ny;");
  // A guard goes with the instruction, and stays in front of an altered one.
  CHECK(only("@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];", "arrive removed") == "");
  CHECK(only("@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];", "arrive doubled") ==
        "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1]; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];");
  CHECK(only("@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;", "expect_tx + 16 bytes") ==
        "{ .reg .b32 m; add.u32 m, 64, 16; @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], m; }");
  CHECK(only("@p mbarrier.arrive.shared::cta.b64 _, [%r1];", "guard removed") ==
        "mbarrier.arrive.shared::cta.b64 _, [%r1];");
  // What one line of CUDA makes goes together; a count grows by a constant expression.
  CHECK(only("barrier.cluster.arrive.aligned;\n// between\nbarrier.cluster.wait.aligned;\nx;",
             "cluster barrier removed") == "\n\n\nx;");
  CHECK(only("cp.async.bulk.wait_group.read 1;", "bulk wait_group + 1") ==
        "cp.async.bulk.wait_group.read 1+1;");
  CHECK(only("xor.b32 %r1, %r2, 1;", "phase toggle removed") == "mov.b32 %r1, %r2;");
  CHECK(mutants("xor.b32 %r1, %r2, 7;").empty());
  // Comments, directives and operand lists are no instructions.
  CHECK(
      mutants(
          "// fence.proxy.async;\n.visible .entry k(.param .u64 a) {\n.reg .b32 %r<4>;\n/* bar.sync 0; */ }")
          .empty());
  CHECK(mutants(".visible .entry k()\n{\n\tbar.sync 0;\n}\n").size() == 1);
  // A prefetch is no copy.
  CHECK(only("cp.async.bulk.prefetch.L2.global [%rd1], 64;", "copy removed") == "none");
}

TEST_CASE("how a report leads to an altered line") {
  const std::string ptx =
      "\tbar.sync 0;\n\tadd.u32 %r1, %r1, 1;\n\tadd.u32 %r1, %r1, 2;\n\tadd.u32 %r1, %r1, 3;\n"
      "\tadd.u32 %r1, %r1, 4;\n\tadd.u32 %r1, %r1, 5;\n\tfence.proxy.async;\n\tadd.u32 %r1, %r1, 6;\n"
      "\tadd.u32 %r1, %r1, 7;\n\tadd.u32 %r1, %r1, 8;\n\tadd.u32 %r1, %r1, 9;\n\tadd.u32 %r1, %r1, 10;\n"
      "\tadd.u32 %r1, %r1, 11;\n\tbar.sync 1;\n\tbar.sync 2;\n";
  const auto all = mutants(ptx);
  const auto fence = std::ranges::find(all, 7, &Mutant::line);
  REQUIRE(fence != all.end());
  const auto said = [&](const char* report) { return naming(ptx, *fence, report); };
  CHECK(said("first: st\n k.ptx:7  fence.proxy.async;") == Naming::line);
  CHECK(said("line 7") == Naming::line);
  CHECK(said("k.ptx:71") == Naming::none);
  CHECK(said("module:5  add") == Naming::near);      // a few instructions away
  CHECK(said("last: 14 bar.sync") == Naming::near);  // the next one that synchronises
  CHECK(said("last: 1 bar.sync; 15 bar.sync") == Naming::near);
  CHECK(said("k.ptx:15") == Naming::none);  // the next but one
  CHECK(said("there: fence.proxy.async between lines 0 and 99") == Naming::gap);
  CHECK(said("there: a wait between lines 0 and 99") == Naming::none);
  CHECK(said("there: fence.proxy.async between lines 30 and 99") == Naming::none);
}
