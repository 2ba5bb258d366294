// The argument of a module-load call: PTX text, a fatbin with PTX, or an image that the emulator cannot run.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "emulator/driver/lz4.h"
#include "emulator/driver/state.h"
#include "fp4lab/emulator.h"

namespace fp4lab::emu::driver {
namespace {

using Bytes = std::span<const std::byte>;

// The fatbin container as nvcc 13 writes it (inferred from its output): a 16-byte header, then entries of a
// header and a payload.
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
  uint64_t flags;  // bit 13: LZ4, bit 15: Zstandard
  uint64_t zero, uncompressed_bytes;
};
struct FatbinWrapper {  // the target of pointers for __cudaRegisterFatBinary and cuModuleLoadData
  uint32_t magic;       // 0x466243b1
  uint32_t version;
  const void* data;
  const void* const* prelinked;  // version 2, of nvcc -rdc=true: the linked fatbins, up to a null pointer
};
constexpr uint32_t kFatbin = 0xba55ed50, kWrapper = 0x466243b1, kElf = 0x464c457f, kZstd = 0xfd2fb528;
constexpr uint32_t kLinkedVersion = 2;  // of a wrapper
constexpr size_t kMostObjects = 1 << 16;
constexpr uint64_t kMostBytes = uint64_t(1) << 30,
                   kMostRatio = 1024;  // of one PTX text; more is a broken header

template <class T>
std::optional<T> read(Bytes bytes) {
  if (bytes.size() < sizeof(T)) return {};
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// nvcc 13 compresses PTX with Zstandard. The system's library decompresses it, if there is one: the build
// does not depend on it.
std::string unzstd(Bytes data, uint64_t uncompressed) {
  using Decompress = size_t (*)(void*, size_t, const void*, size_t);
  static const auto decompress = [] {
    void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Decompress>(library ? dlsym(library, "ZSTD_decompress") : nullptr);
  }();
  if (!decompress) return {};
  std::string text(uncompressed, '\0');
  const size_t got = decompress(text.data(), text.size(), data.data(), data.size());
  return got == uncompressed ? text : std::string();
}

std::string text_of(const FatbinEntry& entry, Bytes payload) {
  std::string text;
  if (!entry.compressed_bytes)
    text.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
  else if (entry.compressed_bytes > payload.size() || entry.uncompressed_bytes > kMostBytes ||
           entry.uncompressed_bytes / kMostRatio > entry.compressed_bytes)
    return {};
  else if (payload = payload.first(entry.compressed_bytes); read<uint32_t>(payload) == kZstd)
    text = unzstd(payload, entry.uncompressed_bytes);
  else
    text = unlz4(payload, entry.uncompressed_bytes);
  text.resize(strnlen(text.data(), text.size()));
  return text;
}

// The word after ".target": "sm_90a".
std::string target_of(std::string_view ptx) {
  const size_t directive = ptx.find(".target");
  const size_t begin = directive == ptx.npos ? ptx.npos : ptx.find("sm_", directive);
  if (begin == ptx.npos) return {};
  return std::string(ptx.substr(begin, ptx.find_first_not_of("sm_0123456789af", begin) - begin));
}

struct Ptx {
  std::string text, target;
};
struct Contents {
  std::vector<Ptx> ptx;
  bool compressed = false;       // a text that could not be decompressed
  std::vector<uint32_t> cubins;  // their architectures
};

Contents contents_of(Bytes bytes) {
  Contents found;
  const auto header = read<FatbinHeader>(bytes);
  if (!header || header->header_bytes > bytes.size()) return found;
  bytes = bytes.subspan(header->header_bytes);
  if (header->payload_bytes < bytes.size()) bytes = bytes.first(header->payload_bytes);
  while (const auto entry = read<FatbinEntry>(bytes)) {
    if (entry->header_bytes < sizeof(FatbinEntry) || entry->header_bytes > bytes.size() ||
        entry->payload_bytes > bytes.size() - entry->header_bytes)
      break;
    if (entry->kind == 2) found.cubins.push_back(entry->architecture);
    if (entry->kind == 1) {
      std::string text = text_of(*entry, bytes.subspan(entry->header_bytes, entry->payload_bytes));
      std::string target = target_of(text);
      found.compressed |= text.empty();
      if (!text.empty()) found.ptx.push_back({std::move(text), std::move(target)});
    }
    bytes = bytes.subspan(entry->header_bytes + entry->payload_bytes);
  }
  return found;
}

// The PTX for the device, else for its family, else the newest that is not newer than the device.
Image choose(Contents found, const DeviceModel& device) {
  const int here = device.major * 10 + device.minor;
  const Ptx* best = nullptr;
  int best_rank = -1;
  std::string targets;
  for (const Ptx& ptx : found.ptx) {
    targets += (targets.empty() ? "" : ", ") + ptx.target;
    if (!runs_on(ptx.target, device)) continue;
    const char last = ptx.target.empty() ? '\0' : ptx.target.back();
    const int rank = last == 'a'             ? 3 * here + 2
                     : last == 'f'           ? 3 * here + 1
                     : ptx.target.size() > 3 ? 3 * std::atoi(ptx.target.c_str() + 3)
                                             : 0;
    if (rank > best_rank) best = &ptx, best_rank = rank;
  }
  if (best) return {best->text, {}};
  if (found.compressed)
    return {{},
            "the fatbin's PTX cannot be decompressed (is libzstd.so.1 installed?): build with nvcc "
            "--no-compress"};
  if (found.ptx.empty() && found.cubins.empty()) return {{}, "the fatbin is empty or broken"};
  if (found.ptx.empty())
    return {
        {},
        fmt::format(
            "the fatbin contains only machine code (sm_{}), and the emulator runs PTX: build with -gencode "
            "arch=compute_{}a,code=compute_{}a",
            fmt::join(found.cubins, ", sm_"), here, here)};
  return {
      {},
      fmt::format("the fatbin contains PTX for {}; the emulated device is {} (sm_{}a): build with -gencode "
                  "arch=compute_{}a,code=compute_{}a, or let FP4LAB_EMULATOR_DEVICE choose another: {}",
                  targets, device.name, here, here, here, device_model_names())};
}

// The readable bytes at a caller's address: a damaged fatbin must not crash the process.
std::vector<std::byte> bytes_at(const void* from, uint64_t bytes) {
  std::vector<std::byte> copy(bytes);
  iovec local{copy.data(), bytes}, remote{const_cast<void*>(from), bytes};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got < 0 && errno != EFAULT) {  // the system call is not allowed here
    std::memcpy(copy.data(), from, bytes);
    return copy;
  }
  copy.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return copy;
}

// A fatbin in memory contains its own length.
std::vector<std::byte> fatbin_at(const void* data) {
  const auto header = read<FatbinHeader>(bytes_at(data, sizeof(FatbinHeader)));
  if (!header || header->payload_bytes > kMostBytes) return {};
  return bytes_at(data, header->header_bytes + header->payload_bytes);
}

// The fatbins that an image is or points to; none for other images. `size` is 0 if unknown.
std::vector<std::vector<std::byte>> fatbins_of(const void* image, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(image);
  uint32_t magic = 0;
  std::memcpy(&magic, image, size && size < 4 ? size : 4);
  if (magic == kFatbin) return {size ? std::vector(bytes, bytes + size) : fatbin_at(image)};
  if (magic != kWrapper || (size && size < sizeof(FatbinWrapper))) return {};
  FatbinWrapper wrapper;
  std::memcpy(&wrapper, image, sizeof wrapper);
  if (wrapper.version != kLinkedVersion || !wrapper.prelinked) return {fatbin_at(wrapper.data)};
  // A real driver links the machine code of what nvcc has linked already.
  std::vector<std::vector<std::byte>> fatbins;
  for (const void* const* object = wrapper.prelinked; fatbins.size() < kMostObjects; ++object) {
    const auto pointer = read<const void*>(bytes_at(object, sizeof *object));
    if (!pointer || !*pointer) break;
    fatbins.push_back(fatbin_at(*pointer));
  }
  return fatbins;
}

// Links the PTX for the device of each fatbin to one text. CUDA's own device library is among them as machine
// code only: fatbins without PTX are skipped, and calls to their functions are refused later.
Image linked_of(const std::vector<std::vector<std::byte>>& fatbins, const DeviceModel& device) {
  std::vector<PtxText> texts;
  Image none{{}, "no fatbins were linked"};
  for (const auto& fatbin : fatbins) {
    Image found = choose(contents_of(fatbin), device);
    if (found.ptx.empty())
      none = std::move(found);
    else
      texts.push_back({fmt::format("object {}", texts.size() + 1), std::move(found.ptx)});
  }
  return texts.empty() ? none : linked(texts);
}

}  // namespace

