#include "emulator/isa/target.h"

#include <fmt/format.h>

#include <algorithm>

namespace fp4lab::emu {

namespace {

struct Need {
  std::string_view mnemonic;   // empty: every instruction
  std::string_view modifiers;  // all of these, joined by dots
  int target;
};
constexpr Need kNeeds[] = {
    {"", "bf16", 80},
    {"", "bf16x2", 80},
    {"", "tf32", 80},
    {"", "L2::cache_hint", 80},
    {"", "cluster", 90},
    {"", "shared::cluster", 90},
    {"", "cta_group::1", kBlackwellFamily},
    {"", "cta_group::2", kBlackwellFamily},
    {"add", "bf16", 90},
    {"add", "bf16x2", 90},
    {"sub", "bf16", 90},
    {"sub", "bf16x2", 90},
    {"mul", "bf16", 90},
    {"mul", "bf16x2", 90},
    {"fma", "relu", 80},
    {"min", "relu", 90},
    {"max", "relu", 90},
    {"min", "NaN", 80},
    {"max", "NaN", 80},
    {"min", "xorsign", 86},
    {"max", "xorsign", 86},
    {"min", "f16", 80},
    {"max", "f16", 80},
    {"min", "f16x2", 80},
    {"max", "f16x2", 80},
    {"tanh", "bf16", 90},
    {"tanh", "bf16x2", 90},
    {"ex2", "bf16", 90},
    {"ex2", "bf16x2", 90},
    {"set", "bf16", 90},
    {"set", "bf16x2", 90},
    {"setp", "bf16", 90},
    {"setp", "bf16x2", 90},
    {"cvt", "f16x2.f32", 80},
    {"cvt", "rn.tf32", 90},
    {"cvt", "rz.tf32", 90},
    {"cvt", "rn.satfinite.tf32", 100},
    {"cvt", "rz.satfinite.tf32", 100},
    {"cvt", "e4m3x2", 89},
    {"cvt", "e5m2x2", 89},
    {"cvt", "e2m3x2", kBlackwellFamily},
    {"cvt", "e3m2x2", kBlackwellFamily},
    {"cvt", "e2m1x2", kBlackwellFamily},
    {"atom", "bf16", 90},
    {"atom", "bf16x2", 90},
    {"atom", "b128", 90},
    {"red", "bf16", 90},
    {"red", "bf16x2", 90},
    {"prefetch", "L2::evict_last", 80},
    {"prefetch", "L2::evict_normal", 80},
    {"fence", "async", 90},
    {"mbarrier", "relaxed", 90},
    {"mbarrier", "expect_tx", 90},
    {"mma", "e4m3", 89},
    {"mma", "e5m2", 89},
    {"mma", "kind::f8f6f4", kBlackwellFamily},
    {"wmma", "m16n16k8", 80},
    {"multimem", "e4m3", kBlackwellFamily},
    {"multimem", "e5m2", kBlackwellFamily},
    {"multimem", "e4m3x2", kBlackwellFamily},
    {"multimem", "e5m2x2", kBlackwellFamily},
    {"multimem", "e4m3x4", kBlackwellFamily},
    {"multimem", "e5m2x4", kBlackwellFamily},
    {"cp", "cp_mask", 100},
    {"tensormap", "swizzle_atomicity", kBlackwellFamily},
    {"clusterlaunchcontrol", "multicast::cluster::all", kBlackwellFamily},
    {"tcgen05", "kind::i8", kFirstBlackwell},
    {"tcgen05", "sp.kind::mxf4", kBlackwellSpecific},
    {"tcgen05", "sp.kind::mxf4nvf4", kBlackwellSpecific},
    {"tcgen05", "scale_vec::1X", kBlackwellSpecific},
    {"tcgen05", "scale_vec::2X", kBlackwellSpecific},
    {"tcgen05", "scale_vec::4X", kBlackwellSpecific},
};

bool has_all(std::span<const std::string_view> tokens, std::string_view modifiers) {
  while (!modifiers.empty()) {
    const size_t dot = std::min(modifiers.find('.'), modifiers.size());
    if (std::find(tokens.begin(), tokens.end(), modifiers.substr(0, dot)) == tokens.end()) return false;
    modifiers.remove_prefix(std::min(dot + 1, modifiers.size()));
  }
  return true;
}

}  // namespace

bool target_fits(int need, std::string_view target) {
  const bool own = target.ends_with('a'), family = own || target.ends_with('f');
  const bool blackwell = target.starts_with("sm_10") && target.size() >= 6;
  switch (need) {
    case kHopperOnly:
      return target == "sm_90a";
    case kSpecific:
      return target == "sm_90a" || (blackwell && family);
    case kBlackwellFamily:
      return blackwell && family;
    case kBlackwellSpecific:
      return blackwell && own;
    case kFirstBlackwell:
      return target == "sm_100a";
    default:
      break;
  }
  int architecture = 0;  // 100 of sm_100a
  for (char c : target.substr(std::min<size_t>(3, target.size())))
    if (c >= '0' && c <= '9' && architecture < 1000) architecture = architecture * 10 + (c - '0');
  return architecture >= need;
}

std::string target_name(int need) {
  switch (need) {
    case kHopperOnly:
      return "sm_90a";
    case kSpecific:
      return "sm_90a or sm_100a";
    case kBlackwellFamily:
    case kBlackwellSpecific:
    case kFirstBlackwell:
      return "sm_100a";
    default:
      return fmt::format("sm_{} or later", need);
  }
}

bool version_before(std::string_view version, std::string_view least) {
  const auto parts = [](std::string_view v) {
    std::pair<int, int> out{};
    bool minor = false;
    for (char c : v) {
      if (c == '.') minor = true;
      int& part = minor ? out.second : out.first;
      if (c >= '0' && c <= '9' && part < 1000) part = part * 10 + (c - '0');
    }
    return out;
  };
  return parts(version) < parts(least);
}

std::string_view least_version_of(std::string_view mnemonic) { return mnemonic == "brx" ? "6.0" : ""; }

int unmet_need(std::span<const std::string_view> tokens, std::string_view target,
               std::string_view& modifier) {
  for (const Need& need : kNeeds)
    if ((need.mnemonic.empty() || need.mnemonic == tokens[0]) && has_all(tokens, need.modifiers) &&
        !target_fits(need.target, target)) {
      modifier = need.modifiers;
      return need.target;
    }
  return 0;
}

}  // namespace fp4lab::emu
