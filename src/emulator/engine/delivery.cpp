#include "emulator/engine/delivery.h"

#include <fmt/format.h>

namespace fp4lab::emu {

std::vector<Cta*> multicast_ctas(Warp& w, const Operand& mask_operand, unsigned lane, const char* what,
                                 bool none_is_fine) {
  const auto& ctas = w.cta.cluster.ctas;
  const uint32_t mask = w.source<uint16_t>(mask_operand)[lane] & 0xffff;
  if (mask == 0 || mask >> ctas.size()) {
    const Fault nobody(FaultKind::multicast, lane,
                       fmt::format("{}.multicast::cluster with mask {:#06x} in a cluster of {} CTAs", what,
                                   mask, ctas.size()));
    if (mask || !none_is_fine) throw nobody;
    w.cta.cluster.note_or_throw(nobody, w);
  }
  std::vector<Cta*> named;
  for (uint32_t rank = 0; rank < ctas.size(); ++rank)
    if (mask >> rank & 1) named.push_back(ctas[rank].get());
  return named;
}

std::vector<Delivery> deliveries(Cluster& cluster, size_t targets, uint32_t units) {
  const bool whole = cluster.grid.schedule.kind == Schedule::Kind::eager;
  std::vector<Delivery> parts;
  for (uint32_t t = 0; t < targets; ++t) {
    uint32_t pieces = whole || cluster.rng() % 2 ? 1 : 1 + static_cast<uint32_t>(cluster.rng() % 4);
    pieces = std::min(pieces, units);
    for (uint32_t p = 0, first = 0; p < pieces; ++p) {
      const auto end = static_cast<uint32_t>(uint64_t(units) * (p + 1) / pieces);
      parts.push_back({t, first, end - first});
      first = end;
    }
  }
  if (!whole) std::shuffle(parts.begin(), parts.end(), cluster.rng);
  return parts;
}

}  // namespace fp4lab::emu
