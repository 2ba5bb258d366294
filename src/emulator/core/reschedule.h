// Thrown by the core to leave a body whose group was parked where the body cannot return by itself.
#pragma once

namespace fp4lab::emu {
struct Reschedule {};
}  // namespace fp4lab::emu
