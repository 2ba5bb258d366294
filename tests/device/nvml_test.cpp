#include "fp4lab/nvml.h"

#include <doctest/doctest.h>

using namespace fp4lab;

TEST_CASE("nvml: absent or of no use, it says so and reads nothing") {
  const Device device = Device::open("emulator", "sm_100a");
  const Nvml none(device, "libnot-there.so.1");
  CHECK_FALSE(none.present());
  CHECK(none.why().find("libnot-there.so.1") != std::string::npos);
  CHECK(none.read().sm_mhz == -1);
  CHECK(none.driver_version().empty());
  const Nvml other(device, "libm.so.6");
  CHECK_FALSE(other.present());
  CHECK(other.why().find("is not NVML") != std::string::npos);
}

TEST_CASE("nvml: reasons for lower clocks have names; readings become a span") {
  CHECK(slowdown_names(0) == "none");
  CHECK(slowdown_names(-1) == "unknown");
  CHECK(slowdown_names(0x44) == "power cap, thermal (hardware)");
  CHECK(slowdown_names(0x1000) == "0x1000");
  const GpuSpan span = span_of({{1980, 3201, 300, 40, 0}, {1755, 3201, 690, 44, 4}, {1800, -1, -1, -1, -1}});
  CHECK(span.readings == 3);
  CHECK(span.sm_mhz_min == 1755);
  CHECK(span.sm_mhz_median == 1800);
  CHECK(span.sm_mhz_max == 1980);
  CHECK(span.memory_mhz == 3201);
  CHECK(span.watts_max == 690);
  CHECK(span.slowdown == 4);
  CHECK(span_of({}).sm_mhz_max == -1);
}
