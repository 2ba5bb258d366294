// A launch: the checks before anything runs, the grid's geometry, the result.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulator/core/cta_state.h"
#include "emulator/core/opcode.h"
#include "emulator/core/scheduler.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

std::string text(Dim3 d) { return fmt::format("({},{},{})", d.x, d.y, d.z); }

void validate(const Function& f, const LaunchConfig& c, const DeviceModel& device) {
  if (!f.entry) fail("{} is a function, not a kernel", f.name);
  const uint64_t threads = c.block.count();
  if (c.grid.count() == 0 || threads == 0 || c.cluster.count() == 0)
    fail("launch of {}: grid {}, block {} and cluster {} must not have a zero", f.name, text(c.grid),
         text(c.block), text(c.cluster));
  if (c.grid.x > 0x7fffffff || c.grid.y > 65535 || c.grid.z > 65535)
    fail("launch of {}: grid {} exceeds (2147483647,65535,65535)", f.name, text(c.grid));
  if (threads > 1024 || c.block.x > 1024 || c.block.y > 1024 || c.block.z > 64)
    fail("launch of {}: block {} has {} threads; at most 1024, and 64 along z", f.name, text(c.block),
         threads);
  const Dim3 required{f.req_ntid[0], f.req_ntid[1], f.req_ntid[2]};
  if (required.count() && (required.x != c.block.x || required.y != c.block.y || required.z != c.block.z))
    fail("launch of {}: block {}, but the kernel requires {} (.reqntid)", f.name, text(c.block),
         text(required));
  const Dim3 most{f.max_ntid[0], f.max_ntid[1], f.max_ntid[2]};
  if (most.count() && threads > most.count())
    fail("launch of {}: block {} has {} threads, but the kernel was compiled for at most {} (.maxntid)",
         f.name, text(c.block), threads, most.count());
  const Dim3 shape{f.req_cluster[0], f.req_cluster[1], f.req_cluster[2]};
  if (shape.count() && (shape.x != c.cluster.x || shape.y != c.cluster.y || shape.z != c.cluster.z))
    fail("launch of {}: cluster {}, but the kernel requires {} (.reqnctapercluster)", f.name, text(c.cluster),
         text(shape));
  if (c.cluster.count() > device.max_cluster ||
      (f.max_cluster_rank && c.cluster.count() > f.max_cluster_rank))
    fail("launch of {}: cluster {} has {} CTAs; at most {}", f.name, text(c.cluster), c.cluster.count(),
         f.max_cluster_rank ? std::min(f.max_cluster_rank, device.max_cluster) : device.max_cluster);
  if (c.grid.x % c.cluster.x || c.grid.y % c.cluster.y || c.grid.z % c.cluster.z)
    fail("launch of {}: grid {} is not a multiple of the cluster {}", f.name, text(c.grid), text(c.cluster));
  const uint64_t shared = std::max<uint64_t>(kReservedShared + f.static_shared_bytes,
                                             uint64_t(f.dynamic_shared_base) + c.dynamic_shared) -
                          kReservedShared;
  if (shared > device.shared_per_cta_optin)
    fail(
        "launch of {}: {} bytes of shared memory ({} static, {} dynamic, the rest alignment); {} has {} for "
        "a CTA",
        f.name, shared, f.static_shared_bytes, c.dynamic_shared, device.name, device.shared_per_cta_optin);
  if (c.params.size() < f.param_bytes)
    fail("launch of {}: the parameter block has {} bytes, the kernel declares {}", f.name, c.params.size(),
         f.param_bytes);
  const uint64_t clusters = c.grid.count() / c.cluster.count();
  const uint64_t resident = resident_clusters(f, c, device, c.cooperative ? clusters : 1);
  if (resident == 0)
    fail("launch of {}: no room on {} for a cluster {} of CTAs with {} threads and {} bytes of shared memory",
         f.name, device.name, text(c.cluster), threads, shared);
  if (c.cooperative && clusters > resident)
    fail("cooperative launch of {}: {} clusters, but only {} are resident on {} at a time", f.name, clusters,
         resident, device.name);
}

}  // namespace

