#include "emulator/ptx/lower.h"

#include <algorithm>
#include <cstring>

#include "emulator/isa/target.h"
#include "emulator/ptx/contract.h"
#include "emulator/ptx/flow.h"
#include "emulator/ptx/image.h"
#include "emulator/ptx/insert.h"
#include "emulator/ptx/padding.h"
#include "emulator/ptx/parser.h"
#include "emulator/ptx/syntax.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

constexpr uint32_t kMaxRegisterBytes = 256u << 20;  // of one warp: a limit for hostile texts

class Lowering {
 public:
  Lowering(Module& out, const ast::Module& tree, const Table& table, Compilation how)
      : out_(out), tree_(tree), table_(table), how_(how) {}

  void run() {
    make_symbols(out_, tree_);
    for (const ast::Function& f : tree_.functions)
      if (f.entry) kernel(f);
  }

 private:
  void kernel(const ast::Function& entry) {
    if (!entry.has_body) fail_at(out_, *entry.at, "kernel '{}' has no body", entry.name);
    Image image(out_, tree_, table_);
    collect_functions(image, entry);
    check_cta_groups(image);
    image.first = static_cast<uint32_t>(out_.functions.size());
    std::deque<Names> names;
    for (const ast::Function* f : image.functions) names.emplace_back(image, *f);
    place_variables(image, names);
    for (const ast::Function* f : image.functions) out_.functions.push_back(head(image, *f));
    for (size_t i = 0; i < image.functions.size(); ++i)
      body(image, *image.functions[i], names[i], image.first + static_cast<uint32_t>(i));
    if (image.register_bytes > kMaxRegisterBytes)
      fail_at(out_, *entry.at, "kernel '{}' has too many registers", entry.name);
    for (size_t i = 0; i < image.functions.size(); ++i) {
      Function& f = out_.functions[image.first + i];
      f.register_bytes = image.register_bytes;
      f.predicate_count = image.predicate_count;
      f.local_base = image.local_base, f.local_bytes = kLocalTop - image.local_base;
      f.frame_bytes = image.frame_bytes;
      f.has_stack = image.has_stack, f.stack_base = image.stack_base;
      f.static_shared_bytes = image.static_shared_bytes;
      f.dynamic_shared_base = image.dynamic_shared_base;
    }
    Function& f = out_.functions[image.first];
    f.constants = std::move(image.constants);
    f.register_names = std::move(image.register_names);
    f.predicate_names = std::move(image.predicate_names);
    out_.fixups.insert(out_.fixups.end(), image.fixups.begin(), image.fixups.end());
    out_.function_index[f.name] = image.first;
  }

  Function head(const Image& image, const ast::Function& f) {
    Function out;
    out.name = f.name;
    out.entry = f.entry;
    out.external = !f.has_body;
    out.noreturn = f.noreturn;
    out.params = parameters(image, f.params, out.param_bytes);
    uint32_t ignored;
    out.results = parameters(image, f.results, ignored);
    std::memcpy(out.max_ntid, f.max_ntid, sizeof out.max_ntid);
    std::memcpy(out.req_ntid, f.req_ntid, sizeof out.req_ntid);
    std::memcpy(out.req_cluster, f.req_cluster, sizeof out.req_cluster);
    out.max_cluster_rank = f.max_cluster_rank;
    out.min_ctapersm = f.min_ctapersm;
    out.max_nreg = f.max_nreg;
    out.explicit_cluster = f.explicit_cluster;
    out.blocks_are_clusters = f.blocks_are_clusters;
    for (const ast::Variable& v : f.params) variable(image, v, out);
    if (f.entry)
      for (const ast::Variable& v : tree_.variables) variable(image, v, out);
    for (const ast::Variable& v : f.variables) variable(image, v, out);
    return out;
  }

