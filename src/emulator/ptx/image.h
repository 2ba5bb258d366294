// One kernel with the functions that it calls, during layout: rows, constants, predicates, and the addresses
// of shared, local and parameter variables, all static, because nothing recurses.
#pragma once

#include <unordered_map>

#include "emulator/core/memory.h"
#include "emulator/isa/table.h"
#include "emulator/ptx/ast.h"
#include "emulator/ptx/insert.h"

namespace fp4lab::emu {

constexpr uint32_t kRowBytes = 128;  // 32 lanes of 32 bits; wider registers take 2 or 4 of them

class Image {
 public:
  Image(Module& out, const ast::Module& tree, const Table& table) : out(out), tree(tree), table(table) {}

  Module& out;
  const ast::Module& tree;
  const Table& table;

  // The kernel first, then every function it reaches; functions[i] becomes out.functions[first + i].
  std::vector<const ast::Function*> functions;
  uint32_t first = 0;
  uint32_t index_of(const ast::Function&) const;

  uint32_t new_rows(Type);       // offset of fresh rows for a register of the type
  Operand fresh_register(Type);  // one that is not in the text
  uint32_t new_predicate() { return predicate_count++; }
  uint32_t constant_row(Row::What, uint64_t bits);  // offset; equal constants share one row
  uint32_t symbol_row(uint32_t symbol, int64_t addend, Type = Type::b64);
  uint32_t sink_row();

  // Addresses of the .shared, .local and .param variables that the image uses.
  std::unordered_map<const ast::Variable*, uint64_t> addresses;
  uint32_t local_base = kLocalTop, frame_bytes = 0;  // local memory grows down from kLocalTop
  uint32_t new_local(uint64_t bytes, uint32_t align, const Token& at);  // its address
  uint32_t stack_base = 0;
  bool has_stack = false;
  uint32_t static_shared_bytes = 0, dynamic_shared_base = 0x400;

  // Index in out.symbols of a module's .global or .const variable.
  uint32_t symbol_of(const ast::Variable&) const;

  uint32_t register_bytes = 0, predicate_count = 1;
  std::vector<Row> constants;
  std::vector<std::pair<uint32_t, std::string>> register_names, predicate_names;
  std::vector<Fixup> fixups;  // rows: to become the entry's

 private:
  std::map<std::tuple<Row::What, uint64_t>, uint32_t> constant_rows_;
  std::map<std::tuple<uint32_t, int64_t, Type>, uint32_t> symbol_rows_;
  uint32_t sink_ = kNoPc;
};

// What a name denotes at its use.
struct Meaning {
  enum class Kind : uint8_t { none, reg, variable, label, list, function } kind = Kind::none;
  Operand reg;  // a value or a predicate
  const ast::Variable* variable = nullptr;
  uint32_t label = 0;  // statement index
  const ast::LabelList* list = nullptr;
  const ast::Function* function = nullptr;
};

// Looks names up in a function's blocks, in its parameters, and in the module.
class Names {
 public:
  Names(Image& image, const ast::Function& f) : image_(image), f_(f), known_(f.scopes.size()) {}
  const Meaning& find(std::string_view name, uint32_t scope);
  // Of the function's own parameters and results.
  bool is_input(const ast::Variable& v) const { return is_in(f_.params, v); }
  bool is_result(const ast::Variable& v) const { return is_in(f_.results, v); }
  // Fails with "undeclared ..." and the nearest declared names.
  [[noreturn]] void undeclared(const Token& at, std::string_view name, uint32_t scope) const;

 private:
  static bool is_in(const std::vector<ast::Variable>& list, const ast::Variable& v) {
    return !list.empty() && &v >= &list.front() && &v <= &list.back();
  }
  Meaning look_up(std::string_view name, uint32_t scope);
  bool in_block(std::string_view name, const ast::Scope&, Meaning&);
  Meaning fresh_register(Type, std::string_view name);

