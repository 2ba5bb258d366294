// Consistency of the opcode table: every row parses the texts that it spells, no text fits two rows, every
// row is bound, and the generated page names every row.
#include "emulator/isa/table.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "emulator/isa/support.h"
#include "emulator/ptx/parser.h"

using namespace fp4lab::emu;

namespace {

using Form = OperandSpec::Form;

// Registers are untyped (.b8 ... .b128), which fit every type of their size.
std::string register_of(unsigned bits, std::mt19937& random) {
  unsigned n = random() % 4;
  switch (bits) {
    case 1:
      return fmt::format("%p{}", n);
    case 8:
      return fmt::format("%b{}", n);
    case 16:
      return fmt::format("%h{}", n);
    case 64:
      return fmt::format("%rd{}", n);
    case 128:
      return fmt::format("%q{}", n);
    default:
      return fmt::format("%r{}", n);
  }
}

// wgmma's shape fixes its vectors: N/2 accumulator registers (N/4 of fp16) and four of A.
unsigned wgmma_count(const OperandSpec& spec, const Source& source) {
  if (spec.form == Form::vector) return 4;
  unsigned n = 0;
  for (std::string_view t : source.tokens)
    if (t.starts_with("m64n")) n = static_cast<unsigned>(std::stoul(std::string(t.substr(4))));
  return source.type(0) == Type::f16 ? n / 4 : n / 2;
}

// mma's shape fixes its vectors too: D and C, A, B of mnk elements, over 32 lanes.
unsigned mma_count(const OperandSpec& spec, const Source& source) {
  unsigned m = 0, k = 0;
  for (std::string_view t : source.tokens)
    if (t.starts_with("m8n8k") || t.starts_with("m16n8k")) {
      m = t[1] == '8' ? 8 : 16;
      k = static_cast<unsigned>(std::stoul(std::string(t.substr(t.rfind('k') + 1))));
    }
  const auto has = [&](std::string_view word) { return source.has(word); };
  const unsigned bits = has("f64")                                             ? 64
                        : has("tf32")                                          ? 32
                        : has("e4m3") || has("e5m2") || has("s8") || has("u8") ? 8
                        : has("s4") || has("u4")                               ? 4
                        : has("b1")                                            ? 1
                                                                               : 16;
  const unsigned lane_bits = bits == 64 ? 64 : 32;
  const unsigned stored = has("sp") || has("sp::ordered_metadata") ? k / 2 : k;
  const unsigned products = m == 8 && k == 4 && bits == 16 ? 4 : 1;
  if (spec.text.starts_with("{a}")) return products * m * stored * bits / 32 / lane_bits;
  if (spec.text.starts_with("{b}")) return products * 8 * k * bits / 32 / lane_bits;
  const Type sum = source.type(spec.text.starts_with("{c}") ? 3 : 0);
  return products * m * 8 / 32 / (sum == Type::f16 ? 2 : 1);
}

// wmma: accumulators, A or B of the shape, over 32 lanes; fp16 operands have 8 registers for every shape,
// operands of less than 8 bits one.
unsigned wmma_count(const OperandSpec& spec, const Source& source) {
  unsigned m = 0, n = 0, k = 0;
  for (std::string_view t : source.tokens)
    if (t.starts_with("m") && t.find('n') != t.npos && t.find('k') != t.npos && t[1] >= '0' && t[1] <= '9') {
      m = static_cast<unsigned>(std::stoul(std::string(t.substr(1))));
      n = static_cast<unsigned>(std::stoul(std::string(t.substr(t.find('n') + 1))));
      k = static_cast<unsigned>(std::stoul(std::string(t.substr(t.find('k') + 1))));
    }
  const bool product = source.tokens[1] == "mma";
  const bool a = product ? spec.text.starts_with("{a}") : source.has("a");
  const bool b = product ? spec.text.starts_with("{b}") : source.has("b");
  const bool c_too = product && source.type(2) == Type::none;  // D's type, then C's
  const Type sum = c_too && spec.text.starts_with("{c}") ? source.type(1) : source.type(0);
  if (!a && !b) return m * n / 32 / (sum == Type::f16 ? 2 : 1);
  if (m == 8 && n == 8 && k >= 32) return 1;
  const Type element = !product ? source.type(0) : source.type(2) == Type::none ? Type::f16 : source.type(1);
  // Registers of 64 bits for fp64, of 32 for all others.
  const unsigned bits = bits_of(element);
  return element == Type::f16 ? 8 : (a ? m * k : k * n) * bits / std::max(32u, bits) / 32;
}

std::string vector_text(const OperandSpec& spec, Type type, const Source& source, std::mt19937& random) {
  constexpr unsigned kCounts[] = {1, 2, 4, 8, 16, 32, 64, 128, 3};
  constexpr unsigned kBits[] = {8, 16, 32, 64};
  unsigned count = kCounts[random() % std::size(kCounts)];
  for (std::string_view t : {"v2", "v4", "v8"})
    if (source.has(t)) count = static_cast<unsigned>(t[1] - '0');
  unsigned bits = type == Type::none ? kBits[random() % 4] : bits_of(type);
  bool counted = source.has("v2") || source.has("v4") || source.has("v8");
  const bool wgmma = source.tokens[0] == "wgmma";
  const bool mma = source.tokens[0] == "mma";
  if (wgmma) count = wgmma_count(spec, source);
  const bool wmma = source.tokens[0] == "wmma";
  if (mma) count = mma_count(spec, source);
  if (wmma) count = wmma_count(spec, source);
  if (!counted && !wgmma && !mma && !wmma && random() % 3 == 0) {
    unsigned whole = bits_of(source.type(0));
    return register_of(type == Type::none && whole ? whole : bits, random);
  }
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i) text += (i ? ", " : "") + register_of(bits, random);
  return text + "}";
}

