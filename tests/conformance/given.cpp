#include "given.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "fp4lab/error.h"

namespace fp4lab::conformance {

namespace {

std::filesystem::path beside(std::filesystem::path ptx, const char* extension) {
  return ptx.replace_extension(extension);
}

std::optional<std::vector<std::byte>> bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// A NaN with a payload, of a format with so many bits behind the exponent.
uint64_t random_nan(Random& r, unsigned bytes) {
  const unsigned fraction = bytes == 2 ? 10 : bytes == 4 ? 23 : 52;
  const uint64_t sign = r.bits() << 63 >> (64 - 8 * bytes);
  const uint64_t exponent = (~uint64_t(0) >> (65 - 8 * bytes)) >> fraction << fraction;
  return sign | exponent | (uint64_t(1) << (fraction - r.below(2))) >> 1 |
         (r.bits() & ((uint64_t(1) << fraction) - 1));
}

std::vector<std::byte> random_input(uint64_t seed, size_t bytes) {
  Random r(seed);
  std::vector<std::byte> in(bytes);
  for (size_t at = 0; at < bytes; at += 8) {
    const unsigned width = r.one_in(2) ? 8 : r.one_in(2) ? 4 : 2;
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i += width)
      word |= (r.one_in(6) ? random_nan(r, width) : random_operand(r, width)) << 8 * i;
    std::memcpy(&in[at], &word, std::min<size_t>(8, bytes - at));
  }
  return in;
}

}  // namespace

Program read_given(const std::filesystem::path& path) {
  const auto bytes = bytes_of(path);
  if (!bytes) fail("{} cannot be read", path.string());
  Program p;
  p.kind = Kind::given;
  p.text.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  size_t in = 0;
  if (std::sscanf(p.text.c_str(), "// threads %u ctas %u out %zu in %zu shared %u", &p.threads, &p.ctas,
                  &p.out_bytes, &in, &p.shared) != 5)
    fail("{}: its first line is no '// threads T ctas C out BYTES in BYTES shared BYTES'", path.string());
  p.seed = XXH3_64bits(p.text.data(), p.text.size());
  if (auto beside_it = bytes_of(beside(path, ".in")))
    p.in = std::move(*beside_it);
  else
    p.in = random_input(p.seed, in);
  return p;
}

std::optional<std::vector<std::byte>> given_result(const std::filesystem::path& path) {
  return bytes_of(beside(path, ".out"));
}

bool write_given(const std::filesystem::path& stem, const Program& p, const std::vector<std::byte>& result) {
  const auto write = [&](const char* extension, const void* bytes, size_t count) {
    return bool(std::ofstream(stem.string() + extension, std::ios::binary)
                    .write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count)));
  };
  std::string text = p.text;
  if (text.starts_with("// threads ")) text.erase(0, text.find('\n') + 1);  // of what it was reduced from
  text = fmt::format("// threads {} ctas {} out {} in {} shared {}\n", p.threads, p.ctas, p.out_bytes,
                     p.in.size(), p.shared) +
         text;
  return write(".ptx", text.data(), text.size()) && write(".in", p.in.data(), p.in.size()) &&
         write(".out", result.data(), result.size());
}

}  // namespace fp4lab::conformance