Grid::Grid(const Module& module, const Function& function, const LaunchConfig& config,
           const DeviceModel& device, GlobalMemory& memory, const Schedule& schedule, Watcher* watcher)
    : module(module),
      function(function),
      config(config),
      device(device),
      memory(memory),
      schedule(schedule),
      watcher(watcher) {
  shared_bytes_ = std::max(kReservedShared + function.static_shared_bytes,
                           function.dynamic_shared_base + config.dynamic_shared);
  for (const Row& row : function.constants) {
    const auto special = static_cast<FixedSpecial>(row.bits);
    lends_shared_ |= row.what == Row::What::special && (special == FixedSpecial::reserved_smem_offset_0 ||
                                                        special == FixedSpecial::reserved_smem_offset_1 ||
                                                        special == FixedSpecial::reserved_smem_offset_begin);
  }
  clusters_ = config.grid.count() / config.cluster.count();
  if (config.cooperative) {
    constexpr size_t kWorkspaceBytes = 256;
    workspace_ = memory.allocate(kWorkspaceBytes);
    if (workspace_ == 0) fail("cooperative launch of {}: no memory for its workspace", function.name);
    std::memset(memory.host(workspace_), 0, kWorkspaceBytes);
  }
}

Grid::~Grid() {
  if (workspace_) memory.free(workspace_);
  for (std::byte* file : free_files_) std::free(file);
}

std::byte* Grid::take_file() {
  std::lock_guard lock(files_mutex_);
  if (free_files_.empty()) return nullptr;
  std::byte* const file = free_files_.back();
  free_files_.pop_back();
  return file;
}

void Grid::give_file(std::byte* file) {
  std::lock_guard lock(files_mutex_);
  free_files_.push_back(file);
}

Dim3 Grid::cluster_grid() const {
  return {config.grid.x / config.cluster.x, config.grid.y / config.cluster.y,
          config.grid.z / config.cluster.z};
}

Dim3 Grid::first_cta(uint64_t id) const {
  const Dim3 n = cluster_grid();
  return {static_cast<uint32_t>(id % n.x) * config.cluster.x,
          static_cast<uint32_t>(id / n.x % n.y) * config.cluster.y,
          static_cast<uint32_t>(id / n.x / n.y) * config.cluster.z};
}

bool Grid::steal_cluster(Dim3& first) {
  if (next_cluster_ == clusters_) return false;
  first = first_cta(next_cluster_++);
  return true;
}

void Grid::watch_change(std::byte* place, uint32_t bytes) {
  while (bytes) {
    Snapshot& s = snapshots_.emplace_back();
    s.place = place;
    s.bytes = std::min<uint32_t>(bytes, sizeof s.before);
    std::memcpy(s.before, place, s.bytes);
    place += s.bytes;
    bytes -= s.bytes;
  }
}

LaunchResult launch(const Module& module, const Function& function, const LaunchConfig& config,
                    const DeviceModel& device, GlobalMemory& memory, const Schedule& schedule,
                    Watcher* watcher) {
  validate(function, config, device);
  Grid grid(module, function, config, device, memory, schedule, watcher);
  if (watcher) watcher->launch_begin(grid);
  LaunchResult result = Scheduler(grid).run();
  if (watcher) watcher->launch_end(grid);
  return result;
}

namespace {

// A table row's spelling without its optional parts.
std::string short_spelling(std::string_view spelling) {
  std::string out;
  int depth = 0;
  for (char c : spelling) {
    depth += c == '{';
    if (!depth) out += c;
    depth -= c == '}';
  }
  return out;
}

}  // namespace

std::string fidelity(const Statistics& s) {
  std::string measured, modelled;
  size_t exact = 0;
  for (const auto& [op, count] : s.by_opcode) {
    if (!op || op->fidelity == Fidelity::exact) {
      ++exact;
      continue;
    }
    std::string& list = op->fidelity == Fidelity::measured ? measured : modelled;
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", short_spelling(op->spelling), count);
  }
  std::string line = fmt::format("{} kinds of instructions exact", exact);
  if (!measured.empty()) line += "; with an H200's bits, within the manual's error bound: " + measured;
  if (!modelled.empty()) line += "; modelled after public sources: " + modelled;
  return line;
}

}  // namespace fp4lab::emu
