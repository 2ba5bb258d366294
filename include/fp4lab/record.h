// What a run leaves behind, as a record of the store (fp4lab/store.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "fp4lab/run.h"

namespace fp4lab {

/// "type": "run". case, arch, kernel, plan (a line) and knobs (all of them), device, distribution, seed,
/// grid, of a file that runs in a rung's place like (the rung), file and file_hash, placement (see
/// Placement), jit_ms, seconds, passed; where there are any error, findings (the emulator's), notes, errors
/// against the exact sums, and on the emulator "emulated": counts of all launches together.
nlohmann::json record_of(const RunResult& result);

/// arch, kernel, plan and knobs, as every record of a kernel has them.
nlohmann::json plan_fields(const Candidate& candidate);

/// What makes two runs the same point: `type` ("run", "sweep"), case, kernel and its plan, or the file that
/// runs in its place by its content (see text_hash), device, distribution, seed; and `how`, where it is run
/// in a special way.
std::string point_of_run(std::string_view type, const Device& device, const Case& c,
                         const Candidate& candidate, Distribution distribution, std::uint64_t seed,
                         const std::string& how = {});

}  // namespace fp4lab
