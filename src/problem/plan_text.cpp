#include "fp4lab/plan_text.h"

#include <charconv>
#include <type_traits>

#include "fp4lab/error.h"

namespace fp4lab {
namespace {

// Names of the enumerators, in the order of their values: on the command line, and in C++.
struct Name {
  std::string_view text, cpp;
};
constexpr Name kOpNames[] = {{"group", "Op::kGroup"}, {"dual", "Op::kDual"}};
constexpr Name kRolesNames[] = {{"one-warp", "Roles::kOneWarp"}, {"specialized", "Roles::kSpecialized"}};
constexpr Name kScheduleNames[] = {{"tile-per-cta", "Schedule::kTilePerCta"},
                                   {"static", "Schedule::kStatic"},
                                   {"dynamic", "Schedule::kDynamic"}};
constexpr Name kRasterNames[] = {{"right-first", "Raster::kRightFirst"},
                                 {"left-first", "Raster::kLeftFirst"}};
constexpr Name kEpilogueNames[] = {{"direct", "Epilogue::kDirect"},
                                   {"staged", "Epilogue::kStaged"},
                                   {"tma", "Epilogue::kTma"},
                                   {"transposed", "Epilogue::kTransposed"}};
constexpr Name kScaleCopyNames[] = {{"bulk", "ScaleCopy::kBulk"}, {"tensor", "ScaleCopy::kTensor"}};
constexpr Name kMapsNames[] = {{"by-value", "Maps::kByValue"}, {"replaced", "Maps::kReplaced"}};
constexpr Name kHintNames[] = {
    {"normal", "Hint::kNormal"}, {"evict-first", "Hint::kEvictFirst"}, {"evict-last", "Hint::kEvictLast"}};
constexpr Name kSiluNames[] = {{"fast", "Silu::kFast"}, {"exact", "Silu::kExact"}, {"tanh", "Silu::kTanh"}};
constexpr Name kLaunchNames[] = {{"one", "LaunchMode::kOne"},
                                 {"loop", "LaunchMode::kLoop"},
                                 {"streams", "LaunchMode::kStreams"},
                                 {"graph", "LaunchMode::kGraph"}};

std::span<const Name> names(Op) { return kOpNames; }
std::span<const Name> names(Roles) { return kRolesNames; }
std::span<const Name> names(Schedule) { return kScheduleNames; }
std::span<const Name> names(Raster) { return kRasterNames; }
std::span<const Name> names(Epilogue) { return kEpilogueNames; }
std::span<const Name> names(ScaleCopy) { return kScaleCopyNames; }
std::span<const Name> names(Maps) { return kMapsNames; }
std::span<const Name> names(Hint) { return kHintNames; }
std::span<const Name> names(LaunchMode) { return kLaunchNames; }
std::span<const Name> names(Silu) { return kSiluNames; }

constexpr KnobInfo kKnobs[] = {
    {"op", "group dual", "the operation"},
    {"swap", "0 1", "1: weights on MMA_M, tokens on MMA_N"},
    {"mma_m", "128 256", "MMA_M; 256 needs cta_group 2"},
    {"mma_n", "8..256", "largest MMA_N"},
    {"halves", "1 2", "MMA_N tiles that share one MMA_M tile"},
    {"n_step", "8 16", "MMA_N of a partial tile is a multiple of this"},
    {"block_k", "256 512", "K per stage (BLOCK_K)"},
    {"cta_group", "1 2", "CTAs per MMA (tcgen05 .cta_group)"},
    {"stages", "1..", "shared-memory pipeline stages"},
    {"acc_slots", "1..", "accumulator buffers in TMEM"},
    {"scale_slots", "1..", "scale-factor buffers in TMEM"},
    {"split_k", "1..", "split-K: CTAs (or CTA pairs) per tile"},
    {"roles", "one-warp specialized", "one warp issues TMA and MMA, or specialised warps"},
    {"schedule", "tile-per-cta static dynamic", "tile scheduling"},
    {"raster", "right-first left-first", "tile order: the coordinate that runs fastest"},
    {"epilogue", "direct staged tma transposed", "how C is stored"},
    {"store_bytes", "16 32", "bytes per store in the epilogue"},
    {"scale_copy", "bulk tensor", "scales by cp.async.bulk or cp.async.bulk.tensor"},
    {"multicast", "0 1", "TMA multicast: each CTA of a pair loads half of the right scales for both"},
    {"maps", "by-value replaced",
     "tensor maps encoded on the host, or updated on the device (tensormap.replace)"},
    {"weights", "normal evict-first evict-last", "L2 eviction policy of weight loads"},
    {"tokens", "normal evict-first evict-last", "L2 eviction policy of token loads"},
    {"silu", "fast exact tanh", "dual: how silu is computed"},
    {"collector", "0 1", "the second MMA on the same A reuses it from the collector buffer"},
    {"late_stages", "0..",
     "dual: last stages of a tile in which all MMAs of the first product precede the second's"},
    {"pdl", "0 1", "programmatic dependent launch: set-up overlaps the previous kernel in the stream"},
    {"group_capacity", "1..64", "groups that the kernel's argument struct holds"},
    {"ctas", "0..", "grid of a persistent kernel; 0: one CTA per SM"},
    {"split_groups", "0..", "how many of the last groups use split-K; 0: all"},
    {"sort_groups", "0 1", "schedule the longest groups first"},
    {"launch", "one loop streams graph",
     "one launch for all groups, or one per group: in a loop, on streams, in a CUDA graph"},
};

template <class T>
std::string text_of(T value) {
  if constexpr (std::is_enum_v<T>)
    return std::string(names(value)[std::size_t(value)].text);
  else
    return std::to_string(int(value));
}

template <class T>
bool parse(std::string_view text, T& value) {
  if constexpr (std::is_enum_v<T>) {
    const auto all = names(value);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].text == text) {
        value = T(i);
        return true;
      }
    return false;
  } else {
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) return false;
    if (std::is_same_v<T, bool> && number > 1) return false;
    value = T(number);
    return true;
  }
}

