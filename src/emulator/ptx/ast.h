// The PTX text as a tree, before names are resolved: built by syntax.cpp and body.cpp, read by lower.cpp.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include "emulator/core/ir.h"
#include "emulator/ptx/constant.h"

namespace fp4lab::emu::ast {

// An operand as written.
struct Node {
  enum class Kind : uint8_t {
    name,      // %r1, %tid.x, symbol, symbol+4, label; `!p` has negated
    constant,  // number or constant expression
    address,   // [name+value], [value]; parts = what follows after commas
    vector,    // { parts }
    pair,      // parts[0] | parts[1]
    list,      // ( parts ): arguments and results of a call
  } kind = Kind::name;
  const Token* at = nullptr;
  std::string_view name, component;  // name: "_" is the sink; component: "x" of %tid.x
  bool negated = false;
  bool displaced = false;  // `value` is added to the name
  Constant value;
  std::vector<Node> parts;
};

struct Statement {
  const Token* at = nullptr;  // the mnemonic
  const Token* guard = nullptr;
  bool guard_negated = false;
  std::vector<std::string_view> opcode;
  std::vector<const Token*> opcode_at;  // parallel
  std::vector<Node> operands;
  uint32_t scope = 0;
  uint32_t location = 0;  // index into Function::locations
};

// .global, .const, .shared, .local and .param variables.
struct Variable {
  const Token* at = nullptr;
  std::string_view name;
  Space space = Space::global;
  Type type = Type::b8;
  uint32_t align = 1;
  uint64_t elements = 1;
  bool is_array = false;
  bool unsized = false;  // x[]
  bool external = false;
  bool is_pointer = false;        // .ptr
  bool points_to_shared = false;  // .ptr .shared
  bool managed = false;           // .attribute(.managed)
  bool in_register = false;       // a function's parameter that is a register of the name at `at`
  struct Item {                   // one element of the initialiser
    const Token* at;
    Constant value;                // added to the symbol's address if there is one
    std::string_view symbol;       // empty: `value` alone
    uint64_t mask = ~uint64_t(0);  // 0xff00(sym): the byte of the address that is stored
    bool generic = false;          // generic(sym)
  };
  std::vector<Item> init;  // of the first elements
  uint64_t bytes() const { return elements * (bits_of(type) / 8); }
};

struct Registers {  // `.reg .b32 %r<10>`, `.reg .pred p`, `.reg .v2 .f32 m`
  const Token* at = nullptr;
  Type type = Type::none;
  uint32_t count = 0;  // 0: a single register, else name0 .. name(count-1)
  uint32_t width = 1;  // 2, 4: of a vector
};
using RegisterMap = std::map<std::string_view, Registers, std::less<>>;

// The range that contains a name: "%r12" is register 12 of "%r<50>". Null: none.
const Registers* range_of(std::string_view name, const RegisterMap& ranges);

struct LabelList {
  std::vector<const Token*> labels;
};

// A { } block. Registers, variables and labels are looked up from the innermost block outwards.
struct Scope {
  uint32_t parent = 0;  // its own index for the function's outermost block
  RegisterMap registers, ranges;
  RegisterMap vectors, vector_ranges;  // their elements are in `registers` too, once they are used: "m.x"
  std::map<std::string_view, uint32_t, std::less<>> variables;                // in Function::variables
  std::map<std::string_view, uint32_t, std::less<>> labels;                   // in Function::statements
  std::map<std::string_view, LabelList, std::less<>> lists;                   // .branchtargets, .calltargets
  std::map<std::string_view, std::vector<uint32_t>, std::less<>> prototypes;  // the parameters' alignments
};

struct Function {
  const Token* at = nullptr;
  std::string_view name;
  bool entry = false, has_body = false, noreturn = false, external = false;
  uint64_t address = 0;  // the value of a pointer to it
  std::vector<Variable> params, results;
  std::deque<Variable> variables;  // .shared, .local, .param declared inside
  std::vector<Scope> scopes;
  std::deque<std::string> made_names;  // of registers that are not in the text
  std::vector<Statement> statements;
  std::vector<Location> locations{1};  // from .loc; 0: unknown
  uint32_t max_ntid[3] = {0, 0, 0}, req_ntid[3] = {0, 0, 0}, req_cluster[3] = {0, 0, 0};
  uint32_t max_cluster_rank = 0, min_ctapersm = 0, max_nreg = 0;
  bool explicit_cluster = false, blocks_are_clusters = false;
};

struct Module {
  std::string_view version, target;
  bool debug = false;  // .target ..., debug: ptxas does not optimise
  std::deque<Function> functions;
  std::map<std::string_view, Function*, std::less<>> function_by_name;
  std::deque<Variable> variables;
  std::map<std::string_view, uint32_t, std::less<>> variable_by_name;
  std::map<std::string_view, std::string_view, std::less<>> aliases;
  std::map<uint32_t, std::string> files;
  std::deque<Token> made_tokens;  // that are not in the text
};

}  // namespace fp4lab::emu::ast
