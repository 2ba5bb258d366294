// Fixed-width names for device code. NVRTC comes without <cstdint>, and fp4lab's device code needs no
// standard header.
#pragma once

namespace fp4lab {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8);

}  // namespace fp4lab
