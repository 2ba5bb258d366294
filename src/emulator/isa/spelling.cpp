#include "emulator/isa/spelling.h"

#include <algorithm>
#include <bit>

#include "emulator/core/ir.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

class Spelling::Reader {
 public:
  explicit Reader(std::string_view pattern) : all_(pattern), rest_(pattern) {}

  std::string_view mnemonic() { return word(); }

  Node sequence(std::string_view closing) {
    Node n{Node::Kind::sequence, {}, {}};
    while (!rest_.empty() && closing.find(rest_[0]) == std::string_view::npos) n.parts.push_back(item());
    return n;
  }
  void end() const {
    if (!rest_.empty()) bad("unexpected");
  }

 private:
  [[noreturn]] void bad(std::string_view what) const {
    fail("opcode table: {} at '{}' in \"{}\"", what, rest_, all_);
  }
  char take() {
    char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }
  std::string_view word() {
    size_t n = 0;
    auto plain = [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    while (n < rest_.size() && (plain(rest_[n]) || rest_[n] == ':')) ++n;
    if (!n) bad("word missing");
    std::string_view w = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return w;
  }
  Node item() {
    switch (char c = take()) {
      case '.':
        return {Node::Kind::word, word(), {}};
      case '<':
        return group(Node::Kind::one_of, '>');
      case '{':
        return group(Node::Kind::at_most_one, '}');
      case '[': {
        Node n = sequence("]");
        n.kind = Node::Kind::any_order;
        if (rest_.empty()) bad("']' missing");
        take();
        return n;
      }
      default:
        fail("opcode table: unexpected '{}' in \"{}\"", c, all_);
    }
  }
  Node group(Node::Kind kind, char closing) {
    Node n{kind, {}, {}};
    for (;;) {
      n.parts.push_back(sequence(std::string{',', closing}));
      if (n.parts.back().parts.empty()) bad("empty alternative");
      if (rest_.empty()) bad("closing bracket missing");
      if (take() == closing) return n;
    }
  }

  std::string_view all_, rest_;
};

Spelling::Spelling(std::string_view pattern) {
  Reader reader(pattern);
  mnemonic_ = reader.mnemonic();
  rest_ = reader.sequence("");
  reader.end();
}

Spelling::Positions Spelling::walk(const Node& n, Positions from, std::span<const std::string_view> tokens,
                                   Expectation* expected) {
  Positions to = 0;
  switch (n.kind) {
    case Node::Kind::word:
      for (Positions left = from; left; left &= left - 1) {
        size_t i = static_cast<size_t>(std::countr_zero(left));
        if (i < tokens.size() && tokens[i] == n.word) to |= Positions(1) << (i + 1);
        if (expected && i >= expected->at) {
          if (i > expected->at) *expected = {i, {}, false};
          expected->words.insert(n.word);
        }
      }
      return to;
    case Node::Kind::sequence:
      for (const Node& part : n.parts) from = walk(part, from, tokens, expected);
      return from;
    case Node::Kind::at_most_one:
      to = from;
      [[fallthrough]];
    case Node::Kind::one_of:
      for (const Node& part : n.parts) to |= walk(part, from, tokens, expected);
      return to;
    case Node::Kind::any_order:
      return walk_any(n, (uint64_t(1) << n.parts.size()) - 1, from, tokens, expected);
  }
  return 0;
}

Spelling::Positions Spelling::walk_any(const Node& n, uint64_t left, Positions from,
                                       std::span<const std::string_view> tokens, Expectation* expected) {
  if (!left || !from) return from;
  Positions to = 0;
  for (uint64_t i = left; i; i &= i - 1) {
    uint64_t bit = i & (0 - i);
    Positions behind = walk(n.parts[static_cast<size_t>(std::countr_zero(bit))], from, tokens, expected);
    to |= walk_any(n, left & ~bit, behind, tokens, expected);
  }
  return to;
}

bool Spelling::matches(std::span<const std::string_view> tokens, Expectation* expected) const {
  if (tokens.empty() || tokens.size() > 62 || tokens[0] != mnemonic_) return false;
  Positions ends = walk(rest_, 2, tokens, expected);
  if (expected && ends) {
    size_t last = static_cast<size_t>(63 - std::countl_zero(ends));
    if (last > expected->at) *expected = {last, {}, false};
    if (last == expected->at) expected->complete = true;
  }
  return ends >> tokens.size() & 1;
}

namespace {

// Words of one kind keep their order: types and layouts, the state spaces of a copy, the priorities of a
// policy.
enum class Order : uint8_t { free, type, space, priority };
Order order_of(std::string_view w) {
  if (type_named(w) != Type::none || w == "row" || w == "col") return Order::type;
  if (w == "global" || w.starts_with("shared")) return Order::space;
  return w.starts_with("L2::evict") ? Order::priority : Order::free;
}

bool says_how(std::string_view w) {
  constexpr std::string_view kWords[] = {"sync", "sat", "cc", "rn", "rs", "any", "all"};
  return std::find(std::begin(kWords), std::end(kWords), w) != std::end(kWords) ||
         type_named(w) != Type::none;
}

}  // namespace

// Every word of the pattern takes a token from any position; words of one kind from left to right.
Spelling::TokenSets Spelling::take(const Node& n, const TokenSets& from,
                                   std::span<const std::string_view> tokens, size_t& budget) {
  TokenSets to;
  auto add = [&](const TokenSets& more) { to.insert(more.begin(), more.end()); };
  switch (n.kind) {
    case Node::Kind::word: {
      const Order order = order_of(n.word);
      for (uint64_t used : from) {
        if (!budget || !--budget) return {};
        for (size_t i = 1; i < tokens.size(); ++i) {
          if (used >> i & 1) continue;
          if (tokens[i] == n.word) to.insert(used | uint64_t(1) << i);
          if (tokens[i] == n.word || (order != Order::free && order == order_of(tokens[i]))) break;
        }
      }
      return to;
    }
    case Node::Kind::sequence:
    case Node::Kind::any_order:
      to = from;
      for (const Node& part : n.parts) {
        if (to.empty()) break;
        to = take(part, to, tokens, budget);
      }
      return to;
    case Node::Kind::at_most_one:
      to = from;
      [[fallthrough]];
    case Node::Kind::one_of:
      for (const Node& part : n.parts) add(take(part, from, tokens, budget));
      return to;
  }
  return to;
}

bool Spelling::matches_in_any_order(std::span<const std::string_view> tokens) const {
  if (tokens.empty() || tokens.size() > 62 || tokens[0] != mnemonic_) return false;
  // The words before the first choice belong to the name (cp.async.bulk, mbarrier.arrive), except those that
  // may move (CUB writes vote.ballot.sync, FlashInfer cvt.satfinite.rn.e4m3x2.f16x2).
  size_t fixed = 0;
  while (fixed < rest_.parts.size() && rest_.parts[fixed].kind == Node::Kind::word &&
         !says_how(rest_.parts[fixed].word)) {
    if (fixed + 1 >= tokens.size() || tokens[fixed + 1] != rest_.parts[fixed].word) return false;
    ++fixed;
  }
  // expect_tx belongs to the name too: it must directly follow these words.
  for (size_t i = fixed + 2; i < tokens.size(); ++i)
    if (tokens[i] == "expect_tx") return false;
  const uint64_t named = (uint64_t(2) << fixed) - 1, all = (uint64_t(1) << tokens.size()) - 1;
  size_t budget = 20000;  // search steps: a limit for hostile texts
  TokenSets sets{named};
  for (; fixed < rest_.parts.size() && !sets.empty(); ++fixed)
    sets = take(rest_.parts[fixed], sets, tokens, budget);
  return sets.contains(all);
}

void Spelling::sample(const Node& n, std::mt19937& random, std::vector<std::string_view>& out) {
  switch (n.kind) {
    case Node::Kind::word:
      out.push_back(n.word);
      return;
    case Node::Kind::sequence:
      for (const Node& part : n.parts) sample(part, random, out);
      return;
    case Node::Kind::at_most_one:
      if (random() % 2) return;
      [[fallthrough]];
    case Node::Kind::one_of:
      sample(n.parts[random() % n.parts.size()], random, out);
      return;
    case Node::Kind::any_order: {
      std::vector<const Node*> order;
      for (const Node& part : n.parts) order.push_back(&part);
      std::shuffle(order.begin(), order.end(), random);
      for (const Node* part : order) sample(*part, random, out);
    }
  }
}

std::vector<std::string_view> Spelling::sample(std::mt19937& random) const {
  std::vector<std::string_view> out{mnemonic_};
  sample(rest_, random, out);
  return out;
}

}  // namespace fp4lab::emu
