// What was found, each once, and the report of it in the words of whoever wrote the kernel (order_words.cpp
// has those of each class).
#include <fmt/format.h>

#include <algorithm>

#include "emulator/core/place.h"
#include "emulator/watch/order_found.h"

namespace fp4lab::emu {

using namespace order;

namespace {

constexpr size_t kErrorsOfClass = 4, kNotesOfClass = 1;  // in a report

std::string mnemonic(const Source& s) {
  std::string text;
  for (const std::string_view t : s.tokens) {
    if (t.starts_with("sync") || t.starts_with("shared") || t.starts_with("b32") || t.starts_with("L2"))
      break;
    text += fmt::format("{}{}", text.empty() ? "" : ".", t);
    if (text.size() > 24) break;
  }
  return text;
}

}  // namespace

static std::string cta_text(Dim3 grid, Dim3 size, uint64_t cluster, uint32_t rank) {
  const uint64_t nx = grid.x / size.x, ny = grid.y / size.y;
  return fmt::format("CTA ({},{},{})", cluster % nx * size.x + rank % size.x,
                     cluster / nx % ny * size.y + rank / size.x % size.y,
                     cluster / nx / ny * size.z + rank / size.x / size.y);
}

std::string OrderChecker::cta_name(uint64_t cluster, uint32_t rank) const {
  return cta_text(grid_->config.grid, grid_->config.cluster, cluster, rank);
}

// The CTA is named where there is more than one.
std::string OrderChecker::thread_name(const ClusterState& c, uint32_t component) const {
  const uint32_t warp = component / kLanes % c.warps, rank = component / kLanes / c.warps;
  return fmt::format("warp {}, lane {}{}", warp, component % kLanes,
                     c.ctas > 1 ? " of " + cta_name(c.id, rank) : "");
}

namespace {

OrderChecker::Party party_at(const Module& m, const Source& s) {
  OrderChecker::Party p;
  p.does = mnemonic(s);
  p.ptx = fmt::format("{}:{}", m.name.empty() ? "ptx" : m.name, s.line);
  p.cuda = cuda_position(m, s);
  p.line = s.line;
  std::string_view line = m.line_text(s.line);
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
  p.source = line;
  return p;
}

}  // namespace

OrderChecker::Party OrderChecker::party(const Touch& t) const {
  Party p = party_at(grid_->module, source_at(*grid_, code_base_, t.site));
  const ClusterState* c = clusters_[t.cluster].get();
  if (!c) {
    p.who = fmt::format("a thread of cluster {}", t.cluster);
  } else {
    const uint32_t thread = t.lanes ? t.component : t.issuer;
    p.who = fmt::format("{}warp {}, {} of {}", t.lanes ? "" : "issued by ", thread / kLanes % c->warps,
                        lane_list(t.lanes ? t.lanes : 1u << thread % kLanes),
                        cta_name(t.cluster, thread / kLanes / c->warps));
  }
  return p;
}

OrderChecker::Party OrderChecker::past_party(const Past& past, const Touch& t) const {
  const Source& s = past.module->functions[function_at(past.code_base, t.site)]
                        .source[t.site - past.code_base[function_at(past.code_base, t.site)]];
  Party p = party_at(*past.module, s);
  const uint32_t thread = t.lanes ? t.component : t.issuer;
  p.who = fmt::format("kernel {}, {}warp {}, {} of {}", kernel_name(past.kernel), t.lanes ? "" : "issued by ",
                      thread / kLanes % past.warps, lane_list(t.lanes ? t.lanes : 1u << thread % kLanes),
                      cta_text(past.grid, past.cluster, t.cluster, thread / kLanes / past.warps));
  return p;
}

void OrderChecker::found_before_wait(const Past& past, const Touch& before, const Actor& a, const Touch& now,
                                     uint64_t address, uint32_t bytes) {
  std::lock_guard lock(found_->mutex);
  const uint8_t extra = static_cast<uint8_t>((before.flags & 3) << 2 | (now.flags & 3));
  auto [it, fresh] = found_->entries.try_emplace({Class::before_grid_wait, before.site, now.site, extra});
  Finding& f = it->second.finding;
  if (fresh) {
    it->second.cluster = a.cluster->id, it->second.number = found_->numbers[a.cluster->id]++;
    f.error = true, f.count = 0;
    f.kind = name_of(Class::before_grid_wait);
    f.kernel = grid_->function.name;
    f.place = fmt::format("global [{:#x}, {:#x})", address, address + bytes);
    f.first = past_party(past, before), f.then = party(now);
    const char *first = before.is(Touch::write) ? "writes" : "reads",
               *then = now.is(Touch::write) ? "written" : "read";
    f.what = fmt::format(
        "{} {} before griddepcontrol.wait: kernel {}, launched before it, {} it and may still be running "
        "(programmatic stream serialization)",
        f.place, then, kernel_name(past.kernel), first);
    f.needs =
        "griddepcontrol.wait (cudaGridDependencySynchronize) in front of the access, by the thread itself or "
        "before a barrier that orders it";
    f.belongs = fmt::format("griddepcontrol.wait before line {}", f.then.line);
    std::string has;
    for (const Function& function : grid_->module.functions)
      for (const Source& s : function.source)
        if (s.tokens.size() > 1 && s.tokens[0] == "griddepcontrol" && s.has("wait"))
          has += fmt::format("{}{}", has.empty() ? "; the module has one at line " : ", ", s.line);
    f.belongs += has.empty() ? "; the module has none" : has;
    ++errors_;
  }
  ++f.count;
}

std::string OrderChecker::Finding::text() const {
  auto party = [](const Party& p) {
    return fmt::format("{} ({})\n      {}  {}{}", p.does, p.who, p.ptx, p.source,
                       p.cuda.empty() ? "" : "  (" + p.cuda + ")");
  };
  return fmt::format("{}\n  kernel {}\n    first: {}\n    then:  {}\n    needs: {}{}", what,
                     kernel_name(kernel), party(first), party(then), needs,
                     belongs.empty() ? "" : "\n    missing: " + belongs);
}

const char* OrderChecker::name_of(Class k) {
  constexpr const char* names[] = {
#define ORDER_CLASS(id, name, severity, what) name,
#include "emulator/watch/order_classes.def"
#undef ORDER_CLASS
  };
  return names[static_cast<size_t>(k)];
}

bool OrderChecker::is_error(Class k) {
  constexpr std::string_view severities[] = {
#define ORDER_CLASS(id, name, severity, what) severity,
#include "emulator/watch/order_classes.def"
#undef ORDER_CLASS
  };
  return severities[static_cast<size_t>(k)] == "error";
}

OrderChecker::Finding OrderChecker::words(Class k, const Touch& before, const Actor& a, const Touch& now,
                                          const Place& place) const {
  if (k == Class::exit && !before.lanes && !before.is(Touch::write) &&
      a.cluster->stream_of(before).kind == Stream::bulk_read)
    k = Class::exit_read;
  if (k == Class::layout && before.layout == static_cast<uint8_t>(Layout::none)) k = Class::layout_none;
  Finding f;
  f.error = is_error(k);
  f.count = 0;
  f.kind = name_of(k);
  f.kernel = grid_->function.name;
  f.place = k == Class::wgmma_fence ? "registers" : place_text(k, before, now, place);
  Wording w = wording(k, before, a, now, place, f.place);
  f.what = std::move(w.what), f.needs = std::move(w.needs);
  f.belongs = belongs(k, before, a, now);
  f.first = party(before), f.then = party(now);
  if (k == Class::exit || k == Class::exit_arrival || k == Class::exit_read)
    f.then.does = "exit", f.then.who = place.cta->name();
  return f;
}

// Both are the same warp's, and a matter of the program text.
void OrderChecker::found_unfenced(uint32_t writer, uint32_t product, const Actor& a) {
  Touch before, now;
  before.cluster = now.cluster = static_cast<uint32_t>(a.cluster->id);
  before.component = now.component = before.issuer = now.issuer =
      static_cast<uint16_t>(a.own / kLanes * kLanes);
  before.lanes = ~0u, before.mask = now.mask = 0xffff;
  before.site = writer, now.site = product;
  before.flags = Touch::write, now.flags = Touch::async;
  found(Class::wgmma_fence, before, a, now, {Place::Kind::shared, nullptr, 0});
}

void OrderChecker::found(Class k, const Touch& before, const Actor& a, const Touch& now, const Place& place) {
  const uint8_t extra = static_cast<uint8_t>(place.kind) << 4 | (before.flags & 3) << 2 | (now.flags & 3);
  std::lock_guard lock(found_->mutex);
  auto [it, fresh] = found_->entries.try_emplace({k, before.site, now.site, extra});
  Found::Entry& e = it->second;
  const uint64_t count = fresh ? 0 : e.finding.count;
  // The same one is told for any number of host threads.
  if (fresh || a.cluster->id < e.cluster) {
    e.cluster = a.cluster->id, e.number = found_->numbers[e.cluster]++;
    e.finding = words(k, before, a, now, place);
  }
  e.finding.count = count + 1;
  if (fresh) ++(e.finding.error ? errors_ : notes_);
}

void OrderChecker::Found::finish(const Grid&) {
  std::vector<const Entry*> all;
  for (const auto& [key, e] : entries) all.push_back(&e);
  std::ranges::sort(all, {},
                    [](const Entry* e) { return std::tuple(!e->finding.error, e->cluster, e->number); });
  last.clear();
  for (const Entry* e : all) last.push_back(e->finding);
}

std::vector<OrderChecker::Finding> OrderChecker::findings() const { return found_->last; }

// Findings of one class are most often one mistake: the first few are told, the others counted.
std::string OrderChecker::report(bool errors) const {
  const size_t told_of_class = errors ? kErrorsOfClass : kNotesOfClass;
  struct Rest {
    size_t told = 0, folded = 0;
  };
  std::map<std::string, Rest> classes;
  std::vector<const Finding*> told;
  for (const Finding& f : found_->last) {
    if (f.error != errors) continue;
    Rest& rest = classes[f.kind];
    if (rest.told == told_of_class) {
      ++rest.folded;
    } else {
      ++rest.told;
      told.push_back(&f);
    }
  }
  std::string text;
  for (const Finding* f : told) {
    const Rest& rest = classes[f->kind];
    text += fmt::format("{}{}{}\n", text.empty() ? "" : "\n", errors ? "" : "note: ", f->text());
    if (f->count > 1) text += fmt::format("    seen {} times\n", f->count);
    const bool last = std::none_of(std::find(told.begin(), told.end(), f) + 1, told.end(),
                                   [&](const Finding* g) { return g->kind == f->kind; });
    if (last && rest.folded)
      text += fmt::format("    and {} more {} ({}) at other instructions\n", rest.folded,
                          errors ? "errors" : "notes", f->kind);
  }
  return text;
}

std::vector<OrderChecker::FoldedNotes> OrderChecker::folded_notes() const {
  std::vector<FoldedNotes> all;
  std::map<std::string, size_t> count;
  const auto party = [](const Party& p) {
    return fmt::format("{} at {}{}", p.does, p.ptx, p.cuda.empty() ? "" : ", " + p.cuda);
  };
  for (const Finding& f : found_->last)
    if (!f.error && count[f.kind]++ == 0)
      all.push_back({f.kind,
                     fmt::format("{}: {} ({}; then {})", f.kind, f.what, party(f.first), party(f.then)),
                     f.needs});
  for (FoldedNotes& n : all)
    if (const size_t more = count[n.kind] - 1)
      n.text += fmt::format(", and {} more at other instructions", more);
  return all;
}

}  // namespace fp4lab::emu
