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
    {"swap", "0 1", "weights on MMA_M and tokens on MMA_N"},
    {"mma_m", "128 256", "rows of the left operand per MMA; 256 needs cta_group 2"},
    {"mma_n", "8..256", "largest number of rows of the right operand per MMA"},
    {"halves", "1 2", "right tiles of mma_n rows that share one left tile"},
    {"n_step", "8 16", "a ragged tile's MMA_N is a multiple of this"},
    {"block_k", "256 512", "K of one stage"},
    {"cta_group", "1 2", "CTAs that share one MMA"},
    {"stages", "1..", "shared-memory ring of operand tiles"},
    {"acc_slots", "1..", "accumulators in TMEM"},
    {"scale_slots", "1..", "scale-factor buffers in TMEM"},
    {"split_k", "1..", "CTAs (pairs) that share the K of one tile"},
    {"roles", "one-warp specialized", "who loads and multiplies"},
    {"schedule", "tile-per-cta static dynamic", "how tiles come to CTAs"},
    {"raster", "right-first left-first", "which tile coordinate runs fastest"},
    {"epilogue", "direct staged tma transposed", "how C leaves the SM"},
    {"store_bytes", "16 32", "width of a store in the epilogue"},
    {"scale_copy", "bulk tensor", "how scales are loaded"},
    {"multicast", "0 1", "each CTA of a pair loads half of the right scales for both"},
    {"maps", "by-value replaced", "tensor maps from the host, or edited on the device"},
    {"weights", "normal evict-first evict-last", "L2 policy of loads of the weights"},
    {"tokens", "normal evict-first evict-last", "L2 policy of loads of the tokens"},
    {"silu", "fast exact tanh", "how the dual GEMM computes silu"},
    {"collector", "0 1", "the dual GEMM's second MMA takes A from the tensor core's collector"},
    {"late_stages", "0..",
     "dual: stages, the last of a tile, where the second product's MMAs come after the first's"},
    {"pdl", "0 1", "set up while the kernel before in the stream still runs (programmatic dependent launch)"},
    {"group_capacity", "1..64", "groups that the argument struct holds"},
    {"ctas", "0..", "grid of a persistent kernel, 0: one CTA per SM"},
    {"split_groups", "0..", "groups, the last of a launch, whose K is split; 0: all"},
    {"sort_groups", "0 1", "longest groups first"},
    {"launch", "one loop streams graph",
     "one launch for all groups, or one each: in a row, on streams, in a graph"},
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
