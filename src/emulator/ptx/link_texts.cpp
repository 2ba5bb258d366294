#include "emulator/ptx/link_texts.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "emulator/ptx/token.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

enum class Linking : uint8_t { own, external, weak, strong };

// A declaration at module scope: tokens [begin, end).
struct Item {
  size_t begin, end;
  Linking linking = Linking::own;
  bool defines = true;  // not just a function's head
  std::vector<std::string_view> names = {};
};

// A replacement in a text.
struct Edit {
  size_t at, length;
  std::string text;
};

// One of the texts, parsed at module scope only.
class Piece {
 public:
  explicit Piece(const PtxText& from) {
    module_.name = from.name;
    module_.text = from.text;
    tokens_ = tokenize(module_);
    while (!ended()) item();
  }

  std::string_view name() const { return module_.name; }
  std::string_view version() const { return version_; }
  std::string_view target() const { return target_; }
  bool debug() const { return debug_; }
  const std::vector<Item>& items() const { return items_; }
  size_t files() const { return most_file_ + 1; }

  void leave_out(const Item& item) { leave_out(item.begin, item.end); }
  void rename(std::string_view name, const std::string& to) {
    for (const Token& t : tokens_)
      if (t.is(Token::Kind::word, name)) edits_.push_back({offset(t), t.text.size(), to});
  }
  // Renumbers files to follow those of the texts before.
  void number_files_from(size_t first) {
    for (const Token* t : file_numbers_)
      edits_.push_back({offset(*t), t->text.size(), std::to_string(number(*t) + first)});
  }

  std::string edited() {
    std::sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) { return a.at < b.at; });
    std::string out;
    size_t done = 0;
    for (const Edit& e : edits_) {
      if (e.at < done) continue;  // inside a removed part
      out.append(module_.text, done, e.at - done).append(e.text);
      done = e.at + e.length;
    }
    return out.append(module_.text, done);
  }

 private:
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() {
    const Token& t = peek();
    if (!ended()) ++at_;
    return t;
  }
  bool ended() const { return peek().kind == Token::Kind::end; }
  bool at_directive() const { return peek().kind == Token::Kind::dotted; }

  size_t offset(const Token& t) const { return static_cast<size_t>(t.text.data() - module_.text.data()); }
  static size_t number(const Token& t) {
    size_t value = 0;
    std::from_chars(t.text.data(), t.text.data() + t.text.size(), value);
    return value;
  }

  void leave_out(size_t begin, size_t end) {
    const Token& last = tokens_[end - 1];
    const size_t from = offset(tokens_[begin]) - (tokens_[begin].kind == Token::Kind::dotted);
    edits_.push_back({from, offset(last) + last.text.size() + (last.kind == Token::Kind::string) - from, {}});
  }

  // Skips to after the mark that closes the current one.
  void skip_braces() {
    int depth = 0;
    do {
      const Token& t = next();
      if (t.mark("{") || t.mark("(") || t.mark("[")) ++depth;
      if (t.mark("}") || t.mark(")") || t.mark("]")) --depth;
      if (t.dotted("loc")) location(t);
      if (ended() && depth > 0) fail_at(module_, t, "the text ends inside a declaration");
    } while (depth > 0);
  }

  void file_number() {
    if (peek().kind != Token::Kind::number) return;
    file_numbers_.push_back(&peek());
    most_file_ = std::max(most_file_, number(next()));
  }
  void location(const Token& loc) {
    file_number();
    while (!ended() && peek().line == loc.line)
      if (next().is(Token::Kind::word, "inlined_at")) file_number();
  }

  void item() {
    const size_t begin = at_;
    const Token& t = next();
    if (t.dotted("version") || t.dotted("target") || t.dotted("address_size")) {
      if (t.dotted("version")) version_ = peek().text;
      if (t.dotted("target")) target_ = peek().text;
      next();
      while (peek().mark(","))
        next(), debug_ |= next().is(Token::Kind::word, "debug");  // .target sm_90a, debug
      leave_out(begin, at_);
    } else if (t.dotted("section") || t.mark("@")) {
      while (!ended() && !peek().mark("{") && (t.text == "section" || peek().line == t.line)) next();
      if (t.text == "section" && !ended()) skip_braces();
      leave_out(begin, at_);
    } else if (t.dotted("file")) {
      file_number();
      while (!ended() && !at_directive() && !peek().mark("@")) next();
    } else if (t.dotted("pragma") || t.dotted("alias")) {
      while (!ended() && !next().mark(";")) {
      }
    } else if (t.kind == Token::Kind::dotted) {
      declaration(begin, t);
    } else {
      fail_at(module_, t, "expected a directive, found {}", Cursor::shown(t));
    }
  }

  void declaration(size_t begin, const Token& first) {
    Item item{begin, 0};
    const Token* t = &first;
    if (t->dotted("extern")) item.linking = Linking::external;
    if (t->dotted("weak") || t->dotted("common")) item.linking = Linking::weak;
    if (t->dotted("visible")) item.linking = Linking::strong;
    if (item.linking != Linking::own) t = &next();
    if (t->dotted("entry") && item.linking == Linking::own) item.linking = Linking::strong;
    if (t->dotted("entry") || t->dotted("func"))
      function(item, t->dotted("func"));
    else
      variables(item);
    item.end = at_;
    items_.push_back(std::move(item));
  }

  void function(Item& item, bool may_have_results) {
    while (!ended() && at_directive()) {  // .attribute(...)
      next();
      if (peek().mark("(")) skip_braces();
    }
    if (may_have_results && peek().mark("(")) skip_braces();
    item.names.push_back(next().text);
    while (!ended() && !peek().mark("{") && !peek().mark(";")) {
      if (peek().mark("("))
        skip_braces();
      else
        next();
    }
    item.defines = peek().mark("{");
    if (item.defines)
      skip_braces();
    else
      next();
  }

  // .type name[4] = {...}, name ...;
  void variables(Item& item) {
    bool is_named = false;
    while (!ended() && !peek().mark(";")) {
      if (peek().mark("(") || peek().mark("{") || peek().mark("[")) {
        skip_braces();
        continue;
      }
      const Token& t = next();
      if (t.mark(",")) is_named = false;
      if (t.kind == Token::Kind::word && !std::exchange(is_named, true)) item.names.push_back(t.text);
    }
    next();
  }

  Module module_;
  std::vector<Token> tokens_;
  size_t at_ = 0, most_file_ = 0;
  std::string_view version_ = "0", target_;
  bool debug_ = false;
  std::vector<Item> items_;
  std::vector<const Token*> file_numbers_;
  std::vector<Edit> edits_;
};

