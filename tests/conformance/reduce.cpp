#include "reduce.h"

#include <algorithm>
#include <map>
#include <optional>
#include <regex>

namespace fp4lab::conformance {

namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// The bits of "%r12" by a declaration ".reg .b32 %r<24>" or ".reg .b32 %r12, %a;".
class Registers {
 public:
  explicit Registers(const Lines& lines) {
    static const std::regex kDeclaration(R"(\.reg\s+\.([a-z]+)(\d*)x?2?\s+([^;]+);)"),
        kName(R"((%?[\w$]+)(<\d+>)?)");
    for (const std::string& line : lines)
      for (auto d = std::sregex_iterator(line.begin(), line.end(), kDeclaration); d != std::sregex_iterator();
           ++d) {
        const std::string kind = (*d)[1], names = (*d)[3];
        const unsigned bits = kind == "pred" ? 1 : unsigned(std::strtoul((*d)[2].str().c_str(), nullptr, 10));
        for (auto n = std::sregex_iterator(names.begin(), names.end(), kName); n != std::sregex_iterator();
             ++n)
          ((*n)[2].matched ? families_ : bits_)[(*n)[1]] = bits;
      }
  }
  unsigned bits(const std::string& name) const {
    if (const auto found = bits_.find(name); found != bits_.end()) return found->second;
    const auto family = families_.find(name.substr(0, name.find_last_not_of("0123456789") + 1));
    return family == families_.end() ? 0 : family->second;
  }

 private:
  std::map<std::string, unsigned> bits_, families_;
};

class Reducer {
 public:
  Reducer(Program p, const std::function<bool(const Program&)>& differs, unsigned tries)
      : p_(std::move(p)), differs_(differs), tries_(tries) {
    p_.slot_lines.clear();
    lines_ = lines_of(p_.text);
  }

  Program run() {
    take_threads_away();
    for (bool again = true; again && tries_;) {
      again = take_lines_out();
      again |= simplify_instructions();
      again |= follow_copies();
    }
    return std::move(p_);
  }

 private:
  bool keep_if_different(const Lines& lines) {
    if (!tries_) return false;
    Program candidate = p_;
    candidate.text = text_of(lines);
    --tries_;
    if (!differs_(candidate)) return false;
    p_ = std::move(candidate), lines_ = lines;
    return true;
  }

  void take_threads_away() {
    const bool wants_whole_warps = p_.text.find(".aligned") != std::string::npos;
    for (const unsigned threads : {1u, 32u}) {
      if (wants_whole_warps && threads < 32) continue;
      Program candidate = p_;
      candidate.ctas = 1, candidate.threads = threads;
      if (threads >= p_.threads || !differs_(candidate)) continue;
      p_ = std::move(candidate);
      return;
    }
  }

  bool take_lines_out() {
    bool shorter = false;
    for (size_t size = std::max<size_t>(lines_.size() / 2, 1);; size /= 2) {
      // From the end: what reads a value goes before what makes it.
      for (size_t end = lines_.size(); end > 0; end = end > size ? std::min(end - size, lines_.size()) : 0) {
        Lines fewer = lines_;
        fewer.erase(fewer.begin() + long(end - std::min(size, end)), fewer.begin() + long(end));
        shorter |= keep_if_different(fewer);
      }
      if (size == 1) return shorter;
    }
  }

  bool simplify_instructions() {
    static const std::regex kInstruction(
        R"(^(\s*)(@!?\S+\s+)?([a-z][\w.:]*)\s+([%\w$]+)\s*,\s*([^;{}\[\]]*);\s*$)");
    bool simpler = false;
    const Registers registers(lines_);
    for (size_t at = lines_.size(); at-- > 0;) {
      std::smatch m;
      const std::string line = lines_[at];
      const auto try_instead = [&](std::string instead) {
        if (instead == line) return false;
        Lines changed = lines_;
        changed[at] = std::move(instead);
        return keep_if_different(changed);
      };
      if (const size_t guard = line.find('@'); guard != line.npos && line.find("bra") == line.npos)
        if (const size_t end = line.find_first_of(" \t", guard); end != line.npos)
          simpler |= try_instead(line.substr(0, guard) + line.substr(end + 1));
      const std::string now = lines_[at];
      if (!std::regex_match(now, m, kInstruction) || m[3].str().starts_with("mov")) continue;
      const unsigned bits = registers.bits(m[4]);
      if (!bits) continue;
      static const std::regex kRegister(R"(%[\w$]+)");
      const std::string sources = m[5];
      for (auto s = std::sregex_iterator(sources.begin(), sources.end(), kRegister);
           s != std::sregex_iterator(); ++s)
        if (registers.bits(s->str()) == bits &&
            try_instead(m[1].str() + m[2].str() +
                        (bits == 1 ? "mov.pred " : "mov.b" + std::to_string(bits) + " ") + m[4].str() + ", " +
                        s->str() + ";")) {
          simpler = true;
          break;
        }
    }
    return simpler;
  }

  // Whoever reads a copy reads what it copies.
  bool follow_copies() {
    static const std::regex kCopy(R"(^\s*mov\.[a-z]\w*\s+(%[\w$]+)\s*,\s*([%\w$]+)\s*;\s*$)");
    bool fewer = false;
    for (size_t at = lines_.size(); at-- > 0;) {
      std::smatch m;
      const std::string line = lines_[at];
      if (!std::regex_match(line, m, kCopy)) continue;
      const std::regex name(m[1].str() + R"((?![\w$]))");
      Lines changed = lines_;
      changed.erase(changed.begin() + long(at));
      for (size_t i = at; i < changed.size(); ++i)
        changed[i] = std::regex_replace(changed[i], name, m[2].str());
      fewer |= keep_if_different(changed);
    }
    return fewer;
  }

  Program p_;
  const std::function<bool(const Program&)>& differs_;
  unsigned tries_;
  Lines lines_;
};

}  // namespace

Program reduce(Program p, const std::function<bool(const Program&)>& differs, unsigned most_tries) {
  return Reducer(std::move(p), differs, most_tries).run();
}

}  // namespace fp4lab::conformance