std::string operand_text(const OperandSpec& spec, const Source& source, std::mt19937& random) {
  Type type = spec.type_in(source);
  unsigned bits = type == Type::none ? 32 : bits_of(type);
  auto predicate = [&] { return fmt::format("%p{}", random() % 4); };
  auto address = [&] { return fmt::format("[{}+{}]", random() % 2 ? "%rd1" : "%r1", 16 * (random() % 3)); };
  switch (spec.form) {
    case Form::value:
    case Form::destination:
      return register_of(bits, random);
    case Form::destination_pair:
      return register_of(bits, random) + (random() % 2 ? "|" + predicate() : "");
    case Form::predicate:
    case Form::predicate_target:
      return predicate();
    case Form::predicate_pair:
      return predicate() + (random() % 2 ? "|" + predicate() : "");
    case Form::address:
      return address();
    case Form::tensor: {
      unsigned n = 1 + random() % 5;
      std::string text = "[%rd1, {%r0";
      for (unsigned i = 1; i < n; ++i) text += fmt::format(", %r{}", i);
      return text + "}]";
    }
    case Form::vector:
    case Form::vector_target:
      return vector_text(spec, type, source, random);
    case Form::label:
      return "END";
    case Form::labels:
      return "LIST";
    case Form::function:
      return "f";
    case Form::immediate: {
      if (source.tokens[0] == "wgmma") return random() % 3 ? "1" : "0";  // signs, transpositions, selectors
      constexpr int kValues[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, -1};
      return fmt::format("{}", kValues[random() % std::size(kValues)]);
    }
    case Form::value_or_address:
      return random() % 2 ? address() : register_of(bits, random);
  }
  return "";
}

struct Spelt {
  std::vector<std::string_view> tokens;
  std::string text;  // the whole instruction
};

Spelt spell(const Entry& e, std::mt19937& random) {
  Spelt s{e.spelling.sample(random), {}};
  Source source;
  source.tokens = s.tokens;
  for (std::string_view t : s.tokens) s.text += (s.text.empty() ? "" : ".") + std::string(t);
  bool first = true;
  for (const OperandSpec& spec : e.operands) {
    bool there = spec.only_with.empty() ? !spec.optional || random() % 2 : source.has(spec.only_with);
    if (!there) continue;
    s.text += (first ? " " : ", ") + operand_text(spec, source, random);
    first = false;
  }
  s.text += ";";
  return s;
}

