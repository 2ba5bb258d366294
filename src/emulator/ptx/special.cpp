#include "emulator/ptx/special.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace fp4lab::emu {

namespace {

constexpr SpecialName fixed(std::string_view name, std::string_view component, FixedSpecial id,
                            Type type = Type::u32) {
  return {name, component, true, static_cast<uint8_t>(id), type};
}
constexpr SpecialName changing(std::string_view name, SpecialRegister id, Type type) {
  return {name, "", false, static_cast<uint8_t>(id), type};
}

using F = FixedSpecial;
using S = SpecialRegister;
constexpr SpecialName kNames[] = {
    fixed("%tid", "x", F::tid_x),
    fixed("%tid", "y", F::tid_y),
    fixed("%tid", "z", F::tid_z),
    fixed("%ntid", "x", F::ntid_x),
    fixed("%ntid", "y", F::ntid_y),
    fixed("%ntid", "z", F::ntid_z),
    fixed("%ctaid", "x", F::ctaid_x),
    fixed("%ctaid", "y", F::ctaid_y),
    fixed("%ctaid", "z", F::ctaid_z),
    fixed("%nctaid", "x", F::nctaid_x),
    fixed("%nctaid", "y", F::nctaid_y),
    fixed("%nctaid", "z", F::nctaid_z),
    fixed("%laneid", "", F::laneid),
    fixed("%warpid", "", F::warpid),
    fixed("%nwarpid", "", F::nwarpid),
    fixed("%smid", "", F::smid),
    fixed("%nsmid", "", F::nsmid),
    fixed("%gridid", "", F::gridid, Type::u64),
    fixed("%clusterid", "x", F::clusterid_x),
    fixed("%clusterid", "y", F::clusterid_y),
    fixed("%clusterid", "z", F::clusterid_z),
    fixed("%nclusterid", "x", F::nclusterid_x),
    fixed("%nclusterid", "y", F::nclusterid_y),
    fixed("%nclusterid", "z", F::nclusterid_z),
    fixed("%cluster_ctaid", "x", F::cluster_ctaid_x),
    fixed("%cluster_ctaid", "y", F::cluster_ctaid_y),
    fixed("%cluster_ctaid", "z", F::cluster_ctaid_z),
    fixed("%cluster_nctaid", "x", F::cluster_nctaid_x),
    fixed("%cluster_nctaid", "y", F::cluster_nctaid_y),
    fixed("%cluster_nctaid", "z", F::cluster_nctaid_z),
    fixed("%cluster_ctarank", "", F::cluster_ctarank),
    fixed("%cluster_nctarank", "", F::cluster_nctarank),
    fixed("%is_explicit_cluster", "", F::is_explicit_cluster, Type::pred),
    fixed("%lanemask_eq", "", F::lanemask_eq),
    fixed("%lanemask_le", "", F::lanemask_le),
    fixed("%lanemask_lt", "", F::lanemask_lt),
    fixed("%lanemask_ge", "", F::lanemask_ge),
    fixed("%lanemask_gt", "", F::lanemask_gt),
    fixed("%dynamic_smem_size", "", F::dynamic_smem_size),
    fixed("%total_smem_size", "", F::total_smem_size),
    fixed("%aggr_smem_size", "", F::aggr_smem_size),
    fixed("%reserved_smem_offset_begin", "", F::reserved_smem_offset_begin),
    fixed("%reserved_smem_offset_end", "", F::reserved_smem_offset_end),
    fixed("%reserved_smem_offset_cap", "", F::reserved_smem_offset_cap),
    fixed("%reserved_smem_offset_0", "", F::reserved_smem_offset_0),
    fixed("%reserved_smem_offset_1", "", F::reserved_smem_offset_1),
    fixed("%current_graph_exec", "", F::current_graph_exec, Type::u64),
    fixed("%envreg1", "", F::envreg1),
    fixed("%envreg2", "", F::envreg2),
    changing("%clock", S::clock, Type::u32),
    changing("%clock64", S::clock64, Type::u64),
    changing("%clock_hi", S::clock_hi, Type::u32),
    changing("%globaltimer", S::globaltimer, Type::u64),
    changing("%globaltimer_lo", S::globaltimer_lo, Type::u32),
    changing("%globaltimer_hi", S::globaltimer_hi, Type::u32),
};

// %envreg0 to %envreg31 except those with a meaning, %pm0 to %pm7 and %pm0_64 to %pm7_64: their values are
// unspecified; here 0.
const SpecialName* idle_named(std::string_view name) {
  static const std::vector<std::string> kIdle = [] {
    std::vector<std::string> names;
    for (int i = 0; i < 32; ++i) names.push_back(fmt::format("%envreg{}", i));
    for (int i = 0; i < 8; ++i) names.push_back(fmt::format("%pm{}", i));
    for (int i = 0; i < 8; ++i) names.push_back(fmt::format("%pm{}_64", i));
    return names;
  }();
  static constexpr SpecialName kWord = fixed("", "", F::nothing),
                               kLong = fixed("", "", F::nothing, Type::u64);
  if (std::find(kIdle.begin(), kIdle.end(), name) == kIdle.end()) return nullptr;
  return name.ends_with("_64") ? &kLong : &kWord;
}

}  // namespace

const SpecialName* special_named(std::string_view name, std::string_view component) {
  for (const SpecialName& s : kNames)
    if (s.name == name && s.component == component) return &s;
  return component.empty() ? idle_named(name) : nullptr;
}

bool special_is_vector(std::string_view name) { return special_named(name, "x"); }

std::vector<std::string_view> special_names() {
  std::vector<std::string_view> names;
  for (const SpecialName& s : kNames)
    if (names.empty() || names.back() != s.name) names.push_back(s.name);
  return names;
}

}  // namespace fp4lab::emu