bool runs_on(std::string_view target, const DeviceModel& device) {
  int wanted = 0;
  if (std::sscanf(std::string(target).c_str(), "sm_%d", &wanted) != 1) return true;  // the parser reports it
  const int here = device.major * 10 + device.minor;
  if (target.back() == 'a') return wanted == here;
  if (target.back() == 'f') return wanted / 10 == device.major && wanted <= here;
  return wanted <= here;
}

Image linked(std::span<const PtxText> texts) {
  if (texts.size() == 1) return {texts[0].text, {}};
  try {
    return {link_texts(texts), {}};
  } catch (const std::exception& e) {
    return {{}, e.what()};
  }
}

Image read_image(const void* image, size_t size) {
  if (const auto fatbins = fatbins_of(image, size); !fatbins.empty())
    return linked_of(fatbins, *state().device);
  uint32_t magic = 0;
  std::memcpy(&magic, image, size && size < 4 ? size : 4);
  if (magic == kElf)
    return {{},
            "the image is a cubin (machine code); the emulator runs PTX: pass the text of nvrtcGetPTX "
            "or nvcc -ptx"};
  const char* text = static_cast<const char*>(image);
  std::string ptx = size ? std::string(text, strnlen(text, size)) : std::string(text);
  if (ptx.find(".version") == ptx.npos)
    return {{}, "the image is neither PTX nor a fatbin", CUDA_ERROR_INVALID_IMAGE};
  return {std::move(ptx), {}};
}

}  // namespace fp4lab::emu::driver