std::string module_text(const Opcode& row, const std::string& instruction) {
  return fmt::format(
      ".version 9.0\n.target {}\n.address_size 64\n.func f() {{ ret; }}\n.entry k() {{\n"
      ".reg .pred %p<4>; .reg .b8 %b<4>; .reg .b16 %h<4>; .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .b128 "
      "%q<4>;\n"
      "LIST: .branchtargets END, END;\n{}\nEND: ret;\n}}\n",
      row.target == 901 ? "sm_90a" : "sm_100a", instruction);
}

}  // namespace

TEST_CASE("every row parses its own spellings, and lookup finds that row") {
  for (const Entry& e : Table::standard().entries()) {
    CAPTURE(e.opcode->name);
    std::mt19937 random(7);
    unsigned bound = 0;
    std::string refused;
    for (int i = 0; i < 3000 && bound < 20; ++i) {
      Spelt s = spell(e, random);
      CAPTURE(s.text);
      try {
        auto m = parse(module_text(*e.opcode, s.text), "row");
        REQUIRE(m->functions[0].code.size() >= 1);
        CHECK(m->functions[0].code[0].opcode->name == e.opcode->name);
        bool has_body = m->functions[0].code[0].body;
        CHECK(has_body);
        ++bound;
      } catch (const PtxError& error) {  // the binder may refuse a combination, but not all of them
        refused = error.what();
      }
    }
    CHECK_MESSAGE(bound > 0, refused);
  }
}

