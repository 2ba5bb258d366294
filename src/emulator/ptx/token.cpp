#include "emulator/ptx/token.h"

#include <algorithm>
#include <array>

namespace fp4lab::emu {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

constexpr std::string_view kLongMarks[] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
constexpr std::string_view kMarks = "()[]{}<>,;:@!|&^~+-*/%=?";

class Lexer {
 public:
  explicit Lexer(const Module& module) : module_(module), text_(module.text) {}

  std::vector<Token> run() {
    require_ascii();
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 4 + 1);
    while (skip_blank()) tokens.push_back(token());
    tokens.push_back(start(Token::Kind::end));
    return tokens;
  }

 private:
  // In comments and strings too, as ptxas 13.0 has it.
  void require_ascii() const {
    const auto other = std::ranges::find_if(text_, [](char c) { return static_cast<signed char>(c) < 0; });
    if (other == text_.end()) return;
    const std::string_view before = text_.substr(0, static_cast<size_t>(other - text_.begin()));
    const size_t line_end = before.rfind('\n');
    Token at;
    at.line = static_cast<uint32_t>(std::ranges::count(before, '\n')) + 1;
    at.column = static_cast<uint32_t>(before.size() - (line_end == before.npos ? 0 : line_end + 1)) + 1;
    fail_at(module_, at, "PTX is ASCII, in comments and strings too; this byte is {:#04x}",
            static_cast<unsigned char>(*other));
  }

  char at(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  Token start(Token::Kind kind) const {
    return {kind, {}, line_, static_cast<uint32_t>(at_ - line_begin_ + 1)};
  }
  void newline() {
    ++line_;
    line_begin_ = at_ + 1;
  }

  // Moves to the next token; false at the end of the text.
  bool skip_blank() {
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '\n') {
        newline();
      } else if ((c == '/' && at(1) == '/') ||
                 (c == '#' && at_ == line_begin_)) {  // # 1 "a.c": a line marker of a preprocessor
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      } else if (c == '/' && at(1) == '*') {
        skip_comment();
      } else if (c == '\0' && text_.find_first_not_of('\0', at_) == std::string_view::npos) {
        at_ = text_.size();  // NVRTC's PTX ends in a zero byte
        return false;
      } else if (c != ' ' && c != '\t' && c != '\r' && c != '\f' && c != '\v') {
        return true;
      }
    }
    return false;
  }
  void skip_comment() {
    Token begin = start(Token::Kind::mark);
    for (at_ += 2;; ++at_) {
      if (at_ >= text_.size()) fail_at(module_, begin, "unterminated comment");
      if (text_[at_] == '\n') newline();
      if (text_[at_] == '*' && at(1) == '/') break;
    }
    ++at_;
  }

  Token finish(Token token, size_t begin, size_t end) {
    token.text = text_.substr(begin, end - begin);
    return token;
  }

  Token token() {
    char c = at();
    if (is_digit(c)) return number();
    // "7%3" is 7 and the name "%3" in ptxas too.
    if (is_letter(c) || c == '_' || ((c == '%' || c == '$') && is_word(at(1)))) return word();
    if (c == '.' && is_word(at(1))) return dotted();
    if (c == '"') return string();
    Token t = start(Token::Kind::mark);
    for (std::string_view mark : kLongMarks)
      if (text_.substr(at_, 2) == mark) {
        at_ += 2;
        return finish(t, at_ - 2, at_);
      }
    if (kMarks.find(c) == std::string_view::npos) {
      auto code = static_cast<unsigned char>(c);
      fail_at(module_, t, "PTX has no character {}",
              code > 32 && code < 127 ? fmt::format("'{}'", c) : fmt::format("0x{:02x}", code));
    }
    ++at_;
    return finish(t, at_ - 1, at_);
  }
  Token word() {
    Token t = start(Token::Kind::word);
    size_t begin = at_++;
    while (is_word(at())) ++at_;
    return finish(t, begin, at_);
  }
  Token dotted() {
    Token t = start(Token::Kind::dotted);
    size_t begin = ++at_;
    for (;;) {
      while (is_word(at())) ++at_;
      if (at() == ':' && at(1) == ':' && is_word(at(2)))
        at_ += 2;
      else
        break;
    }
    return finish(t, begin, at_);
  }
  Token number() {
    Token t = start(Token::Kind::number);
    size_t begin = at_;
    bool prefixed = at() == '0' && is_letter(at(1)) && at(1) != 'e' && at(1) != 'E' && at(1) != 'U';
    bool exponent = false, point = false;
    for (; at_ < text_.size(); ++at_) {
      char c = at();
      if (is_word(c)) {
        exponent = !prefixed && (c == 'e' || c == 'E');
      } else if (c == '.' && !prefixed && !point) {
        exponent = false, point = true;
      } else if ((c == '+' || c == '-') && exponent && is_digit(at(1))) {
        exponent = false;
      } else {
        break;
      }
    }
    return finish(t, begin, at_);
  }
  Token string() {
    Token t = start(Token::Kind::string);
    size_t begin = ++at_;
    for (; at() != '"' || at_ >= text_.size(); ++at_) {
      if (at_ >= text_.size() || at() == '\n') fail_at(module_, t, "unterminated string");
      if (at() == '\\' && at(1) != '\n' && at_ + 1 < text_.size()) ++at_;
    }
    return finish(t, begin, at_++);
  }

  const Module& module_;
  std::string_view text_;
  size_t at_ = 0, line_begin_ = 0;
  uint32_t line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(const Module& module) { return Lexer(module).run(); }

std::string Cursor::shown(const Token& t) {
  switch (t.kind) {
    case Token::Kind::end:
      return "the end of the text";
    case Token::Kind::dotted:
      return fmt::format("'.{}'", t.text);
    case Token::Kind::string:
      return fmt::format("\"{}\"", t.text);
    default:
      return fmt::format("'{}'", t.text);
  }
}

}  // namespace fp4lab::emu
