// What a program's launches were found to do, folded, and whether that fails the command.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fp4lab::cli {

struct GateFinding {
  bool error = false;
  std::string kind, kernel, what, text;
  struct Place {
    std::string cuda, ptx;  // "gemm.cu:88, called at ..." or empty; "file.ptx:12" or empty
    std::string file;       // where the kernel's own text is concerned: the outermost CUDA line, or the PTX's
    int line = 0;
  };
  std::vector<Place> places;  // none, one, or the two accesses
  uint64_t count = 0;         // over all launches
  uint64_t seed = 0;          // the first schedule that showed it
};

class Gate {
 public:
  // What fails: "error", "note" (errors too) or classes, as in "race,deadlock". Throws with what there is.
  explicit Gate(const std::string& fail_on);
  // Takes in what the emulator wrote to FP4LAB_FINDINGS in one run of the program; the findings that are new.
  std::vector<const GateFinding*> read(const std::filesystem::path&, uint64_t seed);
  // Findings of one severity and class at the same pair of CUDA lines are one.
  std::vector<const GateFinding*> findings() const;
  bool fails() const;
  uint64_t launches() const { return launches_; }
  // "2 errors (race, illegal-address) and 1 note in 3 launches"; empty where nothing was found.
  std::string summary() const;

 private:
  bool fails(const GateFinding&) const;
  bool errors_ = false, notes_ = false;
  std::set<std::string> classes_;
  std::map<std::string, GateFinding> by_key_;
  std::vector<const GateFinding*> in_order_;
  uint64_t launches_ = 0;
};

// The classes that there are, each once.
std::vector<std::string> finding_classes();

// For CI: JUnit's XML (a test case for each finding, or one that passed), and SARIF 2.1.0.
std::string junit_of(const Gate&, const std::string& program);
std::string sarif_of(const Gate&);

}  // namespace fp4lab::cli
