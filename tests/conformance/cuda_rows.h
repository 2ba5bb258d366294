// The building blocks of random kernels in CUDA C++ (cuda.cpp): types, expressions, statements. A new
// construct is a new row.
#pragma once

#include <string_view>

namespace fp4lab::conformance::cuda {

// A letter denotes a type everywhere below.
struct Type {
  char letter;
  const char* name;
  unsigned bytes;
  const char *from, *to;  // of the word `x` that the kernel reads, and the word that it writes of `x`
};
inline constexpr Type kTypes[] = {
    {'i', "int", 4, "(int)x", "(unsigned)x"},
    {'u', "unsigned", 4, "(unsigned)x", "x"},
    {'l', "long long", 8, "(long long)x", "(unsigned long long)x"},
    {'w', "unsigned long long", 8, "x", "x"},
    {'f', "float", 4, "__uint_as_float((unsigned)x)", "__float_as_uint(x)"},
    {'d', "double", 8, "__longlong_as_double((long long)x)", "(unsigned long long)__double_as_longlong(x)"},
    {'h', "__half", 2, "__ushort_as_half((unsigned short)x)", "__half_as_ushort(x)"},
    {'b', "__nv_bfloat16", 2, "__ushort_as_bfloat16((unsigned short)x)", "__bfloat16_as_ushort(x)"},
    {'s', "short", 2, "(short)x", "(unsigned short)x"},
    {'c', "unsigned char", 1, "(unsigned char)x", "x"},
    {'p', "bool", 1, "(x & 1) != 0", "x"},
};
// The weight of a type where any is possible.
inline constexpr std::string_view kAny = "iiiiuuuuulllwwwfffffffddddhhbscp";

// `text` for a type of `of`. In it {f} is an expression of a type and {=f} a variable, {.} and {=} those of
// the row's own type, {T} its name and {#} a constant; [a|b] is one of them. In statements @ is a block and $
// a name of its own.
struct Row {
  std::string_view of, text;
  unsigned weight = 1;
  bool libdevice = false;  // functions of NVIDIA's library: only in some kernels
};

inline constexpr Row kExpressions[] = {
    // Integers.
    {"iulw", "({.} [+|-|*|&|^] {.})", 5},
    {"iulw", "({.} | {.})"},
    {"iulw", "({.} [+|-|*] {#})", 2},
    {"iu", "({.} [<<|>>] ({u} & 31u))", 2},
    {"lw", "({.} [<<|>>] ({u} & 63u))", 2},
    {"uw", "({.} [/|%] ({.} | 1))"},
    {"uw", "({.} [/|%] [2|3|7|10|60|1000])"},
    {"il", "({.} [/|%] (({.} & 1023) + 1))"},
    {"il", "({.} [/|%] [2|3|-7|10|60|1000])"},
    {"iulw", "[min|max]({.}, {.})"},
    {"iulw", "([~|-]{.})"},
    {"iu", "({T})[__clz|__popc|__ffs|__brev]({.})"},
    {"lw", "({T})[__clzll|__popcll|__ffsll|__brevll]({.})"},
    {"iu", "({T})__byte_perm({u}, {u}, [{u}|0x5410|0x7632|0x0123])"},
    {"iu", "({T})__funnelshift_[l|r|lc|rc]({u}, {u}, {u})"},
    {"i", "__mulhi({i}, {i})"},
    {"u", "__umulhi({u}, {u})"},
    {"l", "__mul64hi({l}, {l})"},
    {"w", "__umul64hi({w}, {w})"},
    {"lw", "(({T}){i} * ({T}){i} + {.})"},
    {"lw", "(({T}){u} * ({T}){u})"},
    {"i", "(int)__sad({i}, {i}, {u})"},
    {"u", "__usad({u}, {u}, {u})"},
    {"iu", "__dp4a({.}, {.}, {.})"},
    {"u", "__v[add2|sub4|maxs2|minu4|absdiffu4|avgs2|cmpgts2|seteq4|addss2|subus4|sadu4|cmpleu2]({u}, {u})"},
    {"u", "__v[absss4|negss2|abs2|neg4]({u})"},
    {"iulw", "({T})({.} [<|>|==|!=] {.})"},
    {"iulw", "(({.} >> [1|7|13|24]) & [1|7|255|4095])"},
    {"sc", "({T})({.} [+|-|*|&|^] {i})"},
    {"sc", "({T})({.} >> [1|3|5])"},
    // Floating point.
    {"fd", "({.} [+|-|*|*|/] {.})", 4},
    {"fd", "({.} * {.} [+|-] {.})", 2},
    {"fd", "({.} * ({T})[2|.5|-1|3|4|1])"},
    {"fd", "([1|2|-1] [/|-|+] {.})"},
    {"fd", "(-{.})"},
    {"fd", "[fmin|fmax]({.}, {.})"},
    {"fd", "fma({.}, {.}, {.})", 2},
    {"f", "__fmaf_[rn|rz|ru|rd]({f}, {f}, {f})"},
    {"f", "__f[add|sub|mul|div]_[rn|rz|ru|rd]({f}, {f})", 2},
    {"d", "__d[add|sub|mul|div]_[rn|rz|ru|rd]({d}, {d})"},
    {"f", "__f[rcp|sqrt]_[rn|rz|ru|rd]({f})"},
    {"d", "__d[rcp|sqrt]_[rn|rz]({d})"},
    {"fd", "[sqrt|rsqrt|fabs|floor|ceil|rint|trunc]({.})", 2},
    {"f", "__[exp|log|log2|sin|cos|exp10]f({f})"},
    {"f", "[__saturatef|tanhf|exp2f|__frsqrt_rn]({f})"},
    {"f", "[__fdividef|__powf]({f}, {f})"},
    {"fd", "copysign({.}, {.})"},
    {"fd", "[exp|log|sin|cos|tanh|exp2|log2|atan|log1p|expm1|erf|cbrt|round|normcdf]({.})", 2, true},
    {"fd", "[pow|fmod|hypot|atan2|fdim|remainder|nextafter]({.}, {.})", 1, true},
    {"hb", "__h[add|sub|mul|div|min|max]({.}, {.})", 3},
    {"hb", "({.} [+|-|*|/] {.})", 3},
    {"hb", "__hfma[||_sat|_relu]({.}, {.}, {.})", 2},
    {"hb", "__h[abs|neg]({.})"},
    {"hb", "h[sqrt|rsqrt|rcp|floor|ceil|trunc|rint]({.})", 2},
    {"hb", "h[exp|exp2|log|log2|sin|cos]({.})"},
    {"hb", "__h[add_rn|mul_rn|add_sat|min_nan|max_nan]({.}, {.})"},
    // Conversions.
    {"f", "(float)[{i}|{u}|{l}|{w}|{d}|{s}|{c}|{p}]"},
    {"f", "[__half2float({h})|__bfloat162float({b})]", 2},
    {"f", "__[int2float|uint2float]_[rn|rz|rd|ru]([{i}|{u}])"},
    {"f", "__double2float_[rn|rz|rd|ru]({d})"},
    {"f", "__int_as_float({i})"},
    {"d", "(double)[{i}|{u}|{l}|{w}|{f}|{s}|{c}|{p}]"},
    {"d", "__ll2double_[rn|rz|rd|ru]({l})"},
    {"d", "__hiloint2double({i}, {i})"},
    {"d", "__longlong_as_double({l})"},
    {"h", "__float2half_[rn|rz|rd|ru]({f})", 2},
    {"h", "[__int2half_rn({i})|__double2half({d})|__ushort2half_rz({c})]"},
    {"b", "__float2bfloat16_[rn|rz|rd|ru]({f})", 2},
    {"b", "[__int2bfloat16_rn({i})|__double2bfloat16({d})]"},
    {"i", "__float2int_[rn|rz|rd|ru]({f})"},
    {"u", "__float2uint_[rn|rz|rd|ru]({f})"},
    {"i", "__double2int_[rn|rz|rd|ru]({d})"},
    {"i", "__double2[hi|lo]int({d})"},
    {"i", "[__float_as_int({f})|__half2int_rz({h})|__bfloat162int_rn({b})]"},
    {"l", "[__double_as_longlong({d})|__double2ll_rz({d})|__float2ll_rn({f})]"},
    {"w", "[__double2ull_rz({d})|__float2ull_rd({f})]"},
    {"iulwsc", "({T})[{i}|{u}|{l}|{w}|{s}|{c}|{p}]", 2},
    // Predicates and choices.
    {"p", "([{i} < {i}|{u} >= {u}|{l} > {l}|{w} <= {w}|{i} == {i}|{w} != {w}])", 2},
    {"p", "({f} [<|<=|>|>=|==|!=] {f})", 2},
    {"p", "({d} [<|<=|>|>=|==|!=] {d})"},
    {"p", "([{h} < {h}|{h} >= {h}|{b} == {b}|{b} > {b}])"},
    {"p", "[isnan|isinf|signbit|isfinite]([{f}|{d}])"},
    {"p", "({p} [&&|!=|==] {p})"},
    {"p", "({p} || {p})"},
    {"p", "(!{p})"},
    {"iulwfdhb", "({p} ? {.} : {.})", 2},
};

inline constexpr Row kStatements[] = {
    {kAny, "{=} = {.};", 12},
    {"p", "if ({p}) @", 4},
    {"p", "if ({p}) @ else @", 3},
    {"i", "for (int $ = 0; $ < [1|2|3|4|6]; ++$) @", 2},
    {"u", "for (unsigned $ = {u} & 7u; $ != 0u; --$) @", 2},
    {"u", "for (unsigned $ = {u} >> 20; $ != 0u; $ >>= 2) @"},
    {"p",
     "switch ({u} & [3u|7u]) { case 0: @ break; case 1: @ case 2: @ break; case 5: @ break; default: @ }"},
    {"u", "own[{u} & 7u] [=|+=|^=] {u};", 2},
    {"u", "{=} += own[{u} & 7u];", 2},
};

// Statements that all threads of the CTA reach.
inline constexpr Row kCollectives[] = {
    {"iulwfd", "{=} = __shfl_[xor|up|down]_sync(~0u, {=}, [1|5|16]);", 3},
    {"iulwfd", "{=} = __shfl_sync(~0u, {=}, {i} & 31);"},
    {"u", "{=} = __ballot_sync(~0u, {p});"},
    {"u", "{=} = __match_any_sync(~0u, {u} & 3u);"},
    {"iu", "{=} = __reduce_[add|min|max]_sync(~0u, {.});"},
    {"u", "{=} = __reduce_[and|or|xor]_sync(~0u, {u});"},
    {"p", "{=} = __[any|all]_sync(~0u, {p});"},
    {"u", "near[threadIdx.x] = {u}; __syncthreads(); {=u} ^= near[{u} & 63u]; __syncthreads();", 2},
    {"u",
     "atomic[Add|Max|Min|Xor|Or](&sums[{u} & 7u], {u}); __syncthreads(); {=u} -= sums[{u} & 7u]; "
     "__syncthreads();",
     2},
};

}  // namespace fp4lab::conformance::cuda
