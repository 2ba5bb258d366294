// What is counted in a kernel's machine code, on listings short enough to count by hand.
#include "fp4lab/machine_code.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "fp4lab/jit.h"
#include "fp4lab/problem.h"
#include "fp4lab/sm100.h"

using namespace fp4lab;

namespace {

constexpr const char* kSource =
    "kernel() {\n"
    "  // -- setup\n"                          // line 2
    "  begin();\n"                             // 3
    "  // -- multiply warp of the even CTA\n"  // 4
    "  loop();\n"                              // 5
    "  // -- epilogue: warps 0..3\n"           // 6
    "  store();\n"                             // 7
    "}\n";

// A line of the file, called from nowhere.
std::string at(int line) {
  return fmt::format("\t//## File \"/p/ptx/sm100/group_gemm/k.cu\", line {}\n", line);
}
std::string inlined(int line) {
  return fmt::format(
      "\t//## File \"/p/ptx/isa/x.cuh\", line 9 inlined at \"/p/ptx/sm100/group_gemm/k.cu\", line {}\n",
      line);
}
std::string code(const char* text) { return fmt::format("        /*0010*/                   {} ;\n", text); }

}  // namespace

TEST_CASE("machine code: a stage is what is between its wait and its commit, on the way with the most MMAs") {
  const std::string assembly =
      at(3) + code("S2R R0, SR_TID.X") + inlined(3) + at(3) + code("MEMBAR.ALL.CTA") +
      code("MEMBAR.ALL.GPU") + at(5) + code("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R1], R2") + ".L_x_1:\n" +
      code("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5") + code("@!P0 BRA `(.L_x_4)") +
      code("@P1 BRA `(.L_x_2)") + code("UTCCP.T.S.2CTA.4x32dp128bit tmem[UR4], gdesc[UR6]") +
      code("UTCOMMA.2CTA.4X gdesc[UR14], gdesc[UR16], tmem[UR46]") +
      code("UTCOMMA.2CTA.4X gdesc[UR14], gdesc[UR16], tmem[UR46]") + code("BRA `(.L_x_3)") + ".L_x_2:\n" +
      code("UTCOMMA.2CTA.4X gdesc[UR14], gdesc[UR16], tmem[UR46]") + ".L_x_3:\n" +
      code("UTCBAR.2CTA.MULTICAST [UR9], URZ, UR12") + code("@P2 BRA `(.L_x_1)") +
      code("UTCBAR.2CTA.MULTICAST [UR4], URZ, UR9") + code("EXIT") + ".L_x_4:\n" + code("BRA `(.L_x_1)");
  const MachineCode m = read_machine_code(assembly, kSource, "group_gemm/k.cu", 1);
  CHECK(m.instructions == 17);
  REQUIRE(m.stage);
  CHECK(m.stage->to_first_copy == 4);  // the wait, two branches not taken, the copy
  CHECK(m.stage->to_commit == 8);
  CHECK(m.gpu_fences == std::map<std::string, int>{{"setup", 1}});
  CHECK(m.global_stores.empty());
  CHECK_FALSE(m.epilogue);
}

TEST_CASE("machine code: stores by their width, the epilogue by 16 columns of 32 lanes") {
  const std::string loop = at(7) + ".L_x_7:\n" + code("LDTM.16dp256bit.x2 R12, tmem[UR4]") +
                           code("LDTM.16dp256bit.x2 R4, tmem[UR5+0x100000]") +
                           code("F2FP.F16.F32.PACK_AB R28, R13, R12") +
                           code("STG.E.NA.ENL2.256 desc[UR8][R4.64], R24, R28") + code("@!P0 BRA `(.L_x_7)");
  const std::string rest = code("STG.E.NA.U16 desc[UR8][R4.64], R24") +
                           code("@P0 STG.E.NA.128 desc[UR8][R4.64], R24") +
                           code("STG.E desc[UR8][R4.64], R24") + code("MEMBAR.SC.SYS");
  const MachineCode one = read_machine_code(loop + rest, kSource, "group_gemm/k.cu", 1);
  CHECK(one.global_stores == std::map<int, int>{{2, 1}, {4, 1}, {16, 1}, {32, 1}});
  CHECK(one.gpu_fences == std::map<std::string, int>{{"epilogue", 1}});
  CHECK(one.epilogue == doctest::Approx(5));  // two loads of 16 lanes x 16 columns
  CHECK(read_machine_code(loop, kSource, "group_gemm/k.cu", 2).epilogue == doctest::Approx(10));
}

TEST_CASE("machine code: the top rungs keep to what they claim") {
  if (jit::tool_path("nvdisasm").empty()) {
    MESSAGE("no nvdisasm here");
    return;
  }
  struct Claim {
    Op op;
    const char *rung, *shape;
    std::vector<std::string> knobs;
    int stage;
  };
  const Claim claims[] = {
      {Op::kGroup,
       "v15",
       "g8k2048",
       {"mma_n=128", "halves=1", "collector=0", "split_k=1", "acc_slots=2", "stages=7"},
       100},
      {Op::kGroup, "v15", "g8k2048", {"mma_n=128", "halves=2", "split_k=1", "acc_slots=3", "stages=5"}, 140},
      {Op::kDual, "v7", "dual-256-4096-7168", {}, 140},
      {Op::kDual, "v7", "dual-512-4096-7168", {}, 140}};
  for (const Claim& c : claims) {
    const auto& rung = sm100::find_rung(c.op, c.rung);
    const Candidate candidate{&rung, sm100::plan_for(rung, find_case(c.shape), c.knobs), {}};
    CAPTURE(plan_line(candidate));
    require_legal(candidate, find_case(c.shape));
    const auto artifact = jit::compile(job_of(candidate));
    const MachineCode m = read_machine_code(jit::disassemble(artifact->cubin), artifact->source,
                                            rung.file().substr(std::string_view("ptx/sm100/").size()),
                                            c.op == Op::kDual ? 2 : 1);
    CHECK(m.gpu_fences.empty());
    REQUIRE(m.stage);
    CHECK(m.stage->to_commit <= c.stage);
    CHECK(m.global_stores.count(2) == 0);
    if (c.op == Op::kGroup) CHECK(*m.epilogue <= 40);
  }
}
