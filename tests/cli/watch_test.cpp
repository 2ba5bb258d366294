// fp4lab watch, as somebody uses it: a child process whose kernel is edited while it watches.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../command.h"
#include "fp4lab/jit.h"

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

const fs::path kBinary = fs::read_symlink("/proc/self/exe").parent_path() / "fp4lab";

// Tests run at the same time: each has its own.
struct Scratch {
  fs::path folder;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "fp4lab-watch-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    folder = name;
  }
  ~Scratch() { fs::remove_all(folder); }
};

class Watched {
 public:
  Watched(const fs::path& scratch, std::vector<std::string> arguments) : folder_(scratch) {
    std::vector<std::string> words{kBinary, "watch", "--device", "emulator"};
    for (std::string& a : arguments) words.push_back(std::move(a));
    const fs::path out = folder_ / "out";
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      const int fd = open(out.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
      dup2(fd, 1), dup2(fd, 2);
      std::vector<char*> raw;
      for (std::string& word : words) raw.push_back(word.data());
      raw.push_back(nullptr);
      execv(raw[0], raw.data());
      _exit(127);
    }
  }
  ~Watched() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }

  // What it wrote since the last call, up to `last` and the end of that line; all there is if that never
  // comes.
  std::string until(const std::string& last) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    for (;;) {
      const std::string text = text_of(folder_ / "out").substr(read_);
      const size_t at = text.find(last), end = at == text.npos ? at : text.find('\n', at);
      if (end != text.npos || std::chrono::steady_clock::now() > deadline) {
        const std::string part = text.substr(0, end);
        read_ += part.size();
        return part;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  // Ctrl-C; its exit status.
  int end() {
    kill(pid_, SIGINT);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  fs::path folder_;
  pid_t pid_ = 0;
  size_t read_ = 0;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

// As editors save: a new file takes the old one's name.
void save(const fs::path& file, const std::string& text) {
  std::ofstream(file.string() + "~") << text;
  fs::rename(file.string() + "~", file);
}

constexpr const char* kSmall = "group:100/128/1024";

}  // namespace

TEST_CASE("watch: each save is compiled, verified and compared, and what is wrong does not end it") {
  const Scratch scratch;
  const fs::path mine = scratch.folder / "mine.cu", records = scratch.folder / "w.json";
  const std::string v2 = text_of(fp4lab::jit::project_root() / "ptx/sm100/group_gemm/v2_warp_specialized.cu");
  save(mine, v2);
  Watched watch(scratch.folder,
                {"group", "--case", kSmall, "--kernel-file", mine, "--like", "v2", "--json", records});

  std::string text = watch.until("Against version 0");
  INFO(text);
  CHECK(text.find("mine.cu (like v2_warp_specialized)") != text.npos);
  CHECK(text.find("v2_warp_specialized itself") != text.npos);
  CHECK(text.find("right in 12800 elements; predicted") != text.npos);
  CHECK(text.find("same: equal plan and PTX") != text.npos);

  const std::string lean = replaced(v2, "      prefetch_maps(args, tile.group);\n", "");
  save(mine, lean);
  text = watch.until("instructions in A only");
  INFO(text);
  CHECK(text.find("mine.cu saved") != text.npos);
  CHECK(text.find("Against version 1: undecided") != text.npos);
  CHECK(text.find("warp instructions ") != text.npos);

  save(mine, replaced(lean, "k_tile > 0", "k_tile > nothing"));
  text = watch.until("identifier \"nothing\" is undefined");
  INFO(text);
  CHECK(text.find("does not compile") != text.npos);

  save(mine, replaced(lean, "k_tile > 0", "k_tile > 1"));
  text = watch.until("first: row");
  INFO(text);
  CHECK(text.find("WRONG: ") != text.npos);

  // A loop without an end.
  save(mine, replaced(lean, "  // -- setup\n", "  for (volatile int i = 0; i < 1;) {}\n"));
  text = watch.until("warp instructions is reached");
  INFO(text);
  CHECK(text.find("the limit of 1000000 warp") != text.npos);

  // A text without its headers for a moment: they were not saved when it has them again.
  save(mine, "");
  watch.until("has no kernel");
  save(mine, lean);
  text = watch.until("Against version 2");
  INFO(text);
  CHECK(text.find("mine.cu saved") != text.npos);
  CHECK(text.find("same: equal plan and PTX") != text.npos);

  // A header that is not there yet; then it comes, and the kernel's own file is not touched.
  save(mine, "#include \"more.h\"\n" + lean);
  text = watch.until("more.h");
  INFO(text);
  CHECK(text.find("version 8") != text.npos);
  save(scratch.folder / "more.h", "// empty\n");
  text = watch.until("Against version 7");  // the last right one
  INFO(text);
  CHECK(text.find("more.h saved") != text.npos);
  CHECK(text.find("same: equal plan and PTX") != text.npos);

  CHECK(watch.end() == 0);
  text = watch.until("right");
  CHECK(text.find("10 versions, 5 right") != text.npos);
  const Outcome report = run_command("'" + kBinary.string() + "' report '" + records.string() + "'");
  INFO(report.text);
  CHECK(report.status == 0);
  CHECK(report.says("version 2  version 7"));
  CHECK(report.says("version 2  version 4  wrong"));
}

TEST_CASE("watch: edited PTX, and what cannot be watched") {
  const Scratch scratch;
  const fs::path ptx = scratch.folder / "k.ptx";
  const auto fp4lab = [](const std::string& arguments) {
    return run_command("'" + kBinary.string() + "' " + arguments + " 2>&1");
  };
  const std::string dump = fp4lab(std::string("ptx group --kernel v2 --case ") + kSmall).text;
  save(ptx, dump);
  Watched watch(scratch.folder, {"group", "--case", kSmall, "--ptx", ptx, "--check"});
  watch.until("same: equal plan and PTX");
  save(ptx, replaced(dump, "tcgen05.commit", "tcgen05.comit"));
  const std::string text = watch.until("tcgen05.comit");
  INFO(text);
  CHECK(text.find("k.ptx saved") != text.npos);
  CHECK(watch.end() == 0);

  CHECK(fp4lab(std::string("watch group --case ") + kSmall + " --kernel-file none.cu --like v2").status != 0);
  CHECK(fp4lab("watch group --case g2k1536 --kernel v2 --set stages=99").says("stages"));
}