TEST_CASE("combinations of modifiers and operands are refused as by ptxas") {
  struct Case {
    const char *statement, *why;
  };
  constexpr Case kCases[] = {
      {"cvt.rn.u32.u64 %r1, %d1", "a rounding modifier is not for cvt to .u32 from .u64"},
      {"cvt.f16.f32 %h1, %r1", "a rounding modifier is needed for cvt to .f16 from .f32"},
      {"cvt.sat.u32.u16 %r1, %h1", ".sat is not for cvt to .u32 from .u16"},
      {"cvt.rni.ftz.u8.f16 %h1, %h2", ".ftz is not for"},
      {"cvt.rm.relu.f16.f32 %h1, %r1", ".relu and .satfinite"},
      {"set.eq.f32.f16 %r1, %h1, %h2", "set cannot write .f32 for a comparison of .f16"},
      {"setp.eq.f16 %p1|%p2, %h1, %h2", "setp of .f16 writes one predicate"},
      {"ld.volatile.local.u32 %r1, [%d1]", "private or constant"},
      {"ld.relaxed.gpu.global.cg.u32 %r1, [%d1]", "a cache operator is for .weak accesses only"},
      {"ld.shared.L1::evict_last.u32 %r1, [%r2]",
       "eviction priorities, hints and prefetches are for .global"},
      {"ld.nc.u32 %r1, [%d1]", ".nc is for .global"},
      {"ld.global.v8.b32 {%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1}, [%d1]", "needs .target sm_100 or later"},
      {"add.u32 _, %r1, %r2", "the result of add cannot be discarded"},
      {"ld.global.u32 %r1, [64]", "a constant address is for .local memory only"},
      {"ld.global.u32 %r1, [s]", "'s' is a .shared variable, the instruction accesses global memory"},
      {"cp.async.ca.shared.global [g], [%d1], 4",
       "'g' is a .global variable, the instruction accesses shared"},
      {"mbarrier.init.b64 [g], 1", "the instruction accesses shared memory"},
      {"cvta.shared.u64 %d1, g", "the instruction accesses shared memory"},
      {"cvta.to.global.u64 %d1, g", "takes no address of a variable here"},
      {"st.global.u64 [%d1], g", "takes no address of a variable here"},
      {"ld.global.v2.u32 {%r1, 1}, [%d1]", "a constant cannot be written"},
      {"ld.global.v2.u16 {%r1, %h1}, [%d1]", "the elements of a vector have one width"},
      {"ld.global.v2.u32 {_, _}, [%d1]", "at least one element of the vector must be kept"},
      {"setp.eq.u32 _|_, %r1, %r2", "at least one result must be kept"},
      {"shfl.sync.idx.b32 _|%p1, %r1, 0, 31, -1", "the result of shfl cannot be discarded"},
      {"elect.sync %r1|_, -1", "the result of elect cannot be discarded"},
      {"mbarrier.test_wait.shared.b64 _, [%r1], %d1", "cannot be discarded"},
      {"add.bf16 %u1, %u1, %u2", "the instruction needs .bf16"},
      {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r1, [%r1]", "expected a vector"},
      {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r1,%r1,%r1,%r1}, {%u32,%u32}, {%r1}, "
       "{%r1,%r1,%r1,%r1}",
       "register '%u32' is .u32, the instruction needs .f16x2"},
      {"atom.global.cas.L2::cache_hint.b32 %r1, [%d1], %r1, %r2, %d1", "cache_hint"},
      {"atom.shared.add.L2::cache_hint.u32 %r1, [%r1], %r1, %d1", "a cache hint is for .global memory"},
      {"cp.async.bulk.global.shared::cluster.mbarrier::complete_tx::bytes [%d1], [%r1], %r1, [%r2]",
       "is not supported"},
      {"cp.async.bulk.tensor.1d.cta_group::1.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], "
       "[%d1, {%r1}], [%r2]",
       "cta_group::1 needs .target sm_100a"},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%d1], [%r1], %r2",
       "is not supported here"},
      {"cp.async.ca.shared.global [%r1], [%d1], 4, 8", "src-size is 8, cp-size 4"},
      {"cvt.rn.satfinite.e2m3x2.f32 %h1, %r1, %r2", "needs .target sm_100a"},
      {"createpolicy.fractional.L2::evict_first.L2::evict_last.b64 %d1", "is not supported here"},
      {"mbarrier.arrive.shared.expect_tx.b64 %d1, [%r1], 8", "modifier .expect_tx is not supported here"},
      {"mbarrier.arrive.noComplete.release.cluster.shared.b64 %d1, [%r1], 1",
       ".noComplete is for .release.cta"},
      {"pmevent 16", "16 is not from 0 to 15"},
      {"mbarrier.arrive.shared::cluster.b64 %d1, [%r1]", "write '_'"},
      {"mbarrier.arrive.expect_tx.shared.b64 %d1, [%r1]", "the count is missing"},
      {"bar.sync 16", "they are numbered 0 to 15"},
      {"bfe.u32 %r1, %r1, 256, 4", "a field's position or length of 256: must be 0 to 255"},
      {"bfi.b32 %r1, %r1, %r2, 1, -1", "a field's position or length of -1"},
      {"bar.sync 0, 33", "not a multiple of a warp's 32"},
      {"discard.global.L2 [%d1], 64", "the size must be 128"},
      {"vadd.u32.u32.u32 %r1, -%r1, %r2", "operands cannot be negated"},
      {"vadd2.u32.u32.u32 %r1.h01, %r1, %r2, %r2", "the mask .h01 does not fit"},
      {"vadd4.u32.u32.u32 %r1, %r1.b321, %r2, %r2", "the selector .b321 does not fit"},
      {"vmad.u32.u32.u32.po %r1, -%r1, %r2, %r2", "nothing can be negated with .po"},
  };
  for (const Case& c : kCases) {
    const std::string text = fmt::format(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.global .align 8 .b8 g[64];\n.shared .align 8 .b8 "
        "s[64];\n"
        ".visible .entry k() {{ .reg .b16 %h<3>; .reg .b32 %r<3>; .reg .u16 %u<3>; .reg .u32 %u32;"
        " .reg .b64 %d<3>; .reg .pred %p<3>; {}; ret; }}",
        c.statement);
    std::string said = "it was taken";
    try {
      parse(text, "refused.ptx");
    } catch (const PtxError& e) {
      said = e.what();
    }
    CHECK_MESSAGE(said.find(c.why) != said.npos, c.statement << ": " << said);
  }
}

