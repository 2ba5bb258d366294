// PTX text to tokens (PTX ISA 4.1 to 4.5).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/core/error.h"
#include "emulator/core/ir.h"

namespace fp4lab::emu {

struct Token {
  enum class Kind : uint8_t {
    word,    // identifiers: add, %r1, $L__BB0_1
    dotted,  // directives, modifiers, components: `text` without the dot, "shared::cta" in one piece
    number,  // as written
    string,  // without the quotes
    mark,    // punctuation
    end,
  };
  Kind kind = Kind::end;
  std::string_view text;  // points into Module::text
  uint32_t line = 1, column = 1;

  bool is(Kind k, std::string_view t) const { return kind == k && text == t; }
  bool mark(std::string_view t) const { return is(Kind::mark, t); }
  bool dotted(std::string_view t) const { return is(Kind::dotted, t); }
};

// The last token is the end. Throws PtxError for invalid characters and unterminated comments or strings.
std::vector<Token> tokenize(const Module&);

template <class... Args>
[[noreturn]] void fail_at(const Module& module, const Token& at, fmt::format_string<Args...> text,
                          Args&&... args) {
  throw PtxError(module, at.line, at.column, fmt::format(text, std::forward<Args>(args)...));
}

// A cursor over tokens; never past the end token.
class Cursor {
 public:
  Cursor(const Module& module, std::span<const Token> tokens) : module(module), tokens_(tokens) {}
  const Module& module;

  const Token& peek(size_t ahead = 0) const {
    return tokens_[at_ + ahead < tokens_.size() ? at_ + ahead : tokens_.size() - 1];
  }
  const Token& next() {
    const Token& t = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return t;
  }
  bool ended() const { return peek().kind == Token::Kind::end; }
  bool accept(std::string_view mark) {
    if (!peek().mark(mark)) return false;
    next();
    return true;
  }
  bool accept_dotted(std::string_view name) {
    if (!peek().dotted(name)) return false;
    next();
    return true;
  }
  void expect(std::string_view mark, std::string_view what) {
    if (!accept(mark)) fail("expected '{}' {}, found {}", mark, what, shown(peek()));
  }
  const Token& word(std::string_view what) {
    if (peek().kind != Token::Kind::word) fail("expected {}, found {}", what, shown(peek()));
    return next();
  }
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_at(module, peek(), text, std::forward<Args>(args)...);
  }
  static std::string shown(const Token& t);

 private:
  std::span<const Token> tokens_;
  size_t at_ = 0;
};

}  // namespace fp4lab::emu