  Image& image_;
  const ast::Function& f_;
  std::vector<std::unordered_map<std::string_view, Meaning>> known_;  // by block
};

// Collects the `functions` of a kernel; refuses recursion and unresolved calls.
void collect_functions(Image&, const ast::Function& entry);
// Assigns an address to every variable that the functions use; names[i] belongs to functions[i].
void place_variables(Image&, std::deque<Names>& names);
// Adds the module's .global and .const variables with their initialisers to out.symbols.
void make_symbols(Module& out, const ast::Module&);

// The function that a call statement names, and its lists: call (results), name, (arguments).
struct CallText {
  const ast::Node* results = nullptr;
  const ast::Node* arguments = nullptr;
  const ast::Node* name = nullptr;
  const ast::Function* function = nullptr;
};
bool is_call(const ast::Statement&);
CallText read_call(const Module&, const ast::Module&, const ast::Statement&);

// Matches one statement's operands with the rows that its opcode fits, and stores them as Instr::op. Returns
// the row.
class Operands {
 public:
  Operands(Image& image, Names& names, Function& out) : image_(image), names_(names), out_(out) {}
  const Entry& lower(const ast::Statement&, std::span<const Entry* const> rows, Instr&, const Source&);

  const std::vector<Insertion>& insertions() const { return insertions_; }  // required by some operands

 private:
  using Specs = std::vector<OperandSpec>;
  bool assign(const ast::Statement&, const Specs&, const Source&, size_t spec, size_t node,
              std::vector<const ast::Node*>& out, size_t& farthest);
  bool fits(const OperandSpec&, const ast::Node&, const ast::Statement&, const Source&);
  [[noreturn]] void mismatch(const ast::Statement&, std::span<const Entry* const>, const Source&,
                             size_t farthest);
  [[noreturn]] void misfit(const ast::Node&, const OperandSpec&, const Source&, const std::string& which,
                           const std::string& tail);

  void convert(const OperandSpec&, const ast::Node&, Operand* op);
  Operand value(const ast::Node&, Type, bool relaxed, bool target);
  Operand constant(const ast::Node&, Type);
  Operand name(const ast::Node&, Type, bool relaxed, bool target);
  Operand special_value(const ast::Node&, Type);
  Operand sum(const ast::Node&, const Operand& reg, bool target);
  Operand computed_before(Type, std::vector<std::string_view> opcode, std::vector<Operand> sources);
  Operand base_register(const ast::Node&, const Operand& reg);
  static ast::Node all_of(const ast::Node& special);
  Operand symbol_address(const ast::Node&, const ast::Variable&, Type);
  Operand function_address(const ast::Node&, const ast::Function&, Type);
  Operand predicate(const ast::Node&, bool target);
  Operand address(const ast::Node&);
  void check_base_width(const ast::Node&, unsigned bits) const;
  void check_space(const ast::Node&, Space of_symbol, bool is_address) const;
  Operand vector(const ast::Node&, Type element, bool relaxed, bool target);
  Type element_of_registers(const ast::Node& vector, Type element);
  Type as_wide_as_registers(const ast::Node& vector, Type constant);
  Operand labels(const ast::Node&);
  uint32_t label(const ast::Node&, std::string_view name);
  void check_width(const ast::Node&, const Operand&, Type, bool relaxed) const;
  Operand sink(const ast::Node& n, bool target);
  void check_pair(const ast::Node&, const Operand*) const;
  const Meaning& meaning(const ast::Node&);

  Image& image_;
  Names& names_;
  Function& out_;
  const ast::Statement* statement_ = nullptr;  // the current one
  const Source* source_ = nullptr;
  const OperandSpec* spec_ = nullptr;  // of the current operand
  bool second_ = false;                // processing the second of a pair, or a whole vector
  std::vector<Insertion> insertions_;
  size_t addresses_ = 0;  // number of addresses before it
};

}  // namespace fp4lab::emu
