// Files of records under everything that ends or disturbs a writer: no point is lost and none is there twice.
#include "fp4lab/store.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "../message.h"
#include "fp4lab/error.h"
#include "fp4lab/json_text.h"

using namespace fp4lab;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  fs::path folder = fs::temp_directory_path() / ("fp4lab-store-" + std::to_string(getpid()));
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
  std::string file(const char* name) const { return (folder / name).string(); }
};

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> points(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(point_of("test", {std::to_string(i)}));
  return all;
}

// Long enough that a kill may fall into a write.
nlohmann::json record(size_t i) { return {{"type", "test"}, {"i", i}, {"long", std::string(20000, 'x')}}; }

void work(const std::string& path, int count, int microseconds) {
  Store store({.path = path, .existing = Existing::kResume});
  const auto all = points(count);
  work_through(store, all, [&](size_t i) {
    usleep(unsigned(microseconds));
    store.add(record(i), all[i]);
  });
}

template <class F>
pid_t in_process(F f) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid) return pid;
  std::freopen("/dev/null", "w", stderr);
  try {
    f();
  } catch (const Error&) {
    _exit(2);
  }
  _exit(0);
}

int status_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Every line is whole, and every point is there once.
void check_complete(const std::string& path, int count) {
  std::map<std::string, int> seen;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto r = parse_json(line);
    ++seen[r.at("point")];
    CHECK(r.contains("date"));
  }
  CHECK(text_of(path).back() == '\n');
  for (const std::string& point : points(count)) {
    CAPTURE(point);
    CHECK(seen[point] == 1);
  }
  CHECK(seen.size() == size_t(count));
}

}  // namespace

TEST_CASE("store: processes that share a file share the points") {
  const Scratch scratch;
  const std::string path = scratch.file("s.json");
  std::vector<pid_t> all;
  for (int i = 0; i < 3; ++i) all.push_back(in_process([&] { work(path, 60, 1000); }));
  for (const pid_t pid : all) CHECK(status_of(pid) == 0);
  check_complete(path, 60);
}

TEST_CASE("store: kill -9 at any moment loses what was under way and nothing else") {
  const Scratch scratch;
  const std::string path = scratch.file("s.json");
  constexpr int kPoints = 400;
  // Ten points' time from a process's begin on: the kills fall on all of its life, however slow the machine
  // is.
  const auto begin = std::chrono::steady_clock::now();
  CHECK(status_of(in_process([&] { work(scratch.file("warm-up.json"), 10, 1000); })) == 0);
  const auto life = static_cast<unsigned>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin)
          .count());
  size_t before = 0;
  unsigned random = 1;
  for (int round = 0; round < 20; ++round) {
    const pid_t two[] = {in_process([&] { work(path, kPoints, 1000); }),
                         in_process([&] { work(path, kPoints, 1000); })};
    random = random * 1103515245 + 12345;
    usleep(500 + random / 256 % (2 * life));
    for (const pid_t pid : two) kill(pid, SIGKILL);
    for (const pid_t pid : two) CHECK(status_of(pid) == 128 + SIGKILL);
    const size_t now = fs::exists(path) ? read_records(path).size() : 0;
    CHECK(now >= before);
    before = now;
  }
  CHECK(before > 20);
  work(path, kPoints, 0);
  check_complete(path, kPoints);
}

TEST_CASE("store: a claim goes with its process, and the point is done by the one who waits") {
  const Scratch scratch;
  const std::string path = scratch.file("s.json"), point = points(1)[0];
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t other = in_process([&] {
    Store store({.path = path});
    store.claim(point);
    if (write(ready[1], "x", 1) == 1) pause();
  });
  char x;
  REQUIRE(read(ready[0], &x, 1) == 1);
  Store store({.path = path});
  CHECK(store.claim(point) == Store::Turn::kElsewhere);
  kill(other, SIGKILL);
  CHECK(store.wait(point) == Store::Turn::kMine);
  CHECK(store.add(record(0), point));
  CHECK_FALSE(store.add(record(0), point));
  status_of(other);
  check_complete(path, 1);
}

TEST_CASE("store: a full disk is said, and the file holds whole records") {
  const Scratch scratch;
  const std::string path = scratch.file("s.json");
  const pid_t pid = in_process([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{70000, 70000};  // three records and a half
    setrlimit(RLIMIT_FSIZE, &limit);
    work(path, 8, 0);
  });
  CHECK(status_of(pid) == 2);
  CHECK(read_records(path).size() == 3);
  CHECK(text_of(path).back() == '\n');
  work(path, 8, 0);
  check_complete(path, 8);

  Store full({.path = "/dev/full"});
  const std::string said = message_of([&] { full.add({{"answer", 42}}, "p"); });
  CHECK(said.find("/dev/full: writing a record failed: No space left on device") == 0);
  CHECK(said.find("\"answer\":42") != said.npos);  // what could not be written is not lost
  CHECK(full.records().size() == 1);
}

