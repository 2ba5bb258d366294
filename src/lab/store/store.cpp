// A file that several processes append to; see fp4lab/store.h.
#include "fp4lab/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "lab/store/lines.h"

namespace fp4lab {
namespace {

using nlohmann::json;

// What is locked, as bytes far behind any content. Open file description locks: they belong to the open file,
// so threads and stores of one process exclude each other too, and the kernel drops them with the process.
constexpr off_t kAppending = off_t(1) << 61;  // while lines are written or cut off
constexpr off_t kWriters =
    kAppending + 1;  // shared by all that write; alone: with kForce, until it is emptied
constexpr off_t kClaims = kAppending + 2;  // one byte per point, from here on

off_t place_of(const std::string& point) {
  return kClaims + static_cast<off_t>(XXH3_64bits(point.data(), point.size()) >> 4);
}

bool set_lock(int fd, short type, off_t place, bool wait) {
  struct flock lock {};
  lock.l_type = type, lock.l_whence = SEEK_SET, lock.l_start = place, lock.l_len = 1;
  int result;
  do result = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
  while (result && errno == EINTR);
  return result == 0;
}

}  // namespace

struct Store::File {
  StoreOptions options;
  int fd = -1;
  bool regular = false;  // a pipe or a device is written to as it is
  bool created = false;
  bool to_empty = false;  // kForce, and nothing written yet
  off_t read_to = 0;      // everything in front of it is in `records`
  size_t lines = 0;       // lines in front of it
  mutable std::mutex mutex;
  std::vector<json> records;
  std::map<std::string, size_t> of_point;  // index of its record

  explicit File(StoreOptions o) : options(std::move(o)) {}
  ~File();
  void open();
  void refuse_inputs() const;
  void keep(json record);
  std::string behind(off_t from) const;
  void read_new(bool whole);
  void mend();
  void follow();
  void append(const std::string& line);
  [[noreturn]] void failed(const std::string& line) const;

  const std::string& path() const { return options.path; }
};

namespace {

class Appending {
 public:
  explicit Appending(int fd) : fd_(fd) { set_lock(fd_, F_WRLCK, kAppending, true); }
  ~Appending() { set_lock(fd_, F_UNLCK, kAppending, false); }

