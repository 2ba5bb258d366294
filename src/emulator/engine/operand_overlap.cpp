#include "emulator/engine/operand_overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace fp4lab::emu {

namespace {

// What the answer depends on: all that a descriptor says but the start.
struct Strides {
  uint32_t lbo, sbo, rows, k, element_bytes;
  SharedMatrix::Swizzle swizzle;
  bool k_major;
  bool operator==(const Strides&) const = default;
};

struct Place {
  uint32_t address, row, k;
};

// Two places at one address: of 16 bytes each, as all starts and strides are multiples of that.
std::vector<Place> same_place(const Strides& s) {
  SharedMatrix m;
  m.lbo = s.lbo, m.sbo = s.sbo, m.swizzle = s.swizzle;
  const uint32_t per = s.k_major ? 1 : 16 / s.element_bytes, step = s.k_major ? 16 : 1;
  std::vector<Place> all;
  for (uint32_t row = 0; row < s.rows; row += per)
    for (uint32_t k = 0; k < s.k; k += step)
      all.push_back(
          {s.k_major ? m.k_major_address(row, k) : m.mn_major_address(row, k, s.element_bytes), row, k});
  const auto key = [](const Place& p) { return std::tuple(p.address, p.row, p.k); };
  std::ranges::sort(all, {}, key);
  const auto two = std::ranges::adjacent_find(all, {}, &Place::address);
  return two == all.end() ? std::vector<Place>{} : std::vector<Place>(two, two + 2);
}

const char* with_swizzle(SharedMatrix::Swizzle s) {
  constexpr const char* names[] = {"without a swizzle", "in 128-byte swizzle with 32-byte atoms",
                                   "in 128-byte swizzle", "in 64-byte swizzle", "in 32-byte swizzle"};
  return names[static_cast<int>(s)];
}

}  // namespace

void note_overlap(Cluster& cluster, const SharedMatrix& m, bool k_major, uint32_t rows, uint32_t k,
                  uint32_t element_bytes, const AsyncOp& op, const char* operand) {
  const Strides s{m.lbo, m.sbo, rows, k, k_major ? 1 : element_bytes, m.swizzle, k_major};
  thread_local std::vector<Strides> sound;  // a kernel has a few
  if (std::ranges::find(sound, s) != sound.end()) return;
  const std::vector<Place> two = same_place(s);
  if (two.empty()) {
    constexpr size_t kKept = 16;
    if (sound.size() == kKept) sound.erase(sound.begin());
    return sound.push_back(s);
  }
  const uint32_t atom = m.span() * (m.swizzle == SharedMatrix::Swizzle::b128_atom32 && !k_major ? 4 : 8);
  const auto place = [&](const Place& p) {
    return fmt::format("row {}, {} {} of K", p.row, k_major ? "byte" : "element", p.k);
  };
  cluster.tolerated(
      Fault(
          FaultKind::descriptor, op.lane,
          fmt::format("{}: {} and {} of {} are the same bytes of shared memory: by its descriptor LBO (bits "
                      "29:16) is {} bytes and SBO (bits 45:32) {}, and {} rows of {} {} bytes",
                      op.name(), place(two[0]), place(two[1]), operand, m.lbo, m.sbo, atom / m.span(),
                      k_major ? "it" : "K", fmt::format("{} take {}", with_swizzle(m.swizzle), atom))),
      op);
}

}  // namespace fp4lab::emu