  static std::vector<Parameter> parameters(const Image& image, const std::vector<ast::Variable>& list,
                                           uint32_t& end) {
    std::vector<Parameter> out;
    end = 0;
    for (const ast::Variable& v : list) {
      auto at = static_cast<uint32_t>(image.addresses.at(&v));
      out.push_back({std::string(v.name), at, static_cast<uint32_t>(v.bytes()), v.align, v.points_to_shared});
      end = at + static_cast<uint32_t>(v.bytes());
    }
    return out;
  }

  static void variable(const Image& image, const ast::Variable& v, Function& out) {
    auto at = image.addresses.find(&v);
    if (at == image.addresses.end()) return;
    Symbol s;
    s.name = v.name;
    s.space = v.space;
    s.address = at->second;
    s.size = v.bytes();
    s.align = v.align;
    s.element = v.type;
    s.external_shared = v.space == Space::shared && v.unsized;
    out.variables.push_back(std::move(s));
  }

  void body(Image& image, const ast::Function& f, Names& names, uint32_t index) {
    Function out = std::move(out_.functions[index]);
    Operands operands(image, names, out);
    entries_.clear();
    out.code.reserve(f.statements.size() + 1);
    out.source.reserve(f.statements.size() + 1);
    first_location_ = static_cast<uint32_t>(out_.locations.size() - 1);
    for (size_t i = 1; i < f.locations.size(); ++i) {
      out_.locations.push_back(f.locations[i]);
      if (uint32_t& caller = out_.locations.back().caller) caller += first_location_;
    }
    for (const ast::Statement& s : f.statements) statement(s, names, operands, out, index);
    if (f.has_body && needs_end(f, out)) {  // falling off the end, or a label there, returns
      ast::Statement end;
      end.at = f.statements.empty() ? f.at : f.statements.back().at;
      end.opcode = {"ret"};
      end.opcode_at = {end.at};
      statement(end, names, operands, out, index);
    }
    fill_padding(image, out);
    insert(table_, out, entries_, operands.insertions());
    if (how_ == Compilation::optimised) contract(image, out, entries_);
    out_.functions[index] = std::move(out);
    find_reconvergence(out_, out_.functions[index]);
  }

  bool needs_end(const ast::Function& f, const Function& out) const {
    if (out.code.empty() || flow_of(out_, out, static_cast<uint32_t>(out.code.size() - 1)).falls_through)
      return true;
    for (const ast::Scope& scope : f.scopes)
      for (const auto& [_, at] : scope.labels)
        if (at == f.statements.size()) return true;
    return false;
  }

  const std::vector<const Entry*>& rows_for(const ast::Statement& s) {
    // The words of an opcode are adjacent in one text.
    const char* begin = s.opcode.front().data();
    const char* end = s.opcode.back().data() + s.opcode.back().size();
    std::string_view key =
        s.opcode.size() == 1 ? s.opcode[0] : std::string_view(begin, static_cast<size_t>(end - begin));
    auto [rows, fresh] = rows_.try_emplace(key);
    if (fresh) rows->second = table_.find(s.opcode);
    return rows->second;
  }

  void statement(const ast::Statement& s, Names& names, Operands& operands, Function& out, uint32_t index) {
    Instr instr;
    instr.pc = static_cast<uint32_t>(out.code.size());
    Source source;
    source.tokens = s.opcode;
    source.line = s.at->line;
    source.column = s.at->column;
    source.location = s.location ? s.location + first_location_ : 0;
    source.function = index;
    const auto& rows = rows_for(s);
    if (rows.empty()) {
      size_t token = 0;
      std::string why = table_.explain(s.opcode, token);
      fail_at(out_, *s.opcode_at[token], "{}", why);
    }
    if (s.guard) {
      const Meaning& m = names.find(s.guard->text, s.scope);
      if (m.kind == Meaning::Kind::none) names.undeclared(*s.guard, s.guard->text, s.scope);
      if (m.kind != Meaning::Kind::reg || m.reg.kind != Operand::Kind::predicate)
        fail_at(out_, *s.guard, "'{}' is not a predicate", s.guard->text);
      instr.guard = static_cast<int32_t>(m.reg.index);
      instr.guard_negated = s.guard_negated;
    }
    const Entry& row = operands.lower(s, rows, instr, source);
    check_target(*row.opcode, s);
    instr.opcode = row.opcode;
    entries_.push_back(&row);
    try {
      instr.body = row.opcode->bind(instr, source);
      if (!instr.body) fail("this form is not implemented");
    } catch (const PtxError&) {
      throw;
    } catch (const std::exception& e) {
      fail_at(out_, *s.at, "{} (PTX ISA {})", e.what(), row.opcode->section);
    }
    out.code.push_back(instr);
    out.source.push_back(std::move(source));
  }