TEST_CASE("instructions are accepted for a target as by ptxas") {
  struct Case {
    const char *target, *statement;
  };
  constexpr Case kCases[] = {
      {"sm_100", "add.rn.f32x2 %d1, %d1, %d2"},
      {"sm_100", "min.f32 %r1, %r1, %r2, %r2"},
      {"sm_100", "ld.global.v8.b32 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%d1]"},
      {"sm_100", "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1"},
      {"sm_100f", "tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1"},
      {"sm_100f",
       "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block32 [%r1], %d1, %d2, %r2, [%r3], [%r4], "
       "%p1"},
      {"sm_90", "ld.shared.v8.u8 {%h0,%h1,%h2,%h3,%h4,%h5,%h6,%h7}, [%r1]"},
      {"sm_90", "st.v8.b16 [%d1], {%h0,%h1,%h2,%h3,%h4,%h5,%h6,%h7}"},
      {"sm_90", "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.and.b32 [%d1], %r1, [%d2]"},
      {"sm_90", "st.async.b32 [%d1], %r1, [%d2]"},
      {"sm_100", "red.async.release.gpu.global.min.s32 [%d1], %r1"},
      {"sm_90", "mov.pred %p1, %is_explicit_cluster"},
      {"sm_75", "mov.u32 %r1, %gridid"},
      {"sm_75", "mov.u32 %r1, %ntid.w"},
      {"sm_75", "add.u32 %x1, %x1, %r1"},
      {"sm_80",
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%x1,0}, {%r3}, "
       "{%f0,%f1,%f2,%f3}"},
  };
  for (const Case& c : kCases) {
    const std::string text = fmt::format(
        ".version 9.0\n.target {}\n.address_size 64\n.visible .entry k() {{ .reg .b16 %h<8>; .reg .b32 "
        "%r<8>; .reg .f32 %f<4>; .reg .f16x2 %x<2>; .reg .b64 %d<3>; .reg .b128 %q<2>; .reg .pred %p<3>; {}; "
        "ret; "
        "}}",
        c.target, c.statement);
    CAPTURE(text);
    CHECK_NOTHROW(parse(text, "taken.ptx"));
  }
}

