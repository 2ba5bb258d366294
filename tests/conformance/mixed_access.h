// Types of accesses to memory, and the registers that they take.
#pragma once

namespace fp4lab::conformance {

struct Access {
  const char* type;
  unsigned bytes;
  const char* reg;
};
constexpr Access kAccesses[] = {{"u8", 1, "b32"},  {"s8", 1, "b32"},  {"b8", 1, "b16"},  {"u16", 2, "b32"},
                                {"s16", 2, "b32"}, {"b16", 2, "b16"}, {"u16", 2, "b16"}, {"b32", 4, "b32"},
                                {"u32", 4, "b64"}, {"s32", 4, "b64"}, {"f32", 4, "b32"}, {"b64", 8, "b64"},
                                {"s64", 8, "b64"}, {"f64", 8, "b64"}, {"u64", 8, "b64"}, {"b32", 4, "b32"}};

}  // namespace fp4lab::conformance
