#include "jit/includes.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "fp4lab/error.h"

namespace fp4lab::jit {
namespace fs = std::filesystem;
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == text.npos ? std::string_view{} : text.substr(begin);
}

struct Include {
  std::string name;
  bool quoted;
};

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> out;
  std::istringstream lines(file.text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::string_view rest = trimmed(line);
    if (!rest.starts_with('#')) continue;
    rest = trimmed(rest.substr(1));
    if (!rest.starts_with("include")) continue;
    rest = trimmed(rest.substr(7));
    const char closing = rest.starts_with('"') ? '"' : rest.starts_with('<') ? '>' : 0;
    const size_t end = closing ? rest.find(closing, 1) : rest.npos;
    if (end == rest.npos)
      fail(
          "{}:{}: #include of something else than \"file\" or <file>: {}\n  the cache's key could not cover "
          "it",
          file.path.string(), number, line);
    out.push_back({std::string(rest.substr(1, end - 1)), closing == '"'});
  }
  return out;
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) fail("cannot read {}: it is a folder", path.string());
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot read {}: {}", path.string(), std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (in.bad()) fail("cannot read {}: {}", path.string(), std::strerror(errno));
  return text;
}

std::vector<SourceFile> project_files(const fs::path& kernel, const std::vector<fs::path>& folders) {
  std::vector<SourceFile> files{{kernel.lexically_normal(), read_file(kernel)}};
  std::set<fs::path> seen{files[0].path};
  for (size_t i = 0; i < files.size(); ++i) {
    for (const Include& include : includes_of(files[i])) {
      std::vector<fs::path> places;
      if (include.quoted) places.push_back(files[i].path.parent_path());
      places.insert(places.end(), folders.begin(), folders.end());
      for (const fs::path& place : places) {
        const fs::path path = (place / include.name).lexically_normal();
        std::error_code error;
        if (!fs::is_regular_file(path, error)) continue;
        if (seen.insert(path).second) files.push_back({path, read_file(path)});
        break;
      }
    }
  }
  return files;
}

}  // namespace fp4lab::jit