 private:
  int fd_;
};

}  // namespace

// A file that was made here and never written to is what a refused command leaves: nothing.
Store::File::~File() {
  if (fd < 0) return;
  if (created && regular) {
    const Appending lock(fd);
    struct stat there {};
    if (fstat(fd, &there) == 0 && there.st_size == 0) unlink(path().c_str());
  }
  close(fd);
}

void Store::File::refuse_inputs() const {
  for (const std::string& input : options.inputs) {
    std::error_code ignored;
    if (!input.empty() && std::filesystem::equivalent(path(), input, ignored))
      fail("{}: the results cannot go to a file that this command reads ({})", path(), input);
  }
}

void Store::File::open() {
  refuse_inputs();
  struct stat there {};
  created = ::stat(path().c_str(), &there) != 0;
  fd = ::open(path().c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0 && errno != EISDIR) fd = ::open(path().c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);  // a pipe
  if (fd < 0 || fstat(fd, &there)) fail("{}: {}", path(), std::strerror(errno));
  regular = S_ISREG(there.st_mode);
  if (!regular) return;
  const bool force = options.existing == Existing::kForce;
  if (!set_lock(fd, force ? F_WRLCK : F_RDLCK, kWriters, false)) {
    if (errno != EAGAIN && errno != EACCES) fail("{}: cannot be locked: {}", path(), std::strerror(errno));
    fail("{}: another process is {}", path(), force ? "writing to it" : "about to replace it (--force)");
  }
  if (force) {
    to_empty = true;
    return;
  }
  const Appending lock(fd);
  if (fstat(fd, &there)) fail("{}: {}", path(), std::strerror(errno));
  if (there.st_size == 0) return;
  if (options.existing == Existing::kRefuse)
    fail("{}: the file is not empty; --resume continues it, --force overwrites it", path());
  read_new(true);
  if (records.empty() && store::tail_of(behind(read_to)) != store::Tail::kTorn)
    fail("{}: no line is a record: nothing to resume", path());
  mend();
}

void Store::File::keep(json record) {
  const std::string point = store::point_in(record);
  if (!point.empty()) {
    const auto [at, is_new] = of_point.emplace(point, records.size());
    if (!is_new) {
      records[at->second] = std::move(record);
      return;
    }
  }
  records.push_back(std::move(record));
}

std::string Store::File::behind(off_t from) const {
  struct stat there {};
  if (fstat(fd, &there)) fail("{}: {}", path(), std::strerror(errno));
  std::string text(there.st_size > from ? size_t(there.st_size - from) : 0, '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = pread(fd, text.data() + got, text.size() - got, from + off_t(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("{}: {}", path(), std::strerror(errno));
    if (n == 0) break;
    got += size_t(n);
  }
  text.resize(got);
  return text;
}

// The whole lines that have come since; all, where somebody has shortened the file.
void Store::File::read_new(bool say) {
  struct stat there {};
  if (fstat(fd, &there) == 0 && there.st_size < read_to) read_to = 0, lines = 0;
  const std::string text = behind(read_to);
  store::Lines fresh = store::lines_of(text, path(), lines + 1);
  const size_t whole = text.size() - fresh.torn.size();
  for (json& r : fresh.records) keep(std::move(r));
  if (say)
    for (const std::string& trouble : fresh.troubles) fmt::print(stderr, "{}; left out\n", trouble);
  read_to += off_t(whole);
  lines += size_t(std::count(text.begin(), text.begin() + ptrdiff_t(whole), '\n'));
}

// Under the lock nobody writes: what stands behind the last newline is whole but for it, or torn.
void Store::File::mend() {
  const std::string torn = behind(read_to);
  switch (store::tail_of(torn)) {
    case store::Tail::kNone:
      return;
    case store::Tail::kTorn:
      fmt::print(stderr, "{}:{}: a torn line, {} bytes: cut off\n", path(), lines + 1, torn.size());
      if (ftruncate(fd, read_to)) fail("{}: {}", path(), std::strerror(errno));
      return;
    case store::Tail::kWhole:
    case store::Tail::kForeign:
      if (::write(fd, "\n", 1) != 1) fail("{}: {}", path(), std::strerror(errno));
      return read_new(true);
  }
}

// Where the path has become another file (an editor's new version; removed), there.
void Store::File::follow() {
  struct stat ours {
  }, there{};
  if (fstat(fd, &ours)) fail("{}: {}", path(), std::strerror(errno));
  if (stat(path().c_str(), &there) == 0 && there.st_ino == ours.st_ino && there.st_dev == ours.st_dev) return;
  const int other = ::open(path().c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (other < 0) fail("{}: {}", path(), std::strerror(errno));
  fmt::print(stderr, "{}: the file was replaced meanwhile; continuing with the new one\n", path());
  close(fd);
  fd = other, read_to = 0, lines = 0;
  set_lock(fd, F_RDLCK, kWriters, false);
}

void Store::File::failed(const std::string& line) const {
  const std::string why = std::strerror(errno);
  fail(
      "{}: writing a record failed: {}\n  the records in the file are complete, and --resume continues it. "
      "Not written:\n{}",
      path(), why, line);
}

// The lock is held, and the file ends with a newline.
void Store::File::append(const std::string& line) {
  for (size_t written = 0; written < line.size();) {
    const ssize_t n = ::write(fd, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n >= 0) {
      written += size_t(n);
      continue;
    }
    const int error = errno;
    if (regular && ftruncate(fd, read_to)) {  // the torn line is cut off by the next one who opens
    }
    errno = error;
    failed(line);
  }
  if (!regular) return;
  if (fdatasync(fd) && errno != EINVAL && errno != EROFS) {
    const int error = errno;
    if (ftruncate(fd, read_to)) {
    }
    errno = error;
    failed(line);
  }
  read_to += off_t(line.size()), ++lines;
}

Store::Store() : file_(std::make_unique<File>(StoreOptions{})) {}
Store::Store(StoreOptions options) : file_(std::make_unique<File>(std::move(options))) {
  if (!file_->path().empty()) file_->open();
}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Store::Turn Store::claim(const std::string& point) {
  std::lock_guard lock(file_->mutex);
  if (file_->of_point.contains(point)) return Turn::kRecorded;
  if (!file_->regular || file_->to_empty) return Turn::kMine;
  if (!set_lock(file_->fd, F_WRLCK, place_of(point), false)) return Turn::kElsewhere;
  file_->read_new(false);  // a record comes before its claim goes
  if (!file_->of_point.contains(point)) return Turn::kMine;
  set_lock(file_->fd, F_UNLCK, place_of(point), false);
  return Turn::kRecorded;
}

Store::Turn Store::wait(const std::string& point) {
  if (file_->regular) {  // without the mutex: records() goes on
    set_lock(file_->fd, F_WRLCK, place_of(point), true);
    set_lock(file_->fd, F_UNLCK, place_of(point), false);
  }
  const Turn turn = claim(point);
  return turn == Turn::kElsewhere ? wait(point) : turn;
}

void Store::release(const std::string& point) {
  std::lock_guard lock(file_->mutex);
  if (file_->regular) set_lock(file_->fd, F_UNLCK, place_of(point), false);
}

bool Store::add(json record, const std::string& point) {
  std::lock_guard lock(file_->mutex);
  File& f = *file_;
  if (!point.empty()) record["point"] = point;
  if (!record.contains("date")) record["date"] = utc_now();
  for (const auto& [name, value] : f.options.stamp)
    if (!record.contains(name)) record[name] = value;
  const std::string line = json_text(record) + "\n";
  if (f.path().empty()) {
    f.keep(std::move(record));
    return true;
  }
  if (!f.regular) {
    f.keep(std::move(record));
    f.append(line);
    return true;
  }
  f.follow();
  const Appending appending(f.fd);
  const auto give_back = [&] {
    if (!point.empty()) set_lock(f.fd, F_UNLCK, place_of(point), false);
  };
  try {
    if (f.to_empty) {
      if (ftruncate(f.fd, 0)) f.failed(line);
      f.to_empty = false;
      set_lock(f.fd, F_RDLCK, kWriters, false);
    }
    f.read_new(true);
    f.mend();
    if (!point.empty() && f.of_point.contains(point)) {
      give_back();
      return false;
    }
    f.append(line);
  } catch (...) {
    f.keep(std::move(record));  // tables still have it
    give_back();
    throw;
  }
  f.keep(std::move(record));
  give_back();
  return true;
}

std::vector<json> Store::records() const {
  std::lock_guard lock(file_->mutex);
  return file_->records;
}

bool Store::contains(const std::string& point) const {
  std::lock_guard lock(file_->mutex);
  return file_->of_point.contains(point);
}

const std::string& Store::path() const { return file_->path(); }

void work_through(Store& store, const std::vector<std::string>& points,
                  const std::function<void(size_t)>& work) {
  const auto do_it = [&](size_t i) {
    try {
      work(i);
    } catch (...) {
      store.release(points[i]);
      throw;
    }
    store.release(points[i]);
  };
  std::vector<size_t> elsewhere;
  for (size_t i = 0; i < points.size(); ++i) {
    const Store::Turn turn = store.claim(points[i]);
    if (turn == Store::Turn::kMine) do_it(i);
    if (turn == Store::Turn::kElsewhere) elsewhere.push_back(i);
  }
  for (const size_t i : elsewhere)
    if (store.wait(points[i]) == Store::Turn::kMine) do_it(i);
}

}  // namespace fp4lab
