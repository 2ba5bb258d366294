// For any text the parser returns a module or throws PtxError: it never crashes or hangs.
// tests/fuzz/ptx_parse.cc and module_image.cc do the same with libFuzzer; here a short run with fixed seeds
// over the same corpus.
#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "emulator/driver/state.h"
#include "emulator/ptx/lower.h"
#include "emulator/ptx/parser.h"

using namespace fp4lab::emu;

namespace {

std::string sample() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "data/warp_specialized.ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// One edit as by editors, truncated files and typing errors.
void mutate(std::string& text, std::mt19937& random) {
  if (text.empty()) return;
  auto place = [&] { return random() % text.size(); };
  auto piece = [&](size_t most) {
    size_t at = place();
    return std::pair(at, std::min<size_t>(1 + random() % most, text.size() - at));
  };
  switch (random() % 8) {
    case 0:
      text.resize(place());
      break;
    case 1:
      text[place()] = static_cast<char>(random());
      break;
    case 2:
      text[place()] = ".,;:{}[]()@!%_<>+-/*\"0x9"[random() % 24];
      break;
    case 3: {
      auto [at, n] = piece(40);
      text.erase(at, n);
      break;
    }
    case 4: {
      auto [at, n] = piece(200);
      text.insert(place(), text.substr(at, n));
      break;
    }
    case 5: {  // swap two lines
      size_t a = text.find('\n', place()), b = text.find('\n', place());
      if (a == text.npos || b == text.npos) break;
      size_t a_end = text.find('\n', a + 1), b_end = text.find('\n', b + 1);
      if (a_end == text.npos || b_end == text.npos || a_end > b) break;
      std::string first = text.substr(a, a_end - a), second = text.substr(b, b_end - b);
      text.replace(b, second.size(), first);
      text.replace(a, first.size(), second);
      break;
    }
    case 6: {  // change a number
      size_t at = text.find_first_of("0123456789", place());
      if (at != text.npos) text.replace(at, 1, std::to_string(random()));
      break;
    }
    default:
      text.insert(place(), std::string(1 + random() % 300, "({[-!"[random() % 5]));
  }
}

bool answers(const std::string& text) {
  try {
    parse(text, "mutant");
  } catch (const PtxError& e) {
    return std::string_view(e.what()).find("mutant:") == 0;
  }
  return true;
}

}  // namespace

TEST_CASE("mutated PTX is parsed or refused") {
  std::string original = sample();
  REQUIRE(original.size() > 10000);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string text = original;
    if (i % 2) {  // more edits in small texts
      size_t cut = text.find("\n\tret;");
      size_t from = random() % cut;
      size_t n = 500 + random() % 3000;
      size_t body = text.find("{\n\t.reg");
      size_t declared = text.find("\n\n", body);
      if (from > declared) text = text.substr(0, declared) + text.substr(from, n) + "\n}\n";
    }
    for (unsigned n = random() % 6; n > 0; --n) mutate(text, random);
    CAPTURE(i);
    REQUIRE(answers(text));
  }
}

TEST_CASE("mutated test programs are parsed or refused") {
  std::mt19937 random(3);
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(__FILE__).parent_path() / "../ptx"))
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() > 40);
  for (const auto& file : files) {
    std::ifstream in(file);
    std::string original;
    for (std::string line; std::getline(in, line);)  // without the inputs and results, which are comments
      if (!line.starts_with("//")) original += line + '\n';
    CAPTURE(file.filename().string());
    for (int i = 0; i < 12; ++i) {
      std::string text = original;
      for (unsigned n = 1 + random() % 4; n > 0; --n) mutate(text, random);
      CAPTURE(i);
      REQUIRE(answers(text));
    }
  }
}

