#include "cli/elf.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

namespace fp4lab::cli {
namespace {

template <class T>
std::optional<T> at(const std::string& file, uint64_t offset) {
  T value;
  if (offset > file.size() || sizeof value > file.size() - offset) return {};
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::string text_at(const std::string& file, uint64_t offset) {
  return offset < file.size()
             ? std::string(file.data() + offset, strnlen(file.data() + offset, file.size() - offset))
             : std::string();
}

}  // namespace

ElfSummary summarize_elf(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  const auto header = at<Elf64_Ehdr>(file, 0);
  ElfSummary summary;
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
    return summary;
  summary.is_elf = true;
  const auto section = [&](size_t i) {
    return at<Elf64_Shdr>(file, header->e_shoff + i * sizeof(Elf64_Shdr)).value_or(Elf64_Shdr{});
  };
  const Elf64_Shdr names = section(header->e_shstrndx);
  for (size_t i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    summary.has_device_code |= text_at(file, names.sh_offset + s.sh_name) == ".nv_fatbin";
    if (s.sh_type != SHT_DYNAMIC) continue;
    const Elf64_Shdr strings = section(s.sh_link);
    for (uint64_t entry = 0; entry < s.sh_size; entry += sizeof(Elf64_Dyn)) {
      const auto d = at<Elf64_Dyn>(file, s.sh_offset + entry);
      if (!d || d->d_tag == DT_NULL) break;
      summary.has_rpath |= d->d_tag == DT_RPATH;
      if (d->d_tag == DT_NEEDED) summary.needed.push_back(text_at(file, strings.sh_offset + d->d_un.d_val));
    }
  }
  return summary;
}

}  // namespace fp4lab::cli
