// The .target that an instruction needs (PTX ISA 11.1.2, and as in ptxas 13.0).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fp4lab::emu {

// The values of the opcode table's last column; any other number N means sm_N or later, 0 any target.
constexpr int kHopperOnly = 901;  // sm_90a
constexpr int kSpecific = 902;    // sm_90a, and the sm_100 family with its specific features
constexpr int kBlackwellFamily =
    1002;  // the sm_100 family with its specific features: sm_100a, sm_100f, sm_103a
constexpr int kBlackwellSpecific = 1001;  // sm_100a, sm_103a
constexpr int kFirstBlackwell = 1003;     // sm_100a

bool target_fits(int need, std::string_view target);
std::string target_name(int need);  // "sm_100a", "sm_90 or later"

// Of PTX ISA versions: "8.10" is newer than "8.9".
bool version_before(std::string_view version, std::string_view least);
// The .version that an instruction needs, where that is a later one than its target's; "": none.
std::string_view least_version_of(std::string_view mnemonic);

// The first requirement of an instruction's modifiers, beyond its row's, that `target` does not meet; 0 if
// none.
int unmet_need(std::span<const std::string_view> tokens, std::string_view target, std::string_view& modifier);

}  // namespace fp4lab::emu