std::string_view values_of(std::string_view name) {
  for (const auto& knob : kKnobs)
    if (knob.name == name) return knob.values;
  return "";
}

}  // namespace

std::span<const KnobInfo> knob_table() { return kKnobs; }

std::string plan_define(const Plan& plan) {
  std::string text = "{";
  Plan::visit_kernel_knobs(plan, [&](const char* name, auto value) {
    if (text.size() > 1) text += ',';
    text += fmt::format(".{}=", name);
    if constexpr (std::is_enum_v<decltype(value)>)
      text += names(value)[std::size_t(value)].cpp;
    else
      text += std::to_string(int(value));
  });
  return text + "}";
}

std::string plan_line(const Plan& plan) {
  std::string text = fmt::format("{}x{}x{}", plan.mma_m, plan.mma_n, plan.block_k);
  const Plan standard;
  std::vector<std::string> defaults;
  Plan::visit_knobs(standard, [&](const char*, auto value) { defaults.push_back(text_of(value)); });
  std::size_t i = 0;
  Plan::visit_knobs(plan, [&](const char* name, auto value) {
    const std::string_view knob = name;
    const bool in_tile = knob == "mma_m" || knob == "mma_n" || knob == "block_k";
    const auto now = text_of(value);
    if (!in_tile && now != defaults[i]) text += fmt::format(" {}={}", name, now);
    ++i;
  });
  return text;
}

void set_knob(Plan& plan, std::string_view name, std::string_view value) {
  bool known = false, good = false;
  Plan::visit_knobs(plan, [&](const char* knob, auto& field) {
    if (name != knob) return;
    known = true;
    // 0 is a value only of knobs that list it: the arithmetic of a plan divides by the others.
    good = parse(value, field) &&
           (field != std::remove_reference_t<decltype(field)>{} ||
            std::is_enum_v<std::remove_reference_t<decltype(field)>> || values_of(name).starts_with('0'));
  });
  if (!known) {
    std::string list;
    for (const auto& knob : kKnobs) list += fmt::format(" {}", knob.name);
    fail("no knob is called '{}'; knobs are:{}", name, list);
  }
  if (!good) fail("knob {} takes {}, not '{}'", name, values_of(name), value);
}

void set_knob(Plan& plan, std::string_view assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos) fail("'{}' is not of the form knob=value", assignment);
  set_knob(plan, assignment.substr(0, equals), assignment.substr(equals + 1));
}

std::string knob_value(const Plan& plan, std::string_view name) {
  std::string text;
  Plan::visit_knobs(plan, [&](const char* knob, auto value) {
    if (name == knob) text = text_of(value);
  });
  if (text.empty()) fail("no knob is called '{}'", name);
  return text;
}

}  // namespace fp4lab
