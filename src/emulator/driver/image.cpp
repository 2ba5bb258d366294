// What a module-load call is given: PTX text, a fatbin that holds PTX, or something the emulator cannot run.
#include <fmt/format.h>

#include <cstring>

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

Image from_fatbin(const std::byte* bytes) {
  FatbinHeader header;
  std::memcpy(&header, bytes, sizeof header);
  const std::byte* at = bytes + header.header_bytes;
  const std::byte* end = at + header.payload_bytes;
  bool compressed = false, any = false;
  std::string best;
  while (at + sizeof(FatbinEntry) <= end) {
    FatbinEntry entry;
    std::memcpy(&entry, at, sizeof entry);
    if (!entry.header_bytes || entry.payload_bytes > uint64_t(end - at)) break;
    const char* text = reinterpret_cast<const char*>(at + entry.header_bytes);
    if (entry.kind == 1) {
      any = true;
      if (entry.compressed_bytes)
        compressed = true;
      else
        best.assign(text, strnlen(text, entry.payload_bytes));
    }
    at += entry.header_bytes + entry.payload_bytes;
  }
  if (!best.empty()) return {std::move(best), {}};
  if (compressed) return {{}, "the fatbin's PTX is compressed: build with nvcc --no-compress"};
  return {{},
          any ? "the fatbin's PTX is empty"
              : "the fatbin holds no PTX: build with -gencode arch=compute_100a,code=compute_100a (or 90a)"};
}

}  // namespace

Image read_image(const void* image, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(image);
  uint32_t magic = 0;
  std::memcpy(&magic, bytes, size && size < 4 ? size : 4);
  if (magic == kWrapper) {
    FatbinWrapper wrapper;
    std::memcpy(&wrapper, bytes, sizeof wrapper);
    return from_fatbin(static_cast<const std::byte*>(wrapper.data));
  }
  if (magic == kFatbin) return from_fatbin(bytes);
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
