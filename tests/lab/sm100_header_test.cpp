// The head of a kernel file tells the rung that the table tells, in the table's words, and its picture has
// the plan's numbers.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "fp4lab/jit.h"
#include "fp4lab/problem.h"
#include "fp4lab/sm100.h"

using namespace fp4lab;

namespace {

struct Header {
  std::vector<std::string> paragraphs;  // lines joined; a picture's lines stay apart
  std::string picture;
};

Header read_header(const sm100::Rung& rung) {
  std::ifstream file(jit::project_root() / rung.file());
  Header header;
  std::string line, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) header.paragraphs.push_back(paragraph);
    paragraph.clear();
  };
  while (std::getline(file, line) && line.starts_with("//")) {
    if (line == "//")
      end_paragraph();
    else if (line.starts_with("//   "))
      header.picture += line.substr(5) + "\n";
    else
      paragraph += (paragraph.empty() ? "" : " ") + line.substr(3);
  }
  end_paragraph();
  return header;
}

std::string title(const sm100::Rung& rung) {
  return fmt::format(
      "{}, NVFP4 in, fp16 out: {}.",
      rung.op == Op::kDual ? "Dual GEMM, C = silu(A * B1^T) * (A * B2^T)" : "Group GEMM, C_g = A_g * B_g^T",
      rung.idea);
}
std::string command(const sm100::Rung& rung) {
  return fmt::format("Run: make run {}KERNEL={}", rung.op == Op::kDual ? "OP=dual " : "", rung.name);
}

// "plan   mma_n=128 stages=8": knobs that the picture is drawn for, when it is not the rung's own plan.
std::vector<std::string> knobs_of(const std::string& picture) {
  std::vector<std::string> knobs;
  std::smatch line;
  if (std::regex_search(picture, line, std::regex("plan +(.*)\n"))) {
    std::istringstream words(line[1]);
    for (std::string knob; words >> knob;) knobs.push_back(knob);
  }
  return knobs;
}
std::string found(const std::string& picture, const char* pattern) {
  std::smatch m;
  return std::regex_search(picture, m, std::regex(pattern)) ? m.str() : fmt::format("no {}", pattern);
}

}  // namespace

TEST_CASE("the head of every rung says what the table says") {
  std::map<std::string, std::string_view> changes;
  for (const auto& rung : sm100::rungs()) {
    CAPTURE(rung.file());
    const Header header = read_header(rung);
    REQUIRE(header.paragraphs.size() >= 3);
    CHECK(header.paragraphs[0] == title(rung));
    const std::string parent =
        fmt::format("Parent: {}. The change: ", rung.parent.empty() ? "none" : rung.parent);
    CHECK(header.paragraphs[1].substr(0, parent.size()) == parent);
    const auto [other, fresh] = changes.emplace(
        header.paragraphs[1].substr(std::min(parent.size(), header.paragraphs[1].size())), rung.name);
    CHECK_MESSAGE(fresh, "the same change as ", other->second);
    CHECK(header.paragraphs.back() == command(rung));
  }
}

TEST_CASE("the picture in the head of every rung has its plan's numbers") {
  for (const auto& rung : sm100::rungs()) {
    CAPTURE(rung.file());
    const std::string picture = read_header(rung).picture;
    const Case c = find_case(rung.op == Op::kDual ? "dual-256-4096-7168" : "g8k7168");
    const Plan plan = sm100::plan_for(rung, c, knobs_of(picture));
    CHECK(found(picture, "tile +\\d+ (tokens|weights)") ==
          fmt::format("tile   {} {}", plan.mma_m, plan.swap ? "weights" : "tokens"));
    CHECK(found(picture, "= \\d+ bytes, \\d+ stage") ==
          fmt::format("= {} bytes, {} stage", plan.stage_bytes(), plan.stages));
    CHECK(found(picture, "\\d+ of \\d+ columns") ==
          fmt::format("{} of {} columns", plan.tmem_columns_used(), plan.tmem_columns()));
    CHECK(found(picture, "rows +[^ ]+ [^ ]+") ==
          (plan.cta_group == 2 ? "rows   even CTA:" : "rows   one CTA"));
  }
}
