// Random kernels in CUDA C++, compiled to PTX by NVRTC: the PTX of compilers, where the other kinds cover
// what the manual allows. A kernel is built from the rows of cuda_rows.h.
//
// Their only undefined behaviour in C++ is signed overflow, as in users' kernels: shifts, divisors and
// indices are bounded, conversions to integers are intrinsics, every variable is initialised, and all threads
// reach the collectives.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cuda_rows.h"
#include "fp4lab/error.h"
#include "fp4lab/jit.h"
#include "program.h"

namespace fp4lab::conformance {
using namespace cuda;

namespace {

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

  // The text between the bracket at `from` and its partner; moves `from` to the partner.
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