using namespace fp4lab::emu;
using namespace fp4lab::emu::driver;

extern "C" CUresult fp4lab_emulator_select_for(const void* const* images, size_t count) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (const char* chosen = std::getenv("FP4LAB_EMULATOR_DEVICE"); chosen && *chosen) return CUDA_SUCCESS;
  std::vector<Contents> all;
  for (const void* image : std::span(images, count))
    for (const auto& fatbin : fatbins_of(image, 0)) all.push_back(contents_of(fatbin));
  const auto suits = [](const Contents& c, const DeviceModel& m) {
    return std::ranges::any_of(c.ptx, [&](const Ptx& p) { return runs_on(p.target, m); }) ||
           (c.ptx.empty() && std::ranges::count(c.cubins, uint32_t(m.major * 10 + m.minor)));
  };
  // nvcc -arch=sm_90a also embeds PTX for sm_90, which newer devices run too.
  const auto made_for = [](const Contents& c, const DeviceModel& m) {
    const std::string target = fmt::format("sm_{}", m.major * 10 + m.minor);
    return std::ranges::any_of(c.ptx, [&](const Ptx& p) {
      return p.target.starts_with(target) && p.target.size() <= target.size() + 1;
    });
  };
  const DeviceModel* best = nullptr;
  std::pair<ptrdiff_t, ptrdiff_t> most;  // images that run on it; of these, those compiled for it
  for (const DeviceModel* model : device_models()) {
    const std::pair fits{std::ranges::count_if(all, [&](const Contents& c) { return suits(c, *model); }),
                         std::ranges::count_if(all, [&](const Contents& c) { return made_for(c, *model); })};
    if (fits.first && fits > most) best = model, most = fits;
  }
  return best ? fp4lab_emulator_select(best->major, best->minor) : CUDA_ERROR_NO_BINARY_FOR_GPU;
}
