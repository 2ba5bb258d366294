#define XXH_INLINE_ALL
#include "emulator/driver/exchange.h"

#include <xxhash.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "fp4lab/error.h"
#include "fp4lab/json_text.h"

namespace fp4lab::emu::driver {
namespace {

namespace fs = std::filesystem;

const char* setting(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value ? value : nullptr;
}

std::string name_of(std::string_view ptx) {
  size_t at = ptx.find(".target");
  at = at == ptx.npos ? at : ptx.find("sm_", at);
  const std::string_view target =
      at == ptx.npos ? "ptx" : ptx.substr(at, ptx.find_first_not_of("sm_0123456789af", at) - at);
  return fmt::format("{}-{:016x}.ptx", target, XXH3_64bits(ptx.data(), ptx.size()));
}

}  // namespace

std::string exchange_ptx(std::string ptx, std::string& label) {
  const char *dump = setting("FP4LAB_DUMP_PTX"), *replace = setting("FP4LAB_REPLACE_PTX");
  if (!dump && !replace) return ptx;
  const std::string name = name_of(ptx);
  label = name;
  if (dump) {
    std::error_code ignored;  // the file says what is wrong
    fs::create_directories(dump, ignored);
    std::ofstream out(fs::path(dump) / name, std::ios::binary);
    if (!(out << ptx).flush()) fail("FP4LAB_DUMP_PTX: {}/{}: {}", dump, name, std::strerror(errno));
  }
  if (!replace || !fs::exists(fs::path(replace) / name)) return ptx;
  std::ifstream in(fs::path(replace) / name, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || text.empty()) fail("FP4LAB_REPLACE_PTX: {}/{} cannot be read", replace, name);
  return text;
}

namespace {

void append(const char* path, const nlohmann::json& record) {
  std::ofstream out(path, std::ios::app);
  const std::string line = json_text(record);
  if (!(out << line << "\n").flush())
    explain(CUDA_SUCCESS, fmt::format("FP4LAB_RECORD={}: {}", path, std::strerror(errno)));
}

}  // namespace

void record_refusal(std::string_view module, std::string_view error) {
  if (const char* path = setting("FP4LAB_RECORD")) append(path, {{"module", module}, {"error", error}});
}

void record_launch(const CUfunc_st& f, const State& s) {
  if (const char* path = setting("FP4LAB_FINDINGS"))
    append(path, {{"module", f.module->module->name},
                  {"kernel", f.function->name},
                  {"findings", parse_json(s.findings)}});
  const char* path = setting("FP4LAB_RECORD");
  if (!path) return;
  std::set<uint32_t> lines;
  const Module& module = *f.module->module;
  for (size_t k = 0; k < s.last.by_pc.size(); ++k)
    for (size_t pc = 0; pc < s.last.by_pc[k].size(); ++pc)
      if (s.last.by_pc[k][pc]) lines.insert(module.functions[k].source[pc].line);
  append(path, {{"module", module.name},
                {"kernel", f.function->name},
                {"launch", s.launches},
                {"seed", s.schedule.seed},
                {"findings", parse_json(s.findings)},
                {"lines", lines}});
}

}  // namespace fp4lab::emu::driver