TEST_CASE("vectors of registers of several types: accepted and refused as by ptxas") {
  const std::string mixed = "us ub su sb bu bs bb bf bh fb hb";
  const std::string int_too = mixed + " uu ss";
  const struct {
    const char* statement;
    std::string taken, refused;  // registers for @
  } cases[] = {
      {"ld.global.v2.f32 @, [%d1]", int_too + " ff", "hh uf fh"},
      {"st.global.v2.f32 [%d1], @", int_too + " ff", "hh uf fh"},
      {"ld.global.v2.u32 @, [%d1]", int_too + " hh", "ff uf fh"},
      {"red.global.add.v2.f32 [%d1], @", int_too + " ff", "hh uf"},
      {"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%f,%f,%f,%f}, @, {%b}, {%f,%f,%f,%f}", mixed,
       "uu ss ff hh uf fh"},
      {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f,%f,%f,%f}, @, {%b}, {%f,%f,%f,%f}",
       mixed + " hh", "uu ss ff uf fh"},
      {"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%s,%s,%s,%s}, @, {%b}, {%s,%s,%s,%s}",
       int_too + " ff hh", "uf fh hf"},
      {"mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f,%f,%f,%f}, @, {%b,%b}, "
       "{%f,%f,%f,%f}, %b, 0",
       int_too + " ff hh", "uf fh"},
      {"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 @, {%b}, {%b}, {%s,%s}", int_too, "ff hh uf"},
      {"mov.b64 %d1, @", int_too + " ff hh", "uf fh hf"},
      {"st.global.v4.b32 [%d1], @", "fbbh bfbh fbbu ubbf bfbu", "bffu bbfh"},
  };
  auto taken = [](std::string_view statement, std::string_view registers) {
    std::string text(statement);
    std::string vector;
    for (const char reg : registers) vector += fmt::format("{}%{}", vector.empty() ? "{" : ", ", reg);
    text.replace(text.find('@'), 1, vector + "}");
    try {
      parse(fmt::format(
                ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {{ .reg .u32 %u; "
                ".reg .s32 %s; .reg .b32 %b; .reg .f32 %f; .reg .f16x2 %h; .reg .b64 %d<2>; {}; ret; }}",
                text),
            "vector.ptx");
    } catch (const PtxError&) {
      return false;
    }
    return true;
  };
  auto all = [&](const char* statement, const std::string& pairs, bool expected) {
    std::istringstream in(pairs);
    for (std::string pair; in >> pair;)
      CHECK_MESSAGE(taken(statement, pair) == expected, statement << ": " << pair);
  };
  for (const auto& c : cases) {
    all(c.statement, c.taken, true);
    all(c.statement, c.refused, false);
  }
}

TEST_CASE("no text fits two rows") {
  const Table& table = Table::standard();
  std::mt19937 random(11);
  for (const Entry& e : table.entries()) {
    for (int i = 0; i < 300; ++i) {
      auto tokens = e.spelling.sample(random);
      CHECK(e.spelling.matches(tokens));
      for (const Entry* other : table.find(tokens)) {
        if (other == &e) continue;
        // Two rows may share a spelling if their operands distinguish them: then the forms differ.
        std::string opcode;
        for (auto t : tokens) opcode += "." + std::string(t);
        CAPTURE(opcode);
        CHECK_MESSAGE(other->opcode->operands != e.opcode->operands,
                      e.opcode->name << " and " << other->opcode->name);
      }
    }
  }
}

TEST_CASE("the support page names every row") {
  std::string page = support_page();
  for (const Opcode& row : opcodes()) {
    CAPTURE(row.name);
    CHECK(page.find(fmt::format("`{}`", row.spelling)) != page.npos);
  }
  CHECK(page.find("## Other") == page.npos);
}

TEST_CASE("notes/support.md is up to date") {
  std::ifstream in(std::filesystem::path(__FILE__).parent_path() / "../../notes/support.md");
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  const bool same = text.str() == support_page();
  CHECK_MESSAGE(same, "write it again: build/fp4lab support > notes/support.md");
}

TEST_CASE("every instruction of the manual has a row or is refused by name") {
  const Table& table = Table::standard();
  std::set<std::string_view> known;
  for (const Entry& e : table.entries()) known.insert(e.spelling.mnemonic());
  for (const Refusal& r : refusals()) {
    CAPTURE(r.example);
    std::vector<std::string_view> tokens;
    for (std::string_view rest = r.example;;) {
      const size_t dot = rest.find('.');
      tokens.push_back(rest.substr(0, dot));
      if (dot == rest.npos) break;
      rest.remove_prefix(dot + 1);
    }
    CHECK_MESSAGE(table.find(tokens).empty(), "has a row: it is not refused any more");
    known.insert(tokens[0]);
  }
  for (std::string_view name : manual_mnemonics()) {
    CAPTURE(name);
    CHECK(known.contains(name));
  }
}

TEST_CASE("patterns: groups, nesting, order") {
  auto fits = [](std::string_view pattern, std::vector<std::string_view> tokens) {
    return Spelling(pattern).matches(tokens);
  };
  CHECK(fits("a<.x,.y.z>{.q}", {"a", "y", "z"}));
  CHECK(fits("a<.x,.y.z>{.q}", {"a", "x", "q"}));
  CHECK_FALSE(fits("a<.x,.y.z>{.q}", {"a", "y"}));
  CHECK_FALSE(fits("a<.x,.y.z>{.q}", {"a"}));
  CHECK(fits("a{.s{.t}}.u", {"a", "u"}));
  CHECK(fits("a{.s{.t}}.u", {"a", "s", "t", "u"}));
  CHECK_FALSE(fits("a{.s{.t}}.u", {"a", "t", "u"}));
  CHECK(fits("a[.x{.y}<.z,.w>].e", {"a", "w", "x", "e"}));
  CHECK(fits("a[.x{.y}<.z,.w>].e", {"a", "y", "z", "x", "e"}));
  CHECK_FALSE(fits("a[.x{.y}<.z,.w>].e", {"a", "y", "z", "e"}));
  Spelling ld("ld{.volatile}{.global}<.v2,.v4><.u32,.f32><.u32,.f32>");
  CHECK(ld.matches_in_any_order(std::vector<std::string_view>{"ld", "u32", "v2", "f32", "global"}));
  CHECK_FALSE(ld.matches_in_any_order(std::vector<std::string_view>{"ld", "u32", "v2", "global"}));
  CHECK_THROWS(Spelling("a<.x"));
  CHECK_THROWS(Spelling("a{}"));
  CHECK_THROWS(Spelling("a.x]"));
  CHECK_THROWS(parse_operand_specs("d:nonsense"));
  CHECK_THROWS(parse_operand_specs("{v:b32}"));
}

TEST_CASE("modifiers are accepted in any order, as by ptxas") {
  auto row_of = [](std::vector<std::string_view> tokens) {
    auto found = Table::standard().find(tokens);
    return found.size() == 1 ? found[0]->opcode->name : std::string_view("none or several");
  };
  CHECK(row_of({"atom", "exch", "acquire", "cta", "b32"}) == "atom");  // libcu++'s order
  CHECK(row_of({"atom", "global", "v4", "f32", "add"}) == "atom_vector");
  CHECK(row_of({"min", "s16x2", "relu"}) == "min_x2");
  CHECK(row_of({"fma", "rn", "f16x2", "relu"}) == "fma_half");
  CHECK(row_of({"ldmatrix", "sync", "aligned", "x4", "m8n8", "shared", "b16"}) == "ldmatrix");
  CHECK(row_of({"mma", "sync", "aligned", "m8n8k16", "row", "col", "s32", "s8", "u8", "s32", "satfinite"}) ==
        "mma_int8");
  CHECK(row_of({"mbarrier", "arrive", "expect_tx", "cluster", "relaxed", "shared::cta", "b64"}) ==
        "mbarrier_arrive");
  CHECK(row_of({"vote", "ballot", "sync", "b32"}) == "vote_ballot");  // CUB's order
  CHECK(row_of({"shfl", "idx", "sync", "b32"}) == "shfl");
  CHECK(row_of({"match", "sync", "any", "b32"}) == "match_any");
  CHECK(row_of({"cvt", "satfinite", "rn", "e4m3x2", "f16x2"}) == "cvt_narrow");  // FlashInfer's order
  CHECK(row_of({"add", "s32", "sat"}) == "add_sat");
  CHECK(row_of({"cvt", "sat", "pack", "u8", "s32", "b32"}) == "none or several");
  CHECK(row_of({"stmatrix", "aligned", "sync", "x1", "m8n8", "shared", "b16"}) == "stmatrix");
  CHECK(row_of({"vote", "ballot", "b32"}) == "none or several");
  CHECK(row_of({"shf", "clamp", "b32"}) == "none or several");
  CHECK(row_of({"cp", "bulk", "async", "commit_group"}) == "none or several");  // not the opcode's own words
}

TEST_CASE("nearest names") {
  std::string_view names[] = {"mul", "mad", "add", "mbarrier", "tcgen05"};
  CHECK(nearest("tcgen5", names).at(0) == "tcgen05");
  CHECK(nearest("mbarier", names).at(0) == "mbarrier");
  CHECK(nearest("xyzzy", names).empty());
}
