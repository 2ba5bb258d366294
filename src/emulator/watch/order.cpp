// The order checker's launch: what it prepares for the grid, and the state of its clusters.
#include "emulator/watch/order.h"

#include "emulator/isa/opcode.h"
#include "emulator/watch/order_found.h"
#include "emulator/watch/order_state.h"
#include "emulator/watch/wgmma_fence.h"

namespace fp4lab::emu {

using namespace order;

// The CUDA guide's atomicAdd for double and its like: an ordinary load gives the first value to compare with.
static bool before_cas(const Function& f, const Instr& load) {
  constexpr uint32_t kNear = 12;  // instructions
  if (load.opcode->name != "ld") return false;
  for (uint32_t pc = load.pc + 1; pc < f.code.size() && pc <= load.pc + kNear; ++pc) {
    const Instr& i = f.code[pc];
    const Operand &x = load.op[1], &y = i.op[1];
    if (i.opcode->name == "atom_cas" && x.kind == y.kind && x.offset == y.offset &&
        x.displacement == y.displacement)
      return true;
  }
  return false;
}

OrderChecker::OrderChecker()
    : pasts_(std::make_unique<Pasts>()),
      global_(std::make_unique<Global>()),
      found_(std::make_unique<Found>()) {}
OrderChecker::~OrderChecker() = default;

void OrderChecker::launch_begin(const Grid& grid) {
  grid_ = &grid;
  global_->clear();
  found_->clear();
  errors_ = notes_ = 0;
  pasts_->before_is_over = false;
  pasts_->waits.clear();
  if (!grid.config.early)
    std::erase_if(pasts_->all, [&](const Past& p) { return p.stream == grid.config.stream; });
  overlaps_ = grid.config.early && !pasts_->all.empty();
  notes_reads_ = grid.config.may_overlap;
  code_base_.clear();
  traits_.clear();
  unfenced_.clear();
  for (const Function& f : grid.module.functions) {
    code_base_.push_back(static_cast<uint32_t>(traits_.size()));
    for (size_t pc = 0; pc < f.source.size(); ++pc) {
      traits_.push_back(traits_of(f.source[pc]));
      traits_.back().before_cas = before_cas(f, f.code[pc]);
    }
    for (const UnfencedRegister& u : unfenced_registers(f))
      unfenced_.emplace(code_base_.back() + u.product, code_base_.back() + u.writer);
  }
  clusters_.clear();
  clusters_.resize(grid.config.grid.count() / grid.config.cluster.count());
}

void OrderChecker::launch_end(const Grid& grid) {
  found_->finish(grid);
  keep_accesses(grid);
  clusters_.clear();
  global_->clear();
  grid_ = nullptr;
}

void OrderChecker::cta_start(Cta& cta) {
  auto& slot = clusters_[cta.cluster.id];
  if (!slot) {
    slot = std::make_unique<ClusterState>();
    ClusterState& c = *slot;
    c.id = cta.cluster.id;
    c.ctas = static_cast<uint32_t>(cta.cluster.ctas.size());
    c.warps = static_cast<uint32_t>(cta.warps.size());
    c.threads = c.ctas * c.warps * kLanes;
    c.cta.resize(c.ctas);
    for (uint32_t k = 0; k < c.ctas * c.warps; ++k) {
      c.warp.push_back(std::make_unique<WarpState>());
      c.warp.back()->base = k * kLanes;
    }
  }
  ++slot->live;
  CtaStateOf& own = slot->cta[cta.rank];
  own.shared_cells = static_cast<uint32_t>((cta.shared.size() + 15) / 16);
  own.shared = std::make_unique<Cell[]>(own.shared_cells);
}

void OrderChecker::cta_exit(Cta& cta) {
  check_exit(cta);
  dependents_launched(of(cta), cta);
  auto& slot = clusters_[cta.cluster.id];
  slot->cta[cta.rank].shared.reset();
  slot->cta[cta.rank].tmem.reset();
  if (--slot->live == 0 && slot->operations == 0) slot.reset();
}

ClusterState& OrderChecker::of(const Cta& cta) { return *clusters_[cta.cluster.id]; }

uint32_t OrderChecker::site(uint32_t function, const Instr& i) const { return code_base_[function] + i.pc; }
uint32_t OrderChecker::site(const Warp& w) const { return site(w.group->function, *w.current()); }
const Traits& OrderChecker::traits(const Warp& w) const { return traits_[site(w)]; }

}  // namespace fp4lab::emu
