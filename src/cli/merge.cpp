// fp4lab merge: files of records, of shards above all, joined into one.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "fp4lab/error.h"
#include "fp4lab/store.h"

namespace fp4lab::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string json;
  bool force = false;
};

// Beside the file, and then in its place: it is whole or not there.
void write_whole(const std::string& path, const std::vector<std::string>& lines) {
  const std::string temporary = fmt::format("{}.{}", path, getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wbx");
  if (!file) fail("{}: {}", temporary, std::strerror(errno));
  bool good = true;
  for (const std::string& line : lines) good = good && std::fputs((line + "\n").c_str(), file) >= 0;
  good = good && std::fflush(file) == 0 && fdatasync(fileno(file)) == 0;
  const int error = errno;
  std::fclose(file);
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const std::string why = std::strerror(good ? errno : error);
  std::remove(temporary.c_str());
  fail("{}: {}", path, why);
}

int run(const Options& o) {
  refuse_overwriting(o.json, "--json", o.files);
  const Merged merged = merge_records(o.files);
  std::error_code none;
  if (o.json.empty()) {
    for (const std::string& line : merged.lines) fmt::print("{}\n", line);
  } else {
    if (!o.force && std::filesystem::file_size(o.json, none) > 0 && !none)
      fail("{}: the file is not empty; --force overwrites it", o.json);
    write_whole(o.json, merged.lines);
  }
  fmt::print(stderr, "{} records of {} files{}\n", merged.lines.size(), o.files.size(),
             merged.repeated
                 ? fmt::format("; of {} that were there several times the latest", merged.repeated)
                 : "");
  if (merged.missing.empty()) return 0;
  fmt::print(stderr, "fp4lab: no record is of shard {}\n", merged.missing);
  return 1;
}

const Command kCommand{"merge", "merge files of records, keeping the latest record of each point",
                       [](Arguments& app) {
                         auto o = std::make_shared<Options>();
                         app.add_option("file", o->files, "files written by --json").required();
                         app.add_option("--json", o->json, "output file; default: stdout");
                         app.add_flag("--force", o->force, "overwrite the output file");
                         app.examples({"fp4lab merge s.1-of-2.json s.2-of-2.json --json s.json"});
                         return [o] { return run(*o); };
                       }};

}  // namespace
}  // namespace fp4lab::cli
