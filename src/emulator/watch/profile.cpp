#include "emulator/watch/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "emulator/core/machine.h"
#include "emulator/core/place.h"

namespace fp4lab::emu {

namespace {

bool is_product(const AsyncOp& op) {
  const std::string_view name = op.name();
  return name == "tcgen05.mma" || name == "wgmma.mma_async";
}

std::string percent(uint64_t part, uint64_t whole) {
  return whole ? fmt::format("{:.1f} %", 100.0 * double(part) / double(whole)) : "-";
}

std::string size(uint64_t bytes) {
  return bytes >= 10'000'000 ? fmt::format("{:.1f} MB", double(bytes) / 1e6)
         : bytes >= 10'000   ? fmt::format("{:.1f} KB", double(bytes) / 1e3)
                             : fmt::format("{} B", bytes);
}

}  // namespace

void Profile::launch_begin(const Grid&) {
  warps_.clear(), last_.clear(), running_.clear(), seen_.clear();
  bytes_ = {};
  ctas_ = cta_steps_ = busy_steps_ = products_ = multiplying_ctas_ = steps_to_product_ = 0;
  report_.clear();
}

void Profile::cta_start(Cta& cta) {
  ++ctas_;
  running_[&cta].start = cta.cluster.clock();
}

void Profile::cta_exit(Cta& cta) {
  const auto it = running_.find(&cta);
  if (it == running_.end()) return;
  cta_steps_ += cta.cluster.clock() - it->second.start;
  busy_steps_ += it->second.busy;
  running_.erase(it);
  for (const auto& w : cta.warps) last_.erase(w.get());
}

// An instruction that executes again has waited in between.
void Profile::step(Warp& w, const Instr& i, uint32_t) {
  WarpKind& kind = warps_[w.id];
  const uint64_t now = w.cta.cluster.clock();
  Last& last = last_[&w];
  if (last.at == &i && now > last.end + 1) {
    Wait& wait = kind.waits[&w.source_of(i)];
    wait.steps += now - last.end - 1;
    ++wait.times;
  } else {
    ++kind.instructions;
  }
  last = {&i, now};
}

void Profile::issue(Warp& w, const AsyncOp& op) {
  WarpKind& kind = warps_[w.id];
  ++kind.issued;
  kind.role.issued(op, w.source_of(*op.origin));
  if (!is_product(op)) return;
  Running& r = running_[&w.cta];
  if (r.products++ == 0) r.since = w.cta.cluster.clock();
  if (!std::exchange(r.any, true)) ++multiplying_ctas_, steps_to_product_ += r.since - r.start;
  ++products_;
}

void Profile::complete(const AsyncOp& op) {
  if (!is_product(op)) return;
  const auto it = running_.find(op.cta);
  if (it == running_.end() || it->second.products == 0) return;
  if (--it->second.products == 0) it->second.busy += op.cta->cluster.clock() - it->second.since;
}

void Profile::access(const Access& a) {
  const bool read = a.kind == AccessKind::read;
  if (a.space == Space::global) {
    if (!read) {
      bytes_.written += a.bytes;
      return;
    }
    for (uint64_t at = a.address / 32; at <= (a.address + a.bytes - 1) / 32; ++at) {
      auto& page = seen_[at / 128];
      uint64_t& word = at / 64 % 2 ? page.second : page.first;
      const uint64_t bit = uint64_t(1) << at % 64;
      (word & bit ? bytes_.again : bytes_.first) += 32;
      word |= bit;
    }
  } else if (a.space == Space::shared) {
    (a.op ? read ? bytes_.operands : bytes_.filled : read ? bytes_.loads : bytes_.stores) += a.bytes;
  }
}

void Profile::tmem(const TmemAccess& a) {
  if (!a.op) return;
  (a.what == TmemAccess::What::read ? bytes_.tmem_read : bytes_.tmem_written) +=
      uint64_t(a.lanes) * a.columns * 4;
}

void Profile::launch_end(const Grid& grid) {
  std::map<std::string, Sum> roles;
  std::map<std::string, std::map<const Source*, Wait>> waits;
  for (const auto& [id, kind] : warps_) {
    const std::string name = kind.role.name().empty() ? "other" : kind.role.name();
    Sum& s = roles[name];
    s.warps.push_back(id);
    s.instructions += kind.instructions, s.issued += kind.issued;
    for (const auto& [at, wait] : kind.waits) {
      waits[name][at].steps += wait.steps, waits[name][at].times += wait.times;
      s.waited += wait.steps;
    }
  }
  for (auto& [name, s] : roles) {
    s.waits.assign(waits[name].begin(), waits[name].end());
    std::sort(s.waits.begin(), s.waits.end(), [](const auto& a, const auto& b) {
      return a.second.steps != b.second.steps ? a.second.steps > b.second.steps
                                              : a.first->line < b.first->line;
    });
  }
  report_ = json_ ? as_json(grid, roles) : as_text(grid, roles);
  last_.clear(), running_.clear(), seen_.clear();
}

std::string Profile::as_json(const Grid& grid, const std::map<std::string, Sum>& roles) const {
  using nlohmann::json;
  const auto share = [](uint64_t part, uint64_t whole) { return whole ? double(part) / double(whole) : 0; };
  json all = json::array();
  for (const auto& [name, s] : roles) {
    const uint64_t lifetime = cta_steps_ * s.warps.size();
    json waits = json::array();
    for (const auto& [at, wait] : s.waits) {
      json frames = json::array();
      for (uint32_t l = at->location; l && l < grid.module.locations.size() && frames.size() < 64;
           l = grid.module.locations[l].caller) {
        const Location& place = grid.module.locations[l];
        if (place.file == 0 || place.file >= grid.module.files.size()) break;
        frames.push_back({{"file", grid.module.files[place.file]}, {"line", place.line}});
      }
      waits.push_back({{"share", share(wait.steps, lifetime)},
                       {"times", wait.times},
                       {"line", at->line},
                       {"text", grid.module.line_text(at->line)},
                       {"frames", frames}});
    }
    all.push_back({{"name", name},
                   {"warps", s.warps},
                   {"instructions", s.instructions},
                   {"issued", s.issued},
                   {"waited", share(s.waited, lifetime)},
                   {"waits", waits}});
  }
  return json{{"kernel", kernel_name(grid.function.name)},
              {"ctas", ctas_},
              {"steps", share(cta_steps_, ctas_)},
              {"first_product", share(steps_to_product_, multiplying_ctas_)},
              {"products", products_},
              {"busy", share(busy_steps_, cta_steps_)},
              {"roles", all}}
      .dump();
}

std::string Profile::as_text(const Grid& grid, const std::map<std::string, Sum>& roles) const {
  std::string text = fmt::format(
      "profile of {}: {} CTAs, {} steps each on average; a step is one warp instruction of the CTA's "
      "cluster\n",
      kernel_name(grid.function.name), ctas_, ctas_ ? cta_steps_ / ctas_ : 0);
  uint64_t all = 0;
  for (const auto& [name, s] : roles) all += s.instructions;
  for (const auto& [name, s] : roles) {
    std::string warps;
    for (const unsigned w : s.warps) warps += fmt::format("{}{}", warps.empty() ? "" : ",", w);
    const uint64_t lifetime = cta_steps_ * s.warps.size();
    text += fmt::format(
        "  {} (warp{} {}): {} instructions ({}), {} asynchronous operations issued, waits {} of the time\n",
        name, s.warps.size() > 1 ? "s" : "", warps, s.instructions, percent(s.instructions, all), s.issued,
        percent(s.waited, lifetime));
    auto longest = s.waits;
    if (longest.size() > 5) longest.resize(5);
    for (const auto& [at, wait] : longest)
      text += fmt::format("    {:>7}  {} times at {}\n", percent(wait.steps, lifetime), wait.times,
                          one_line(grid.module, *at));
  }
  const Bytes& b = bytes_;
  text += fmt::format(
      "  tensor core: {} products, has work in {} of the CTAs' steps\n"
      "  global memory: {} read for the first time (DRAM), {} read again (L2, if it fits), {} written\n"
      "  shared memory: {} filled by copies, {} stored by threads, {} read by the tensor core and by stores, "
      "{} loaded by threads\n",
      products_, percent(busy_steps_, cta_steps_), size(b.first), size(b.again), size(b.written),
      size(b.filled), size(b.stores), size(b.operands), size(b.loads));
  if (b.tmem_read || b.tmem_written)
    text += fmt::format("  tensor memory: {} read, {} written\n", size(b.tmem_read), size(b.tmem_written));
  return text;
}

}  // namespace fp4lab::emu
