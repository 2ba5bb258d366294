// The emulator against an H200, instruction by instruction: the same bits for 2048 tuples of operands of each
// form. The hardware's results are recorded as hashes; on a GPU of that kind the results themselves are
// compared.
#include "sweep.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "../gpu.h"
#include "../skip.h"

using namespace fp4lab;
using namespace fp4lab::sweep;

namespace {

std::vector<Form> recorded() {
  std::vector<Form> all;
  for (const char* name :
       {"sweep_h200.txt", "sweep_nan64_h200.txt", "sweep_video_h200.txt", "sweep_approximate_h200.txt"})
    for (Form& f : forms_of((std::filesystem::path(__FILE__).parent_path() / "data" / name).string()))
      all.push_back(std::move(f));
  return all;
}

}  // namespace

TEST_CASE("sweep: the emulator gives an H200's results") {
  const std::vector<Form> forms = recorded();
  CHECK(forms.size() > 1000);
  for (const Form& f : forms) {
    uint64_t hash = 0;
    REQUIRE_NOTHROW(hash = hash_of(run_on_emulator(f)));
    CHECK_MESSAGE(hash == f.hash, fmt::format("{} ={:016x}", f.text(), hash));
  }
}

TEST_CASE("sweep: a GPU gives the recorded results") {
  const std::shared_ptr<Driver> gpu = open_gpu();
  if (!gpu) FP4LAB_SKIP("no GPU");
  for (const Form& f : recorded()) {
    const std::vector<uint64_t> hardware = run_on_driver(f, *gpu);
    if (hash_of(hardware) == f.hash) continue;
    const std::vector<uint64_t> emulated = run_on_emulator(f);
    std::string text = fmt::format("{} ={:016x}", f.text(), hash_of(hardware));
    unsigned shown = 0;
    for (unsigned t = 0; t < kTuples && shown < 3; ++t)
      if (hardware[t] != emulated[t])
        text += fmt::format("\n  {}, the GPU says 0x{:x}", describe(f, t, emulated[t]), hardware[t]), ++shown;
    FAIL_CHECK(text);
  }
}
