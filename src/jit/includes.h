// Which project files a kernel is made of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fp4lab::jit {

struct SourceFile {
  std::filesystem::path path;
  std::string text;
};

// Throws with path and errno text.
std::string read_file(const std::filesystem::path& path);

// The kernel first, then every file that its #include lines reach, each once, in order of discovery. Both
// branches of an #if are followed: too many files in a key cost a compilation, too few would cost its truth.
// Headers that lie in none of `folders` (the toolkit's) are left out. Throws for an #include of a macro,
// whose target cannot be known from text.
std::vector<SourceFile> project_files(const std::filesystem::path& kernel,
                                      const std::vector<std::filesystem::path>& folders);

}  // namespace fp4lab::jit
