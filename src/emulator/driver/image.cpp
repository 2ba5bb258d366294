// What a module-load call is given: PTX text, a fatbin that holds PTX, or something the emulator cannot run.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "emulator/driver/state.h"

namespace fp4lab::emu::driver {
namespace {

// The fatbin container as nvcc 13 writes it (read off its output): a 16-byte header, then entries of a header
// and a payload.
struct FatbinHeader {
  uint32_t magic;  // 0xba55ed50
  uint16_t version, header_bytes;
  uint64_t payload_bytes;
};
struct FatbinEntry {
  uint16_t kind;  // 1 = PTX, 2 = cubin
  uint16_t version;
  uint32_t header_bytes;
  uint64_t payload_bytes;
  uint32_t compressed_bytes, unknown;
  uint16_t minor, major;
  uint32_t architecture;
  uint32_t name_offset, name_bytes;
  uint64_t flags;  // bit 12..: compressed
  uint64_t zero, uncompressed_bytes;
};
struct FatbinWrapper {  // what __cudaRegisterFatBinary and cuModuleLoadData of an embedded image point to
  uint32_t magic;       // 0x466243b1
  uint32_t version;
  const void* data;
  const void* names;
};
constexpr uint32_t kFatbin = 0xba55ed50, kWrapper = 0x466243b1, kElf = 0x464c457f;

// nvcc 13 compresses PTX with Zstandard. The system's library does the work where there is one: the build
// does not depend on it.
std::string unzstd(const char* data, size_t bytes, uint64_t uncompressed) {
  using Decompress = size_t (*)(void*, size_t, const void*, size_t);
  static const auto decompress = [] {
    void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Decompress>(library ? dlsym(library, "ZSTD_decompress") : nullptr);
  }();
  constexpr uint64_t kMostBytes = uint64_t(1) << 30;
  if (!decompress || uncompressed > kMostBytes) return {};
  std::string text(uncompressed, '\0');
  const size_t got = decompress(text.data(), text.size(), data, bytes);
  return got == uncompressed ? text : std::string();
}

std::string text_of(const FatbinEntry& entry, const char* payload) {
  if (!entry.compressed_bytes) return {payload, strnlen(payload, entry.payload_bytes)};
  constexpr uint32_t kZstd = 0xfd2fb528;
  uint32_t magic = 0;
  if (entry.compressed_bytes > entry.payload_bytes || entry.compressed_bytes < 4) return {};
  std::memcpy(&magic, payload, 4);
  if (magic != kZstd) return {};
  std::string text = unzstd(payload, entry.compressed_bytes, entry.uncompressed_bytes);
  text.resize(strnlen(text.data(), text.size()));
  return text;
}

// The bytes at an address that a caller gave, as many as there are: a damaged fatbin must not take the
// process along.
std::vector<std::byte> bytes_at(const void* from, uint64_t bytes) {
  std::vector<std::byte> copy(bytes);
  iovec local{copy.data(), bytes}, remote{const_cast<void*>(from), bytes};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got < 0 && errno != EFAULT) {  // the call is not allowed here
    std::memcpy(copy.data(), from, bytes);
    return copy;
  }
  copy.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return copy;
}

// The PTX for the emulated architecture, else the newest that is not newer. `size` bytes are there; 0:
// unknown.
Image from_fatbin(const void* image, uint64_t size) {
  constexpr uint64_t kMostBytes = uint64_t(1) << 30;
  FatbinHeader header{};
  std::vector<std::byte> copy =
      bytes_at(image, size ? std::min<uint64_t>(size, sizeof header) : sizeof header);
  if (copy.size() < sizeof header) return {{}, "the fatbin ends within its header"};
  std::memcpy(&header, copy.data(), sizeof header);
  if (header.header_bytes < sizeof header || header.payload_bytes > kMostBytes)
    return {{},
            fmt::format("the fatbin's header says {} bytes with {} of payload", header.header_bytes,
                        header.payload_bytes)};
  const uint64_t whole = header.header_bytes + header.payload_bytes;
  copy = bytes_at(image, size ? std::min(size, whole) : whole);
  if (copy.size() < header.header_bytes) return {{}, "the fatbin ends within its header"};
  const std::byte* at = copy.data() + header.header_bytes;
  const std::byte* end = copy.data() + copy.size();
  const DeviceModel& device = *state().device;
  const uint32_t here = static_cast<uint32_t>(device.major * 10 + device.minor);
  bool compressed = false;
  std::string best, others;
  uint32_t best_architecture = 0;
  while (end - at >= static_cast<ptrdiff_t>(sizeof(FatbinEntry))) {
    FatbinEntry entry;
    std::memcpy(&entry, at, sizeof entry);
    if (entry.header_bytes < sizeof entry || entry.header_bytes > uint64_t(end - at) ||
        entry.payload_bytes > uint64_t(end - at) - entry.header_bytes)
      break;
    if (entry.kind == 1) {
      others += fmt::format("{}sm_{}", others.empty() ? "" : ", ", entry.architecture);
      if (entry.architecture <= here && entry.architecture >= best_architecture) {
        std::string text = text_of(entry, reinterpret_cast<const char*>(at + entry.header_bytes));
        compressed |= text.empty();
        if (!text.empty()) best = std::move(text), best_architecture = entry.architecture;
      }
    }
    at += entry.header_bytes + entry.payload_bytes;
  }
  if (!best.empty()) return {std::move(best), {}};
  if (compressed)
    return {
        {},
        "the fatbin's PTX is compressed and libzstd.so.1 is missing or fails: build with nvcc --no-compress"};
  return {{},
          others.empty()
              ? "the fatbin holds no PTX: build with -gencode arch=compute_100a,code=compute_100a (or 90a)"
              : fmt::format("the fatbin holds PTX for {}, the emulated device is sm_{}", others, here)};
}

}  // namespace

Image read_image(const void* image, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(image);
  uint32_t magic = 0;
  std::memcpy(&magic, bytes, size && size < 4 ? size : 4);
  if (magic == kWrapper) {
    FatbinWrapper wrapper;
    std::memcpy(&wrapper, bytes, sizeof wrapper);
    return from_fatbin(wrapper.data, 0);
  }
  if (magic == kFatbin) return from_fatbin(bytes, size);
  if (magic == kElf)
    return {{},
            "the image is a cubin (machine code); the emulator runs PTX: give it the text that nvrtcGetPTX "
            "or nvcc -ptx makes"};
  const char* text = static_cast<const char*>(image);
  std::string ptx = size ? std::string(text, strnlen(text, size)) : std::string(text);
  if (ptx.empty()) return {{}, "the image is empty"};
  return {std::move(ptx), {}};
}

}  // namespace fp4lab::emu::driver