// "8.10" is newer than "8.9", sm_100 than sm_90, and sm_90a than sm_90.
std::vector<int> numbers(std::string_view text) {
  std::vector<int> out;
  for (size_t i = 0; i < text.size(); ++i)
    if (int value = 0; text[i] >= '0' && text[i] <= '9') {
      i = static_cast<size_t>(std::from_chars(&text[i], text.data() + text.size(), value).ptr - text.data()) -
          1;
      out.push_back(value);
    }
  out.push_back(text.ends_with('a') ? 2 : text.ends_with('f') ? 1 : 0);
  return out;
}
void take_newer(std::string_view& newest, std::string_view other) {
  if (newest.empty() || numbers(newest) < numbers(other)) newest = other;
}

class Linker {
 public:
  explicit Linker(std::span<const PtxText> texts) {
    for (const PtxText& t : texts) pieces_.emplace_back(t);
  }

  std::string run() {
    for (Piece& p : pieces_)
      for (const Item& item : p.items())
        for (const std::string_view name : item.names) declare(p, item, name);
    for (Piece& p : pieces_) rename_own(p);
    std::string_view version, target;
    bool debug = false;  // if one text has it, the whole is compiled without optimisation
    size_t files = 0;
    std::string out;
    for (Piece& p : pieces_) {
      take_newer(version, p.version());
      take_newer(target, p.target());
      debug |= p.debug();
      p.number_files_from(files);
      files += p.files();
      out += fmt::format("\n// {}\n{}\n", p.name(), p.edited());
    }
    return fmt::format(".version {}\n.target {}{}\n.address_size 64\n{}", version, target,
                       debug ? ", debug" : "", out);
  }

 private:
  struct Symbol {
    Piece* piece;
    const Item* item;
  };

  void declare(Piece& p, const Item& item, std::string_view name) {
    declared_in_[name].insert(&p);
    if (item.linking == Linking::own) {
      if (!first_own_.contains(name)) first_own_[name] = &p;
      return;
    }
    shared_in_[name].insert(&p);
    if (item.linking == Linking::external || !item.defines) return;
    const auto [found, fresh] = defined_.try_emplace(name, Symbol{&p, &item});
    if (fresh) return;
    Symbol& old = found->second;
    if (item.linking == Linking::strong && old.item->linking == Linking::strong)
      fail("'{}' is defined in {} and in {}", name, old.piece->name(), p.name());
    if (item.linking == Linking::weak) return p.leave_out(item);
    old.piece->leave_out(*old.item);
    old = {&p, &item};
  }

  void rename_own(Piece& p) {
    std::set<std::string_view> done;
    for (const Item& item : p.items())
      for (const std::string_view name : item.names) {
        if (item.linking != Linking::own || declared_in_.at(name).size() == 1 || !done.insert(name).second)
          continue;
        const auto shared = shared_in_.find(name);
        if (shared == shared_in_.end() ? first_own_.at(name) == &p : shared->second.contains(&p)) continue;
        std::string to;
        do to = fmt::format("{}${}", name, ++count_);
        while (declared_in_.contains(to));
        p.rename(name, to);
      }
  }

  std::deque<Piece> pieces_;
  std::map<std::string_view, std::set<const Piece*>> declared_in_;
  std::map<std::string_view, const Piece*>
      first_own_;  // which text has it first, without a linking directive
  std::map<std::string_view, std::set<const Piece*>> shared_in_;  // declared with one
  std::map<std::string_view, Symbol> defined_;
  unsigned count_ = 0;
};

}  // namespace

std::string link_texts(std::span<const PtxText> texts) { return Linker(texts).run(); }

}  // namespace fp4lab::emu
