// doctest's main, and with --jobs=N each chosen test case in a process of its own, N at a time: what a case
// does cannot depend on those that ran before it or run beside it, and a crash ends that case alone.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

// What a process came to, in memory that it shares with its parent.
struct Result {
  char name[160];  // of the case
  bool finished;
  doctest::TestRunStats stats;
};
Result* result = nullptr;  // where this process puts its own

// Shows what doctest shows of a case, and keeps the sum.
struct CaseReporter : doctest::ConsoleReporter {
  using ConsoleReporter::ConsoleReporter;
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData& c) override {
    std::snprintf(result->name, sizeof result->name, "%s", c.m_name);
    ConsoleReporter::test_case_start(c);
  }
  void test_run_end(const doctest::TestRunStats& stats) override {
    result->stats = stats;
    result->finished = true;
  }
};
REGISTER_REPORTER("case", 1, CaseReporter);

// Runs the k-th of the cases that the options choose; one beyond all of them only counts them.
int run_case(int argc, char** argv, unsigned k, Result& r) {
  result = &r;
  doctest::Context context(argc, argv);
  context.setOption("reporters", "case");
  context.setOption("first", static_cast<int>(k));
  context.setOption("last", static_cast<int>(k));
  return context.run();
}

double seconds(const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; }

struct Child {
  unsigned number;
  std::FILE* output;
};

class Parallel {
 public:
  Parallel(int argc, char** argv, unsigned jobs) : argc_(argc), argv_(argv), jobs_(jobs) {}

  int run() {
    Result* all = shared(1);
    run_case(argc_, argv_, INT_MAX, *all);
    const unsigned chosen = all->stats.numTestCasesPassingFilters;
    results_ = shared(chosen + 1);
    for (unsigned next = 1; next <= chosen || !children_.empty();)
      if (next <= chosen && children_.size() < jobs_)
        start(next++);
      else
        finish_one();

    std::sort(cpu_.rbegin(), cpu_.rend());
    double sum = 0;
    for (const auto& [s, k] : cpu_) sum += s;
    std::printf(
        "===============================================================================\n%.0f CPU seconds",
        sum);
    for (size_t i = 0; i < std::min<size_t>(3, cpu_.size()); ++i)
      std::printf("%s %.1f \"%s\"", i ? "," : "; most:", cpu_[i].first, results_[cpu_[i].second].name);
    std::printf("\n[doctest] test cases: %u | %u passed | %u failed | %u skipped\n", chosen, passed_, failed_,
                all->stats.numTestCases - chosen);
    std::printf("[doctest] assertions: %lld | %lld passed | %lld failed |\n", asserts_,
                asserts_ - asserts_failed_, asserts_failed_);
    return failed_ || passed_ != chosen;
  }

 private:
  static Result* shared(size_t count) {
    void* p =
        mmap(nullptr, count * sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) std::perror("tests: mmap"), std::exit(2);
    return static_cast<Result*>(p);
  }

  void start(unsigned k) {
    std::FILE* output = std::tmpfile();
    std::fflush(nullptr);
    const pid_t pid = output ? fork() : -1;
    if (pid < 0) std::perror("tests: cannot start a process"), std::exit(2);
    if (pid == 0) {
      dup2(fileno(output), STDOUT_FILENO);
      dup2(fileno(output), STDERR_FILENO);
      std::setvbuf(stdout, nullptr, _IOLBF, 0);  // so that nothing is lost in a crash
      std::exit(run_case(argc_, argv_, k, results_[k]));
    }
    children_[pid] = {k, output};
  }

  void finish_one() {
    int status = 0;
    rusage used{};
    const pid_t pid = wait4(-1, &status, 0, &used);
    if (pid < 0) std::perror("tests: wait"), std::exit(2);
    const auto found = children_.find(pid);
    if (found == children_.end()) return;
    const auto [k, output] = found->second;
    children_.erase(found);
    std::rewind(output);
    char piece[4096];
    while (const size_t n = std::fread(piece, 1, sizeof piece, output)) std::fwrite(piece, 1, n, stdout);
    std::fclose(output);

    const Result& r = results_[k];
    const bool good =
        r.finished && r.stats.numTestCasesFailed == 0 && WIFEXITED(status) && !WEXITSTATUS(status);
    (good ? passed_ : failed_) += 1;
    asserts_ += r.stats.numAsserts, asserts_failed_ += r.stats.numAssertsFailed;
    if (!r.finished || WIFSIGNALED(status))
      std::printf("FAILED: case %u \"%s\" did not come to its end: %s %d\n", k, r.name,
                  WIFSIGNALED(status) ? "signal" : "exit status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    std::fflush(stdout);
    cpu_.push_back({seconds(used.ru_utime) + seconds(used.ru_stime), k});
  }

  int argc_;
  char** argv_;
  unsigned jobs_;
  Result* results_ = nullptr;  // [k]: of the k-th case
  std::map<pid_t, Child> children_;
  std::vector<std::pair<double, unsigned>> cpu_;  // seconds, case
  unsigned passed_ = 0, failed_ = 0;
  long long asserts_ = 0, asserts_failed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unsigned jobs = 0;
  for (int i = 1; i < argc; ++i)
    if (!std::strncmp(argv[i], "--jobs=", 7))
      jobs = static_cast<unsigned>(std::max(1, std::atoi(argv[i] + 7)));
  if (jobs) return Parallel(argc, argv, jobs).run();
  return doctest::Context(argc, argv).run();
}
