// Random kernels in CUDA C++, made into PTX by NVRTC: what compilers write, where the other kinds have what
// the manual allows. A kernel is grown from the rows below; a construct more is a row more.
//
// Nothing in them is undefined in C++ but the overflow of signed numbers, as in users' kernels: shifts,
// divisors and indices are bounded, conversions to integers are intrinsics, every variable has a value, and
// collectives stand where all threads come by.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fp4lab/error.h"
#include "fp4lab/jit.h"
#include "program.h"

namespace fp4lab::conformance {
namespace {

// A letter stands for a type everywhere below.
struct Type {
  char letter;
  const char* name;
  unsigned bytes;
  const char *from, *to;  // of the word `x` that the kernel reads, and the word that it writes of `x`
};
constexpr Type kTypes[] = {
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
// How often a type is taken where any will do.
constexpr std::string_view kAny = "iiiiuuuuulllwwwfffffffddddhhbscp";

// `text` for a type of `of`. In it {f} is an expression of a type and {=f} a variable, {.} and {=} those of
// the row's own type, {T} its name and {#} a constant; [a|b] is one of them. In statements @ is a block and $
// a name of its own.
struct Row {
  std::string_view of, text;
  unsigned weight = 1;
  bool libdevice = false;  // whole functions of NVIDIA's library: in some of the kernels
};

constexpr Row kExpressions[] = {
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

constexpr Row kStatements[] = {
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

// Where all threads of the CTA come by.
constexpr Row kCollectives[] = {
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

constexpr unsigned kThreads = 64;

const Type& type_of(char letter) {
  for (const Type& t : kTypes)
    if (t.letter == letter) return t;
  fail("'{}' is no type of the generator's", letter);
}

class Kernel {
 public:
  explicit Kernel(uint64_t seed) : r_(seed * 2 + 1), libdevice_(r_.one_in(3)) {}

  Program make() {
    std::string functions;
    for (unsigned n = r_.below(4), i = 0; i < n; ++i) functions += function(i);
    for (const Type& t : kTypes)
      for (unsigned i = 0; i < 2; ++i) declare(t, input(t));
    put("__shared__ unsigned near[64], sums[8];");
    put("unsigned own[8]; for (int i = 0; i < 8; ++i) own[i] = v2 * (i + 1);");
    put("near[threadIdx.x] = v3; if (threadIdx.x < 8) sums[threadIdx.x] = threadIdx.x; __syncthreads();");
    for (unsigned n = 8 + r_.below(30); n-- > 0;) top_statement();
    for (const Variable& v : variables_) {
      p_.slot_lines.push_back(v.line + lines_of(functions) + 6);
      put(store(v.name, type_of(v.type).to));
    }
    put(store("own[v3 & 7u]", "x"));
    static constexpr std::string_view kOptions[] = {"--use_fast_math", "--fmad=false", "--ftz=true",
                                                    "--prec-div=false", "--prec-sqrt=false"};
    if (r_.one_in(2)) options_.emplace_back(r_.pick(kOptions));
    p_.source = fmt::format(
        "// NVRTC: {}\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n\n{}"
        "extern \"C\" __global__ void k(unsigned long long* __restrict__ out,\n"
        "                             const unsigned long long* __restrict__ in) {{\n{}}}\n",
        fmt::join(options_, " "), functions, text_);
    p_.threads = kThreads;
    p_.out_bytes = size_t(stores_) * kThreads * 8;
    return std::move(p_);
  }

  const std::vector<std::string>& options() const { return options_; }

 private:
  struct Variable {
    char type;
    std::string name;
    unsigned line = 0;         // of the kernel's body, from 1
    bool is_constant = false;  // the counter of a loop
  };

  void put(const std::string& line) { text_ += std::string(2 * depth_, ' ') + line + '\n'; }
  static unsigned lines_of(std::string_view text) {
    return static_cast<unsigned>(std::count(text.begin(), text.end(), '\n'));
  }

  // The next 64 words of the input, as a type.
  std::string input(const Type& t) {
    const size_t at = p_.in.size();
    p_.in.resize(at + kThreads * 8);
    for (unsigned i = 0; i < kThreads; ++i) {
      const uint64_t word = random_operand(r_, std::max(2u, t.bytes));
      std::memcpy(&p_.in[at + 8 * i], &word, 8);
    }
    return with(t.from, fmt::format("in[{} + threadIdx.x]", at / 8));
  }
  std::string store(const std::string& name, const char* as) {
    return fmt::format("out[{} + threadIdx.x] = {};", kThreads * stores_++, with(as, name));
  }
  // `pattern` with `x` in it replaced.
  static std::string with(std::string_view pattern, const std::string& x) {
    std::string out;
    for (size_t i = 0; i < pattern.size(); ++i) {
      const auto in_word = [&](size_t at) {
        return at < pattern.size() && (std::isalnum(pattern[at]) || pattern[at] == '_');
      };
      if (pattern[i] == 'x' && !in_word(i - 1) && !in_word(i + 1))
        out += x;
      else
        out += pattern[i];
    }
    return out;
  }

  void declare(const Type& t, const std::string& value) {
    const std::string name = fmt::format("v{}", names_++);
    variables_.push_back({t.letter, name, lines_of(text_) + 1});
    put(fmt::format("{} {} = {};", t.name, name, value));
  }

  template <size_t N>
  const Row& row(const Row (&rows)[N], char type) {
    unsigned total = 0;
    const auto fits = [&](const Row& row) {
      return (type == 0 || row.of.find(type) != row.of.npos) && (libdevice_ || !row.libdevice);
    };
    for (const Row& row : rows) total += fits(row) ? row.weight : 0;
    unsigned n = r_.below(total);
    for (const Row& row : rows) {
      if (!fits(row)) continue;
      if (n < row.weight) return row;
      n -= row.weight;
    }
    return rows[0];
  }

  std::string expression(char type, unsigned depth) {
    if (depth == 0 || r_.one_in(6)) return leaf(type);
    return expand(row(kExpressions, type).text, type, depth - 1);
  }
  std::string leaf(char type) {
    if (r_.one_in(6)) return constant(type);
    return variable(type, false);
  }
  std::string variable(char type, bool assigned) {
    std::vector<const Variable*> list;
    for (const Variable& v : variables_)
      if (v.type == type && !(assigned && v.is_constant)) list.push_back(&v);
    return list.empty() ? constant(type) : r_.pick(list)->name;
  }
  std::string constant(char letter) {
    const Type& t = type_of(letter);
    if (letter == 'p') return r_.one_in(2) ? "true" : "false";
    static constexpr const char* kFloats[] = {"0.", "-0.",   "1.",   "-1.",  "2.",    ".5",
                                              "3.", "1e-40", "1e38", "7.25", "1e-310"};
    if ((letter == 'f' || letter == 'd') && r_.one_in(2))
      return fmt::format("({}){}", t.name, r_.pick(kFloats));
    const uint64_t word = random_operand(r_, std::max(2u, t.bytes));
    return "(" + with(t.from, fmt::format("0x{:x}ull", word)) + ")";
  }

  // What stands between the bracket at `from` and its partner, which `from` is moved to.
  static std::string_view enclosed(std::string_view text, size_t& from) {
    const char open = text[from], close = open == '{' ? '}' : ']';
    const size_t begin = from + 1;
    for (unsigned depth = 0;; ++from) {
      if (text[from] == open) ++depth;
      if (text[from] == close && --depth == 0) return text.substr(begin, from - begin);
    }
  }

  std::string expand(std::string_view text, char type, unsigned depth) {
    std::string out, own;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{' && text[i + 1] != ' ') {
        const std::string_view what = enclosed(text, i);
        if (what == "T")
          out += type_of(type).name;
        else if (what == "#")
          out += constant(type);
        else if (what[0] == '=')
          out += variable(what.size() > 1 ? what[1] : type, true);
        else
          out += expression(what == "." ? type : what[0], depth);
      } else if (text[i] == '[') {
        const std::string_view inside = enclosed(text, i);
        if (inside.find('|') == inside.npos)
          out += '[' + expand(inside, type, depth) + ']';
        else
          out += expand(alternative(inside), type, depth);
      } else if (text[i] == '@') {
        out += "{\n" + block(own, type) + std::string(2 * depth_, ' ') + "}";
      } else if (text[i] == '$') {
        if (own.empty()) own = fmt::format("n{}", names_++);
        out += own;
      } else {
        out += text[i];
      }
    }
    return out;
  }
  std::string_view alternative(std::string_view list) {
    const auto count = static_cast<unsigned>(std::count(list.begin(), list.end(), '|')) + 1;
    for (unsigned skip = r_.below(count); skip > 0; --skip) list.remove_prefix(list.find('|') + 1);
    return list.substr(0, list.find('|'));
  }

  // Statements in braces, in which the `counter` of a loop, if there is one, may be read.
  std::string block(const std::string& counter, char type) {
    std::string outer = std::move(text_);
    text_.clear();
    ++depth_;
    if (!counter.empty()) variables_.push_back({type, counter, 0, true});
    for (unsigned n = 1 + r_.below(4); n-- > 0;) statement();
    if (!counter.empty()) variables_.pop_back();
    --depth_;
    std::swap(text_, outer);
    return outer;
  }
  void statement() {
    static constexpr std::string_view kSimple = kStatements[0].text;
    const Row& chosen = depth_ > 3 ? kStatements[0] : row(kStatements, 0);
    const char type = chosen.text == kSimple ? r_.pick(kAny) : chosen.of[0];
    put(expand(chosen.text, type, chosen.text == kSimple ? 1 + r_.below(4) : 2));
  }
  void top_statement() {
    const unsigned kind = r_.below(8);
    if (kind < 3) {
      const Type& t = type_of(r_.pick(kAny));
      declare(t, expression(t.letter, 1 + r_.below(4)));
    } else if (kind == 3) {
      const Row& chosen = row(kCollectives, 0);
      put(expand(chosen.text, r_.pick(chosen.of), 2));
    } else if (kind == 4 && !functions_.empty()) {
      const Signature& f = r_.pick(functions_);
      std::string arguments;
      for (char c : f.parameters) arguments += (arguments.empty() ? "" : ", ") + expression(c, 1);
      put(fmt::format("{} = {}({});", variable(f.result, true), f.name, arguments));
    } else {
      statement();
    }
  }

  struct Signature {
    std::string name, parameters;
    char result;
  };
  std::string function(unsigned number) {
    Signature f{fmt::format("f{}", number), {}, r_.pick(kAny)};
    std::string list;
    std::vector<Variable> outer;
    std::swap(outer, variables_);
    for (unsigned n = 1 + r_.below(3), i = 0; i < n; ++i) {
      const Type& t = type_of(r_.pick(kAny));
      f.parameters += t.letter;
      variables_.push_back({t.letter, fmt::format("p{}", i)});
      list += fmt::format("{}{} p{}", i ? ", " : "", t.name, i);
    }
    const std::string value = expression(f.result, 4);
    std::swap(outer, variables_);
    functions_.push_back(f);
    return fmt::format("__device__ {} {} {}({}) {{ return {}; }}\n",
                       r_.one_in(3) ? "__forceinline__" : "__noinline__", type_of(f.result).name, f.name,
                       list, value);
  }

  Random r_;
  const bool libdevice_;
  Program p_;
  std::string text_;
  std::vector<Variable> variables_;
  std::vector<Signature> functions_;
  std::vector<std::string> options_ = {"-w"};
  unsigned names_ = 0, depth_ = 1, stores_ = 0;
};

}  // namespace

Program generate_cuda(uint64_t seed) {
  Kernel kernel(seed);
  Program p = kernel.make();
  const auto file =
      std::filesystem::temp_directory_path() / fmt::format("fp4lab_conformance_{}_{}.cu", getpid(), seed);
  std::ofstream(file) << p.source;
  p.text =
      jit::compile({.source = file, .arch = "sm_90a", .options = kernel.options()}, jit::CacheUse::kOff)->ptx;
  std::filesystem::remove(file);
  return p;
}

}  // namespace fp4lab::conformance
