// vprintf, __assertfail, malloc and free (CUDA C++ Programming Guide, "Formatted Output", "Assertion"), and
// the device runtime's cudaGraphSetConditional.
#include "emulator/op/builtins.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "emulator/core/machine.h"
#include "emulator/op/device_heap.h"
#include "fp4lab/error.h"

namespace fp4lab::emu {

namespace {

constexpr size_t kMaxText = 1 << 16;  // of one string; a longer one most likely lacks its terminator

template <class T>
T argument(Warp& w, const Instr& i, const Function& callee, unsigned n, unsigned lane) {
  const Parameter& p = callee.params.at(n);
  if (p.size != sizeof(T))
    fail("argument {} of {} has {} bytes, {} are expected", n + 1, callee.name, p.size, sizeof(T));
  T v;
  std::memcpy(&v, w.memory(i, Space::param, AccessKind::read, p.offset, sizeof(T), lane), sizeof(T));
  return v;
}

// A zero-terminated string in memory of the kernel.
std::string string_at(Warp& w, const Instr& i, uint64_t address, unsigned lane) {
  if (address == 0) return "(null)";
  std::string text;
  for (; text.size() < kMaxText; ++address) {
    const char c = char(*w.memory(i, Space::generic, AccessKind::read, address, 1, lane));
    if (c == 0) return text;
    text += c;
  }
  fault(FaultKind::illegal_address, lane, "a string without a terminator");
}

// The next argument from vprintf's buffer, where each is at its natural alignment.
template <class T>
T take(Warp& w, const Instr& i, uint64_t& at, unsigned lane) {
  at = (at + sizeof(T) - 1) & ~uint64_t(sizeof(T) - 1);
  T v;
  std::memcpy(&v, w.memory(i, Space::generic, AccessKind::read, at, sizeof(T), lane), sizeof(T));
  at += sizeof(T);
  return v;
}

template <class... A>
std::string printed(const std::string& format, A... a) {
  char buffer[512];
  const int n = std::snprintf(buffer, sizeof buffer, format.c_str(), a...);
  return {buffer, size_t(std::min(n < 0 ? 0 : n, int(sizeof buffer) - 1))};
}

// One conversion, "%-5.2f", with the host's flags, width and precision; `*` takes an int argument.
std::string convert(Warp& w, const Instr& i, const char*& f, uint64_t& at, unsigned lane, unsigned& count) {
  std::string spec = "%";
  while (*f && std::strchr("-+ #0", *f)) spec += *f++;
  const auto number = [&] {
    if (*f == '*') {
      spec += std::to_string(take<int32_t>(w, i, at, lane));
      ++f;
    }
    while (*f >= '0' && *f <= '9') spec += *f++;
  };
  number();
  if (*f == '.') {
    spec += *f++;
    number();
  }
  bool wide = false;
  while (*f && std::strchr("hljztL", *f))
    wide = wide || *f == 'l' || *f == 'j' || *f == 'z' || *f == 't', ++f;
  const char c = *f ? *f++ : '%';
  ++count;
  switch (c) {
    case '%':
      --count;
      return "%";
    case 'd':
    case 'i':
      return wide ? printed(spec + "lld", static_cast<long long>(take<int64_t>(w, i, at, lane)))
                  : printed(spec + c, take<int32_t>(w, i, at, lane));
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return wide ? printed(spec + "ll" + c, static_cast<unsigned long long>(take<uint64_t>(w, i, at, lane)))
                  : printed(spec + c, take<uint32_t>(w, i, at, lane));
    case 'c':
      return printed(spec + c, take<int32_t>(w, i, at, lane));
    case 'p':
      return printed(spec + c, reinterpret_cast<void*>(take<uint64_t>(w, i, at, lane)));
    case 's':
      return printed(spec + c, string_at(w, i, take<uint64_t>(w, i, at, lane), lane).c_str());
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return printed(spec + c, take<double>(w, i, at, lane));
    default:
      fault(FaultKind::absent, lane, "printf conversion %{} is not implemented", c);
  }
}

// int vprintf(const char* format, void* arguments): the number of arguments taken, -1 without a format.
void print(Warp& w, const Instr& i, const Function& callee, unsigned lane) {
  const uint64_t format_at = argument<uint64_t>(w, i, callee, 0, lane);
  uint64_t at = argument<uint64_t>(w, i, callee, 1, lane);
  const std::string format = string_at(w, i, format_at, lane);
  std::string text;
  unsigned count = 0;
  for (const char* f = format.c_str(); *f;) {
    if (*f != '%')
      text += *f++;
    else
      text += convert(w, i, ++f, at, lane, count);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (callee.results.empty()) return;
  const int32_t result = format_at ? int32_t(count) : -1;
  std::memcpy(w.memory(i, Space::param, AccessKind::write, callee.results[0].offset, 4, lane), &result, 4);
}

// __assertfail(message, file, line, function, character size)
void assert_failed(Warp& w, const Instr& i, const Function& callee, unsigned lane) {
  const auto text = [&](unsigned n) {
    return string_at(w, i, argument<uint64_t>(w, i, callee, n, lane), lane);
  };
  fault(FaultKind::assertion, lane, "{}:{}: {}: assertion `{}` failed", text(1),
        argument<uint32_t>(w, i, callee, 2, lane), text(3), text(0));
}

}  // namespace

void call_builtin(Warp& w, const Instr& i, const Function& callee) {
  // The heap belongs to the whole device, so its calls run in the serial phase.
  const bool allocates = callee.name == "malloc", frees = callee.name == "free";
  if ((allocates || frees) && !w.in_serial_phase()) {
    w.block({Wait::Kind::serial, 0, 0, nullptr});
    return;
  }
  for (uint32_t lanes = w.active; lanes; lanes &= lanes - 1) {
    const unsigned lane = unsigned(std::countr_zero(lanes));
    if (allocates) {
      const uint64_t at = device_malloc(w.cta.cluster.grid.memory, argument<uint64_t>(w, i, callee, 0, lane));
      std::memcpy(w.memory(i, Space::param, AccessKind::write, callee.results.at(0).offset, 8, lane), &at, 8);
    } else if (frees) {
      const uint64_t at = argument<uint64_t>(w, i, callee, 0, lane);
      if (!device_free(w.cta.cluster.grid.memory, at))
        fault(FaultKind::trap, lane,
              "free({:#x}): malloc did not return this address, or it was freed already", at);
    } else if (callee.name == "cudaGraphSetConditional") {
      // The handle contains the condition's address (driver/graph_conditional.cpp).
      const auto handle = argument<uint64_t>(w, i, callee, 0, lane);
      const auto value = argument<uint32_t>(w, i, callee, 1, lane);
      std::memcpy(w.memory(i, Space::global, AccessKind::write, handle, sizeof value, lane), &value,
                  sizeof value);
    } else if (callee.name == "vprintf")
      print(w, i, callee, lane);
    else if (callee.name == "__assertfail")
      assert_failed(w, i, callee, lane);
    else if (callee.name.starts_with(kTooDeep))
      fault(FaultKind::illegal_address, lane, "recursion: {}", callee.name);
    else
      fail("call of {}, which is not implemented", callee.name);
  }
}

}  // namespace fp4lab::emu
