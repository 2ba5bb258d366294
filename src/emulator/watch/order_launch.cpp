// Order between launches. Launches run one after the other here; on a GPU one that was launched with
// programmatic stream serialisation begins when all CTAs of the launch before it have executed
// griddepcontrol.launch_dependents or are over, and only griddepcontrol.wait waits for that launch's end and
// makes what it wrote visible (PTX ISA 9.7.13.13). So what it accesses before must not be what the launch
// before accesses.
#include <algorithm>

#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

void OrderChecker::grid_waited(ClusterState& c, WarpState& w, const Warp& warp) {
  const uint32_t component = c.stream(Stream::grid_wait, 0, 0);
  change(w, warp.active, &Knowledge::v, [&](Clock& k) { k.raise(component, 1); });
  c.cta[warp.cta.rank].grid_waited = true;
  std::lock_guard lock(pasts_->mutex);
  if (std::ranges::find(pasts_->waits, c.id, &std::pair<uint64_t, uint32_t>::first) == pasts_->waits.end())
    pasts_->waits.emplace_back(c.id, component);
}

void OrderChecker::dependents_launched(ClusterState& c, const Cta& cta) {
  CtaStateOf& own = c.cta[cta.rank];
  if (!own.dependents_launched && own.grid_waited) pasts_->before_is_over = true;
  own.dependents_launched = true;
}

// At the end of a launch.
void OrderChecker::keep_accesses(const Grid& grid) {
  // Many pages are kept only where a launch may ask to overlap with this one.
  constexpr size_t kFewPages = 4096;
  auto& all = pasts_->all;
  const LaunchConfig& config = grid.config;
  size_t pages = 0;
  for (const Global::Shard& s : global_->shards) pages += s.pages.size();
  if (pages > kFewPages && !config.may_overlap) return forget(config.stream);
  if (!config.early || pasts_->before_is_over)
    std::erase_if(all, [&](const Past& p) { return p.stream == config.stream; });
  Past past{config.stream,
            &grid.module,
            grid.function.name,
            code_base_,
            config.grid,
            config.cluster,
            static_cast<uint32_t>((config.block.count() + kLanes - 1) / kLanes),
            {},
            {}};
  for (Global::Shard& s : global_->shards) past.pages.merge(s.pages), past.reads.merge(s.reads);
  all.push_back(std::move(past));
  if (all.size() > Pasts::kMost) all.erase(all.begin());
}

void OrderChecker::forget(const Module& module) {
  std::erase_if(pasts_->all, [&](const Past& p) { return p.module == &module; });
}

void OrderChecker::forget(uint64_t stream) {
  std::erase_if(pasts_->all, [&](const Past& p) { return p.stream == stream; });
}

void OrderChecker::note_read(const Touch& now, uint64_t address, uint32_t bytes) {
  for (uint64_t at = address, end = address + bytes; at < end;) {
    const uint64_t number = at / Global::kPage, page_end = std::min(end, (number + 1) * Global::kPage);
    Global::Shard& shard = global_->shard(number);
    std::lock_guard lock(shard.mutex);
    auto& page = shard.reads[number];
    if (!page) page = std::make_unique<Global::ReadPage>();
    while (at < page_end) {
      const uint64_t next = std::min(page_end, (at / 16 + 1) * 16);
      Touch& t = page->cell[at % Global::kPage / 16];
      const uint16_t mask = t.mask | static_cast<uint16_t>(((1u << (next - at)) - 1) << at % 16);
      if (!t.mask) t = now;
      t.mask = mask;
      at = next;
    }
  }
}

bool OrderChecker::knows_grid_wait(const Actor& a) const {
  std::lock_guard lock(pasts_->mutex);
  return std::ranges::any_of(pasts_->waits, [&](const auto& wait) {
    const auto& [cluster, component] = wait;
    return cluster == a.cluster->id ? (*a.v)[component] || (*a.lax_v)[component]
                                    : a.v->of(cluster, component);
  });
}

// `bytes` of one cell.
void OrderChecker::meet_past(const Actor& a, const Touch& now, uint64_t address, uint32_t bytes) {
  const uint64_t page = address / Global::kPage, cell = address % Global::kPage / 16;
  for (const Past& past : pasts_->all) {
    if (past.stream != grid_->config.stream) continue;
    const Touch* met = nullptr;
    const auto meets = [&](const Touch& t) {
      const bool both_strong = t.is(Touch::strong) && now.is(Touch::strong);
      if (!met && !both_strong && (t.is(Touch::write) || now.is(Touch::write))) met = &t;
    };
    if (const auto it = past.pages.find(page); it != past.pages.end())
      it->second->cell[cell].each(now.mask, meets);
    if (now.is(Touch::write))
      if (const auto it = past.reads.find(page); it != past.reads.end())
        if (const Touch& t = it->second->cell[cell]; t.mask & now.mask) meets(t);
    if (met && !knows_grid_wait(a)) return found_before_wait(past, *met, a, now, address, bytes);
  }
}

}  // namespace fp4lab::emu
