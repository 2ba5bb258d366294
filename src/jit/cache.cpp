#include "jit/cache.h"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "fp4lab/error.h"
#include "fp4lab/json_text.h"
#include "jit/includes.h"
#include "jit/toolkit.h"

namespace fp4lab::jit {
namespace fs = std::filesystem;
using nlohmann::json;

std::string hash(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string text;
  for (unsigned char byte : canonical.digest) text += fmt::format("{:02x}", byte);
  return text;
}

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> said;
  std::lock_guard lock(mutex);
  if (said.insert(text).second) fmt::print(stderr, "fp4lab: warning: {}\n", text);
}

fs::path cache_folder() {
  if (const std::string asked = environment("FP4LAB_CACHE"); !asked.empty()) return asked;
  if (const std::string base = environment("XDG_CACHE_HOME"); !base.empty()) return fs::path(base) / "fp4lab";
  if (const std::string home = environment("HOME"); !home.empty()) return fs::path(home) / ".cache/fp4lab";
  return {};
}

fs::path entry_folder(const Artifact& artifact) {
  std::string name = artifact.name;
  for (char& c : name)
    if (c == '/') c = '-';
  return cache_folder() / artifact.arch / (name + "." + artifact.key);
}

namespace {

constexpr const char* kChecksums = "checksums";

json to_json(const Artifact& a) {
  json kernels = json::array();
  for (const KernelReport& k : a.kernels)
    kernels.push_back({{"name", k.name},
                       {"registers", k.registers},
                       {"shared_bytes", k.shared_bytes},
                       {"barriers", k.barriers},
                       {"stack_frame", k.stack_frame},
                       {"spill_stores", k.spill_stores},
                       {"spill_loads", k.spill_loads}});
  return {{"name", a.name},    {"source", a.source_path.string()}, {"arch", a.arch},
          {"key", a.key},      {"compiler", a.compiler},           {"options", a.options},
          {"kernels", kernels}};
}

std::vector<KernelReport> kernels_from(const json& report) {
  std::vector<KernelReport> kernels;
  for (const json& k : report.at("kernels"))
    kernels.push_back({k.at("name"), k.at("registers"), k.at("shared_bytes"), k.at("barriers"),
                       k.at("stack_frame"), k.at("spill_stores"), k.at("spill_loads")});
  return kernels;
}

// Throws when the entry is not what was written.
void read_entry(const fs::path& folder, Artifact& artifact) {
  std::map<std::string, std::string> texts;
  std::istringstream lines(read_file(folder / kChecksums));
  for (std::string sum, name; lines >> sum >> name;) {
    std::string text = read_file(folder / name);
    if (const std::string now = hash(text); now != sum)
      fail("{} ({} bytes) has checksum {}, {} was written", name, text.size(), now, sum);
    texts[name] = std::move(text);
  }
  for (const char* name : {"kernel.cu", "options", "log", "kernel.ptx", "kernel.cubin", "report.json"})
    if (!texts.contains(name)) fail("{} is not listed in {}", name, kChecksums);
  const json report = parse_json(texts["report.json"]);
  if (report.at("key") != artifact.key) fail("report.json is of key {}", report.at("key").get<std::string>());
  artifact.kernels = kernels_from(report);
  artifact.source = std::move(texts["kernel.cu"]);
  artifact.log = std::move(texts["log"]);
  artifact.ptx = std::move(texts["kernel.ptx"]);
  artifact.cubin = std::move(texts["kernel.cubin"]);
}

void write_file(const fs::path& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), std::streamsize(text.size()));
  out.close();
  if (!out) fail("cannot write {}: {}", path.string(), std::strerror(errno));
}

// A name that no other thread or process uses.
fs::path temporary_folder(const fs::path& parent) {
  static std::atomic<unsigned> counter = 0;
  return parent / fmt::format(".tmp-{}-{}", getpid(), counter++);
}

// What killed processes left behind. Anything younger than an hour may be another process at work.
void sweep_leftovers(const fs::path& parent) {
  std::error_code error;
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    std::error_code ignored;
    if (entry.path().filename().string().starts_with(".tmp-") && fs::last_write_time(entry, ignored) < old)
      fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

bool fetch(Artifact& artifact) {
  if (cache_folder().empty()) return false;
  const fs::path folder = entry_folder(artifact);
  std::error_code error;
  if (!fs::exists(folder, error)) return false;
  try {
    read_entry(folder, artifact);
  } catch (const std::exception& damage) {
    // The entry may have been replaced between two reads; the next look sees the new one.
    try {
      read_entry(folder, artifact);
    } catch (const std::exception& again) {
      warn_once(
          fmt::format("cache entry {} is damaged ({}): it is built again", folder.string(), again.what()));
      return false;
    }
  }
  artifact.folder = folder;
  artifact.from_cache = true;
  return true;
}

void keep(Artifact& artifact, bool replace) {
  if (cache_folder().empty()) {
    warn_once("no cache: none of FP4LAB_CACHE, XDG_CACHE_HOME and HOME is set");
    return;
  }
  const fs::path folder = entry_folder(artifact), parent = folder.parent_path();
  const fs::path temporary = temporary_folder(parent);
  std::error_code ignored;
  try {
    std::error_code error;
    fs::create_directories(temporary, error);
    if (error) fail("cannot create {}: {}", temporary.string(), error.message());
    static std::once_flag swept;
    std::call_once(swept, sweep_leftovers, parent);

    std::string options;
    for (const std::string& option : artifact.options) options += option + "\n";
    const std::string report = json_text(to_json(artifact), 1) + "\n";
    // No fsync: a power cut may tear an entry, the checksums find that out, and compiling again is cheap.
    std::string checksums;
    const auto write = [&](const char* name, const std::string& text) {
      write_file(temporary / name, text);
      checksums += fmt::format("{}  {}\n", hash(text), name);
    };
    write("kernel.cu", artifact.source);
    write("options", options);
    write("log", artifact.log);
    write("kernel.ptx", artifact.ptx);
    write("kernel.cubin", artifact.cubin);
    write("report.json", report);
    write_file(temporary / kChecksums, checksums);

    if (replace && fs::exists(folder, ignored)) {
      const fs::path aside = temporary_folder(parent);
      fs::rename(folder, aside, ignored);
      fs::remove_all(aside, ignored);
    }
    fs::rename(temporary, folder, error);
    if (error) {
      fs::remove_all(temporary, ignored);
      // Another process was faster: its entry has the same key.
      if (error != std::errc::directory_not_empty && error != std::errc::file_exists)
        fail("cannot rename {} to {}: {}", temporary.string(), folder.string(), error.message());
    }
    artifact.folder = folder;
  } catch (const std::exception& error) {
    fs::remove_all(temporary, ignored);
    // The temporary name differs each time; the folder is what the user can mend.
    std::string text = error.what();
    if (const size_t at = text.find(temporary.string()); at != text.npos)
      text.replace(at, temporary.string().size(), parent.string());
    warn_once(fmt::format("compiling without a cache: {}", text));
  }
}

}  // namespace fp4lab::jit