  // "All tcgen05 instructions within a kernel must specify the same value for .cta_group" (PTX ISA 9.7.16):
  // ptxas looks at all that the kernel may call, whether it is executed or not. cp.async.bulk.tensor's
  // .cta_group is not meant.
  void check_cta_groups(const Image& image) const {
    const Token* first[3] = {};
    for (const ast::Function* f : image.functions)
      for (const ast::Statement& s : f->statements)
        for (const unsigned group : {1u, 2u}) {
          const std::string_view name = group == 1 ? "cta_group::1" : "cta_group::2";
          if (s.opcode[0] != "tcgen05" || std::ranges::find(s.opcode, name) == s.opcode.end()) continue;
          if (!first[group]) first[group] = s.at;
          if (const Token* other = first[3 - group])
            fail_at(
                out_, *s.at,
                "kernel '{}' has tcgen05 instructions of .cta_group::1 and of .cta_group::2 (line {}): all "
                "must name the same (PTX ISA 9.7.16)",
                image.functions[0]->name, other->line);
        }
  }

  void check_target(const Opcode& row, const ast::Statement& s) const {
    std::string_view target = tree_.target, modifier;
    if (const std::string_view least = least_version_of(s.opcode[0]); version_before(tree_.version, least))
      fail_at(out_, *s.at, "{} needs PTX ISA {}, the module's .version is {}", s.opcode[0], least,
              tree_.version);
    int need = row.target;
    if (!need || target_fits(need, target)) {
      need = unmet_need(s.opcode, target, modifier);
      if (!need) return;
    }
    fail_at(out_, *s.at, "{}{}{} needs .target {} (PTX ISA {}); the module's target is {}", s.opcode[0],
            modifier.empty() ? "" : ".", modifier, target_name(need), row.section, target);
  }

  Module& out_;
  uint32_t first_location_ = 0;  // of this function, in out_.locations
  const ast::Module& tree_;
  const Table& table_;
  Compilation how_;
  std::vector<const Entry*> entries_;  // of the current function, by instruction
  std::unordered_map<std::string_view, std::vector<const Entry*>> rows_;  // by opcode text
};

}  // namespace

void lower_module(Module& out, const ast::Module& tree, const Table& table, Compilation how) {
  Lowering(out, tree, table, how).run();
}

std::unique_ptr<Module> parse_with(const Table& table, std::string text, std::string_view file_name,
                                   Compilation how) {
  auto module = std::make_unique<Module>();
  module->name = file_name;
  module->text = std::move(text);
  std::vector<Token> tokens = tokenize(*module);
  ast::Module tree = parse_syntax(*module, tokens);
  module->version = tree.version;
  module->target = tree.target;
  for (auto& [number, name] : tree.files) {
    if (number > 100000) continue;
    if (module->files.size() <= number) module->files.resize(number + 1);
    module->files[number] = std::move(name);
  }
  pass_by_value(*module, tree);
  resolve_indirect_calls(*module, tree);
  unroll_recursion(*module, tree);
  lower_module(*module, tree, table, tree.debug ? Compilation::as_written : how);
  return module;
}

std::unique_ptr<Module> parse(std::string text, std::string_view file_name, Compilation how) {
  return parse_with(Table::standard(), std::move(text), file_name, how);
}

}  // namespace fp4lab::emu