TEST_CASE("mutated module images are read or refused") {
  std::mt19937 random(4);
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../fuzz/fatbin";
  const auto saved = driver::state().device;
  driver::state().device = device_model("b200");
  unsigned read = 0;
  for (const char* name : {"plain.fatbin", "packed.fatbin"}) {
    std::ifstream in(folder / name, std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    const std::string original = bytes.str();
    REQUIRE(original.size() > 100);
    for (int i = 0; i < 4000; ++i) {
      std::string image = original;
      for (unsigned n = random() % 4; n > 0 && !image.empty(); --n)
        random() % 8 ? void(image[random() % image.size()] = static_cast<char>(random()))
                     : mutate(image, random);
      if (image.size() < 4 || static_cast<unsigned char>(image[0]) == 0xb1)
        continue;  // a wrapper is a pointer: trusted
      CAPTURE(name);
      CAPTURE(i);
      const auto found = driver::read_image(image.data(), image.size());
      REQUIRE(found.ptx.empty() != found.reason.empty());
      read += !found.ptx.empty();
      if (!found.ptx.empty()) REQUIRE(answers(std::string(found.ptx)));
    }
  }
  driver::state().device = saved;
  CHECK(read > 100);
}

TEST_CASE("random bytes and random words are refused") {
  std::mt19937 random(2);
  constexpr std::string_view kWords[] = {".version 9.0\n",
                                         ".target sm_100a\n",
                                         ".entry k",
                                         "(",
                                         ")",
                                         "{",
                                         "}",
                                         ".reg",
                                         ".b32",
                                         "%r<4>",
                                         ";",
                                         ",",
                                         "add.u32",
                                         "mov.b64",
                                         "%r1",
                                         "@",
                                         "!",
                                         "%p1",
                                         "[",
                                         "]",
                                         "+",
                                         "-",
                                         "0x",
                                         "1",
                                         "\"",
                                         ".shared",
                                         ".global",
                                         "=",
                                         "ld.global",
                                         "call",
                                         "bra",
                                         "L",
                                         ":",
                                         "|",
                                         "_",
                                         ".align",
                                         ".param",
                                         ".func",
                                         "//",
                                         "/*",
                                         "*/",
                                         ".loc",
                                         " ",
                                         "\n"};
  for (int i = 0; i < 3000; ++i) {
    std::string text = i % 2 ? ".version 9.0\n.target sm_100a\n.address_size 64\n" : "";
    for (unsigned n = random() % 200; n > 0; --n) {
      if (i % 3)
        text += kWords[random() % std::size(kWords)];
      else
        text += static_cast<char>(random());
    }
    CAPTURE(i);
    REQUIRE(answers(text));
  }
}

TEST_CASE("deep nesting is refused without recursion") {
  std::string head = ".version 9.0\n.target sm_100a\n.address_size 64\n";
  for (std::string_view repeated : {"{", "(", "-", "[", "~", "!"})
    for (std::string_view before :
         {".entry k() { ", ".entry k() { mov.u32 %r1, ", ".global .u32 x = ", ".entry k() { mov.u32 {"}) {
      std::string text = head + std::string(before);
      for (int i = 0; i < 100000; ++i) text += repeated;
      CHECK_THROWS_AS(parse(text, "deep"), PtxError);
    }
}

TEST_CASE("found by fuzzing: a sign without a selector, an image whose PTX names no target") {
  CHECK(
      answers(".version 9.0\n.target sm_100a\n.address_size 64\n"
              ".entry k() { .reg .b32 %r<4>; vmad.s32.s32.s32 %r0, -%r1, %r2, %r3; ret; }"));
  std::ifstream in(std::filesystem::path(__FILE__).parent_path() / "../fuzz/fatbin/plain.fatbin",
                   std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  std::string image = bytes.str();
  constexpr std::string_view kTarget = ".target ";
  unsigned targets = 0;
  for (size_t at = 0; (at = image.find(kTarget, at)) != image.npos; ++targets)
    for (at += kTarget.size(); image[at] > ' '; ++at) image[at] = ' ';
  REQUIRE(targets > 0);
  const auto saved = driver::state().device;
  driver::state().device = device_model("b200");
  const auto found = driver::read_image(image.data(), image.size());
  driver::state().device = saved;
  CHECK(found.ptx.empty() != found.reason.empty());
}

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int kSeconds = 60;
#else
constexpr int kSeconds = 12;
#endif

void check_loads_in_seconds(const std::string& text) {
  const std::clock_t start = std::clock();  // CPU time: the machine may be busy
  CHECK(parse(text, "long")->functions.size() == 1);
  CHECK(std::clock() - start < kSeconds * CLOCKS_PER_SEC);
}

}  // namespace

// The value of a chain of moves must be computed once, not by each reader.
TEST_CASE(
    "a long chain of moves that many instructions read, many branches to one place: loaded in seconds") {
  constexpr int kMoves = 50000, kReaders = 5000;
  std::string text = fmt::format(
      ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p) {{ .reg .b64 %d; .reg .b32 "
      "%r<{}>; .reg .pred %q;\nld.param.u64 %d, [p];\nld.global.u32 %r0, [%d];\n",
      kMoves);
  for (int i = 1; i < kMoves; ++i) text += fmt::format("mov.u32 %r{}, %r{};\n", i, i - 1);
  for (int i = 0; i < kReaders; ++i)
    text += fmt::format("setp.eq.u32 %q, %r{}, {};\n@%q bra END;\nst.global.u32 [%d], %r0;\n", kMoves - 1, i);
  check_loads_in_seconds(text + "END: ret; }");
}

// Whether a block dominates another must be one comparison.
TEST_CASE("one f64 sum in thousands of blocks: loaded in seconds") {
  std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p) { .reg .b64 %d, %x; .reg .f64 "
      "%s, %y; .reg .b32 %n; .reg .pred %q;\nld.param.u64 %d, [p];\nld.global.u32 %n, [%d];\n"
      "ld.global.b64 %x, [%d];\nld.global.f64 %s, [%d];\nand.b64 %x, %x, 255;\n";
  for (int i = 0; i < 4000; ++i)
    text += fmt::format(
        "setp.ne.u32 %q, %n, {0};\n@%q bra L{0};\nadd.rn.f64 %y, %x, %s;\n"
        "st.global.f64 [%d], %y;\nL{0}:\n",
        i);
  check_loads_in_seconds(text + "ret; }");
}

// A bit field examines everything that a constant is computed from, which must not overflow the stack.
TEST_CASE("bit fields of constants at the end of long sums: loaded in seconds") {
  constexpr int kSums = 50000;
  std::string text = fmt::format(
      ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p) {{ .reg .b64 %d; .reg .b32 "
      "%f, %r<{}>;\nld.param.u64 %d, [p];\nmov.u32 %r0, 5;\n",
      kSums);
  for (int i = 1; i < kSums; ++i) {
    text += fmt::format("add.u32 %r{}, %r{}, {};\n", i, i - 1, i % 7);
    if (i % 10 == 9) text += fmt::format("bfe.s32 %f, %r{}, 40, 3;\nst.global.u32 [%d], %f;\n", i);
  }
  check_loads_in_seconds(text + "ret; }");
}

// Possible changes of memory are propagated along the control flow, whatever the order of the text.
TEST_CASE("thousands of blocks in reverse order: loaded in seconds") {
  constexpr int kBlocks = 20000;
  std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p) { .reg .b64 %d; .reg .f64 %x, "
      "%y;\nld.param.u64 %d, [p];\nld.global.f64 %y, [%d];\nbra L0;\nEND: ret;\n";
  for (int i = kBlocks; i-- > 0;)
    text += fmt::format("L{}: ld.global.f64 %x, [%d];\nadd.f64 %y, %y, %x;\nbra {};\n", i,
                        i + 1 < kBlocks ? fmt::format("L{}", i + 1) : "STORE");
  check_loads_in_seconds(text + "STORE: st.global.f64 [%d], %y;\nbra END; }");
}

// Repetitions of an instruction on constants must be found by a look-up.
TEST_CASE("thousands of f64 products that share two constants: loaded in seconds") {
  constexpr int kProducts = 20000;
  std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p) { .reg .b64 %d; .reg .f64 %x, "
      "%y;\nld.param.u64 %d, [p];\nld.global.f64 %y, [%d];\n";
  for (int i = 0; i < kProducts; ++i)
    text += fmt::format(
        "fma.rn.f64 %x, 0d7FF8000100000000, 0d7FF8000000000001, 0d7FF8{:04X}00000000;\nadd.f64 %y, %y, %x;\n",
        i);
  check_loads_in_seconds(text + "st.global.f64 [%d], %y;\nret; }");
}
