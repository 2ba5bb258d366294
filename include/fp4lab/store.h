// Where results are kept: a file of JSON lines, one line for each point when it is finished. Nothing that was
// computed is lost, whatever ends the process, and however many processes write to the file.
//
//   Store store({.path = "s.json", .existing = Existing::kResume, .stamp = stamp_of(device)});
//   work_through(store, points, [&](size_t i) { store.add(record_of(measure(i)), points[i]); });
//   fmt::print("{}", table_of(store.records()));  // tables are functions of records, not of this run
//
// A point is what a record is about, as text (point_of): equal text, equal point. A file has one record of a
// point. A record is an object; beside the writer's fields it holds "point", "date" (UTC, when it was
// finished) and the stamp: "command", "commit", "device" and what else the writer names. Records that are
// about no point (a session, a limit of the device) have no "point" and are always added.
//
// What is behind it:
// * a line is appended in one piece under a lock, and flushed to the disk; a write that fails (a full disk)
// is
//   taken back, so the file holds whole lines only;
// * kill -9 within a write leaves a torn last line: whoever opens or appends next cuts it off and says so;
// * processes that share a file claim points before they work on them. Locks and claims are the kernel's
//   (open file description locks): they go with the process, so none is ever stale;
// * nothing is written before the first record: a command that is refused leaves files as they were.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fp4lab/device.h"

namespace fp4lab {

/// What to do with a file that holds something already.
enum class Existing {
  kRefuse,
  kResume,  // its points are done; new records are appended
  kForce,   // it is emptied when the first record is written
};

using Stamp = std::vector<std::pair<std::string, std::string>>;

struct StoreOptions {
  std::string path = {};  // empty: records are kept in memory only
  Existing existing = Existing::kRefuse;
  Stamp stamp = {};                      // fields of every record that does not have them
  std::vector<std::string> inputs = {};  // files that the command reads: the output may be none of them
};

class Store {
 public:
  Store();  // in memory only
  /// Fails, and leaves the file as it is, when it holds something and `existing` is kRefuse, when it is one
  /// of the inputs, when it holds something and no records, when it cannot be written, and with kForce when
  /// another process is writing to it. What is not a record is left out and said on stderr.
  explicit Store(StoreOptions);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  enum class Turn {
    kMine,      // this process is to work on it, until add() or release()
    kRecorded,  // there is a record
    kElsewhere  // another process is at it
  };
  Turn claim(const std::string& point);
  /// Waits until no other process is at it: kMine or kRecorded.
  Turn wait(const std::string& point);
  void release(const std::string& point);

  /// Adds the record, which takes what it lacks from the stamp, and releases the point. False: another record
  /// of this point was first, and this one is left out. Throws with the system's text, the place and the
  /// record itself when it cannot be written; records() has it nevertheless.
  bool add(nlohmann::json record, const std::string& point = {});

  /// What the file holds, records of other processes included, in the order of the file. Safe while another
  /// thread adds.
  std::vector<nlohmann::json> records() const;
  bool contains(const std::string& point) const;
  const std::string& path() const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// Calls work(i) for every point that has no record, each in one process only. Those that another process is
/// at come last: they are waited for, and worked on here if that process ended without a record. `work` adds
/// the record; a point of which it adds none is given back.
void work_through(Store&, const std::vector<std::string>& points, const std::function<void(size_t)>& work);

/// The fields' values as one line: "sweep | g2k1536 | sm_100a | ...". `type` is the first.
std::string point_of(std::string_view type, const std::vector<std::string>& values);

/// "command", "commit", "device".
Stamp stamp_of(const Device&);
/// "command" and "commit", of work that no device does.
Stamp stamp_of_process();
std::string command_line();  // of this process
std::string utc_now();       // "2026-11-28T12:00:00Z"
/// HEAD of the project's repository, ", modified" when tracked files differ from it; FP4LAB_COMMIT speaks for
/// a copy of the tree that has none. "unknown (why)" otherwise.
std::string commit();

/// The file's records; of a point that it has twice the later one. A torn last line is left out and said on
/// stderr. Fails, with the line, on what is not a record.
std::vector<nlohmann::json> read_records(const std::string& path);

/// A part of the points, in a file of its own: number `index` of `count`, from 1.
struct Shard {
  unsigned index = 1, count = 1;
  bool takes(size_t point) const { return point % count == index - 1; }
  std::string text() const;                         // "2/4"; empty for the whole
  std::string path(const std::string& path) const;  // "s.json": "s.2-of-4.json"; the whole: as it is
};
Shard parse_shard(const std::string& text);  // "2/4"; fails on anything else

struct Merged {
  std::vector<std::string> lines;  // as they stand in the files
  size_t repeated = 0;             // records that were left out, since an equal point follows
  std::string missing;             // shards that no record is of: "3/4, 4/4"
};
/// The records of all files, in their order; of a point that is there several times the one with the latest
/// date.
Merged merge_records(const std::vector<std::string>& paths);

}  // namespace fp4lab
