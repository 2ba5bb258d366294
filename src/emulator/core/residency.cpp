#include <algorithm>

#include "emulator/core/cta_state.h"
#include "emulator/core/scheduler.h"

namespace fp4lab::emu {

Residency::Residency(const DeviceModel& device, uint32_t shared_bytes, uint32_t threads, uint32_t ctas)
    : device_(device),
      shared_bytes_(shared_bytes),
      threads_((threads + kLanes - 1) / kLanes * kLanes),
      ctas_(ctas) {
  for (unsigned k = 0; k < device.sms; ++k) {
    sms_.push_back(std::make_unique<Sm>());
    sms_.back()->id = k;
  }
  uint32_t first = 0;
  for (uint8_t n : device.gpc_sms) {
    if (!n || first >= device.sms) break;
    const uint32_t count = std::min<uint32_t>(n, device.sms - first);
    gpcs_.push_back({first, count});
    first += count;
  }
}

bool Residency::fits(const Sm& sm) const {
  return sm.ctas < device_.ctas_per_sm && sm.threads_used + threads_ <= device_.threads_per_sm &&
         sm.shared_used + shared_bytes_ <= device_.shared_per_sm;
}

bool Residency::place(std::vector<Sm*>& sms) {
  // Least occupied first. Clusters of even size take SMs in pairs.
  const uint32_t step = ctas_ % 2 == 0 ? 2 : 1, need = ctas_ / step;
  chosen_.clear();
  uint32_t best_load = ~0u;
  for (auto [first, count] : gpcs_) {
    units_.clear();
    for (uint32_t k = first; k + step <= first + count; k += step) {
      uint32_t load = 0;
      bool room = true;
      for (uint32_t u = 0; u < step; ++u) {
        room &= fits(*sms_[k + u]);
        load += sms_[k + u]->ctas;
      }
      if (room) units_.push_back({load, k});
    }
    if (units_.size() < need) continue;
    std::partial_sort(units_.begin(), units_.begin() + need, units_.end());
    uint32_t load = 0;
    for (uint32_t k = 0; k < need; ++k) load += units_[k].load;
    if (load >= best_load) continue;
    best_load = load;
    chosen_.assign(units_.begin(), units_.begin() + need);
  }
  if (chosen_.empty()) return false;
  std::ranges::sort(chosen_, {}, &Unit::first);
  sms.clear();
  for (const Unit& unit : chosen_)
    for (uint32_t u = 0; u < step; ++u) sms.push_back(sms_[unit.first + u].get());
  for (Sm* sm : sms) {
    ++sm->ctas;
    sm->threads_used += threads_;
    sm->shared_used += shared_bytes_;
  }
  return true;
}

void Residency::remove(const std::vector<Sm*>& sms) {
  for (Sm* sm : sms) {
    --sm->ctas;
    sm->threads_used -= threads_;
    sm->shared_used -= shared_bytes_;
  }
}

uint64_t resident_clusters(const Function& f, const LaunchConfig& c, const DeviceModel& device,
                           uint64_t most) {
  const uint32_t shared =
      std::max(kReservedShared + f.static_shared_bytes, f.dynamic_shared_base + c.dynamic_shared);
  Residency r(device, shared, static_cast<uint32_t>(c.block.count()),
              static_cast<uint32_t>(c.cluster.count()));
  std::vector<Sm*> sms;
  uint64_t n = 0;
  while (n < most && r.place(sms)) ++n;
  return n;
}

uint64_t resident_clusters(const Function& f, const LaunchConfig& c, const DeviceModel& device) {
  return resident_clusters(f, c, device, ~uint64_t(0));
}

}  // namespace fp4lab::emu