TEST_CASE("store: a file that holds something is not touched without being asked") {
  const Scratch scratch;
  const std::string path = scratch.file("s.json");
  work(path, 3, 0);
  const std::string before = text_of(path);
  CHECK_THROWS_AS(Store({.path = path}), Error);
  CHECK(message_of([&] { Store({.path = path}); }).find("--resume continues it, --force overwrites it") !=
        std::string::npos);
  { Store nothing({.path = path, .existing = Existing::kForce}); }  // refused before its first record
  CHECK(text_of(path) == before);
  {
    Store store({.path = path, .existing = Existing::kForce});
    CHECK_THROWS_AS(Store({.path = path, .existing = Existing::kResume}), Error);
    CHECK(store.add(record(7), "test | 7"));
    CHECK_NOTHROW(Store({.path = path, .existing = Existing::kResume}));
    CHECK_THROWS_AS(Store({.path = path, .existing = Existing::kForce}), Error);  // this one writes to it
  }
  CHECK(read_records(path).size() == 1);
  { Store nothing({.path = scratch.file("new.json")}); }
  CHECK_FALSE(fs::exists(scratch.file("new.json")));

  const std::string ptx = scratch.file("k.ptx");
  std::ofstream(ptx) << ".version 9.0\n";
  for (const Existing e : {Existing::kRefuse, Existing::kResume, Existing::kForce})
    CHECK_THROWS_AS(Store({.path = ptx, .existing = e, .inputs = {ptx}}), Error);
  CHECK_THROWS_AS(Store({.path = ptx, .existing = Existing::kResume}), Error);  // no line is a record
  CHECK(text_of(ptx) == ".version 9.0\n");
  CHECK_THROWS_AS(Store({.path = scratch.file("none/x")}), Error);
}

TEST_CASE("store: what a crash left behind is mended") {
  const Scratch scratch;
  const std::string path = scratch.file("s.json");
  work(path, 2, 0);
  std::ofstream(path, std::ios::app) << R"({"type":"test","i":2,"lo)";
  CHECK(read_records(path).size() == 2);
  work(path, 4, 0);
  check_complete(path, 4);
  // A record without its newline is a record.
  std::string whole = text_of(path);
  whole.pop_back();
  std::ofstream(path) << whole;
  work(path, 5, 0);
  check_complete(path, 5);
}

TEST_CASE("store: a file that is removed while it is written to comes back") {
  const Scratch scratch;
  const std::string path = scratch.file("s.json");
  Store store({.path = path});
  CHECK(store.add(record(0), "test | 0"));
  fs::remove(path);
  CHECK(store.add(record(1), "test | 1"));
  CHECK(read_records(path).size() == 1);
  CHECK(store.records().size() == 2);
}

TEST_CASE("store: records carry their stamp, and later ones replace earlier ones when read") {
  const Scratch scratch;
  const std::string path = scratch.file("s.json");
  Store store({.path = path, .stamp = {{"command", "fp4lab x"}, {"device", "D"}}});
  store.add({{"device", "own"}}, "p");
  const auto r = read_records(path).at(0);
  CHECK(r.at("command") == "fp4lab x");
  CHECK(r.at("device") == "own");
  CHECK(r.at("date").get<std::string>().size() == 20);
  std::ofstream(path, std::ios::app) << R"({"point":"p","device":"later"})"
                                     << "\n";
  REQUIRE(read_records(path).size() == 1);
  CHECK(read_records(path)[0].at("device") == "later");
  std::ofstream(path, std::ios::app) << "[1]\n";
  CHECK(message_of([&] { read_records(path); }).find("s.json:3: not a record: not an object") !=
        std::string::npos);
}

TEST_CASE("store: shards have files of their own and are joined") {
  CHECK(parse_shard("2/4").path("a/s.json") == "a/s.2-of-4.json");
  CHECK(parse_shard("1/1").path("s.json") == "s.json");
  CHECK(parse_shard("3/3").path("./dir.x/s") == "./dir.x/s.3-of-3");
  for (const char* bad : {"", "1", "0/2", "3/2", "1/2/3", "-1/2", "a/b", "1/"})
    CHECK_THROWS_AS(parse_shard(bad), Error);
  std::map<size_t, int> taken;
  for (const char* shard : {"1/3", "2/3", "3/3"})
    for (size_t i = 0; i < 10; ++i) taken[i] += parse_shard(shard).takes(i);
  for (const auto& [i, times] : taken) CHECK(times == 1);

  const Scratch scratch;
  const std::string one = scratch.file("s.1-of-3.json"), two = scratch.file("s.2-of-3.json");
  std::ofstream(one) << R"({"point":"a","shard":"1/3","date":"2026-01-02T00:00:00Z","v":1})"
                     << "\n"
                     << R"({"point":"b","shard":"1/3","date":"2026-01-02T00:00:00Z"})"
                     << "\n";
  std::ofstream(two) << R"({"point":"a","shard":"2/3","date":"2026-01-01T00:00:00Z","v":2})"
                     << "\n"
                     << R"({"type":"session"})"
                     << "\n"
                     << R"({"point":"c","date":"2026-01-01)";
  const Merged merged = merge_records({one, two});
  REQUIRE(merged.lines.size() == 3);
  CHECK(merged.lines[0].find("\"v\":1") != std::string::npos);  // the later date
  CHECK(merged.repeated == 1);
  CHECK(merged.missing == "3/3");
}
