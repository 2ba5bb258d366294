// The page of fp4lab report --html, as text and as a browser shows it.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../command.h"
#include "../skip.h"

namespace {

namespace fs = std::filesystem;

struct Scratch {
  fs::path folder = fs::temp_directory_path() / ("fp4lab-html-" + std::to_string(getpid()));
  Scratch() { fs::create_directories(folder); }
  ~Scratch() { fs::remove_all(folder); }
  std::string file(const char* name) const { return (folder / name).string(); }
};

Outcome report(const std::string& arguments) {
  return run_command("'" + (fs::read_symlink("/proc/self/exe").parent_path() / "fp4lab").string() +
                     "' report " + arguments + " 2>&1");
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

// Points of a sweep, measured and predicted, one that failed, a benchmark with a peer, all with names that
// are HTML.
std::string records() {
  std::string text;
  const char* us[] = {"21.5", "9.25", "100.75"};
  for (int i = 0; i < 3; ++i)
    text +=
        std::string(R"({"type":"sweep","case":"g2k1536","arch":"sm_90a","device":"NVIDIA H200",)") +
        R"("kernel":"<v1>&\"'</script>","plan":"stages=)" + std::to_string(i) +
        R"(","swept":["stages"],"knobs":{"stages":")" + std::to_string(i) +
        R"("},"passed":true,"predicted":{"predicted_us":8.5,"us":8.5,"interval_low_us":7.25,)" +
        R"("interval_high_us":9.75,"machine":"H200","sm_mhz":1980.0,"validation":"validated"},"us":{"median":)" +
        us[i] + R"(,"p10":9.0,"p90":101.0}})" + "\n";
  return text +
         R"({"type":"sweep","case":"g2k1536","kernel":"v2","plan":"stages=9","swept":["stages"],"knobs":{"stages":"9"},"passed":false,"error":"<b>deadlock</b>"})"
         "\n"
         R"({"type":"time","case":"g2k1536","kernel":"cublas-fp16","peer":true,"flops":6e9,"device":"NVIDIA H200","us":{"median":12.5,"p10":12.0,"p90":13.0},"passed":true})"
         "\n";
}

}  // namespace

TEST_CASE("html: a report's page has what the records say, as text") {
  const Scratch scratch;
  const std::string file = scratch.file("s&<i>.json"), page = scratch.file("p.html");
  std::ofstream(file) << records();
  const Outcome o = report("'" + file + "' --html " + page);
  INFO(o.text);
  REQUIRE(o.status == 0);
  CHECK(o.says("5 records, 1 failed"));
  const std::string text = text_of(page);
  CHECK(text.size() < 6'000'000);
  CHECK(holds(text, "s&amp;&lt;i&gt;.json"));
  CHECK(holds(text, "&lt;v1&gt;&amp;&quot;&#39;&lt;/script&gt;"));
  CHECK(holds(text, "&lt;b&gt;deadlock&lt;/b&gt;"));
  CHECK_FALSE(holds(text, "<v1>"));
  CHECK_FALSE(holds(text, "<b>deadlock"));
  CHECK(holds(text, "8.50 us (7.25 to 9.75)"));  // a prediction stands with its interval
  CHECK(holds(text, "predicted 80 %"));
  for (const char* outside : {"src=", "@import", "url(", "fetch("}) CHECK_FALSE(holds(text, outside));
  // The data ends where its script does.
  const size_t data = text.find("id=data>"), end = text.find("</script>", data);
  REQUIRE(end != text.npos);
  CHECK(text.compare(end + 9, 9, "\n<script>") == 0);

  CHECK(report("'" + file + "' --html " + page).status == 0);  // a page is replaced,
  std::ofstream(scratch.file("mine")) << "a text that is longer than the mark of a page of this command\n";
  CHECK(report("'" + file + "' --html " + scratch.file("mine"))
            .says("something else than a page of this command"));  // no more
  CHECK(holds(text_of(scratch.file("mine")), "a text"));
  CHECK(report("'" + file + "' --html '" + file + "'").says("cannot go to a file that this command reads"));
  CHECK(text_of(file) == records());
  CHECK(report("'" + file + "' --timeline").says("--timeline needs --html"));
  CHECK(report("'" + file + "' --top 3 --html " + scratch.file("top.html")).says("without --top and --csv"));
  CHECK(report("'" + file + "' --html /nowhere/p.html").says("cannot be written"));
}

TEST_CASE("html: the timeline is of the emulator, and says that steps are no time") {
  const Scratch scratch;
  const std::string file = scratch.file("r.json"), page = scratch.file("p.html");
  std::ofstream(file)
      << R"({"type":"run","case":"group:100/128/512","arch":"sm_100a","kernel":"v2_warp_specialized","plan":"128x128x256 stages=2 scale_slots=2 roles=specialized group_capacity=1","passed":true})"
      << "\n";
  const Outcome o = report(file + " --html " + page + " --timeline");
  INFO(o.text);
  REQUIRE(o.status == 0);
  const std::string text = text_of(page);
  CHECK_FALSE(holds(text, "No timeline"));
  CHECK(holds(text, ": load<"));
  CHECK(holds(text, ": MMA<"));
  CHECK(holds(text, "class=waits"));
  CHECK(holds(text, "Emulator steps, not time"));
}

TEST_CASE("html: a browser sorts the table, draws, reports no error, and is allowed no request") {
  if (run_command("command -v chromium").status) FP4LAB_SKIP("no headless browser (chromium)");
  const Scratch scratch;
  const std::string file = scratch.file("s.json"), page = scratch.file("p.html");
  std::ofstream(file) << records();
  REQUIRE(report(file + " --html " + page).status == 0);
  // A click on a heading, twice on another; the error at the end shows that errors are heard.
  std::ofstream(page, std::ios::app) << R"(<script>
const heading = (name) => all('[data-sweep] th').find((th) => th.textContent === name);
const column = () => all('[data-sweep] tbody tr').map((tr) => tr.cells[heading('us').cellIndex].textContent).join(' ');
heading('us').click(); const up = column();
heading('us').click(); const down = column();
all('input')[0].value = '21.50'; all('input')[0].dispatchEvent(new Event('input'));
const left = all('[data-sweep] tbody tr').filter((tr) => !tr.hidden).length;
document.title = `up ${up}; down ${down}; left ${left}; marks ${all('[data-chart=sweep] .mark').length}; roofs ${all('[data-chart=roofline] .mark').length}`;
console.error('this one is heard');
</script>)";
  const Outcome o = run_command(
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir='" +
      scratch.file("profile") + "' --enable-logging=stderr --dump-dom 'file://" + page + "' 2>&1");
  std::string said;
  size_t errors = 0;
  for (size_t at = 0; (at = o.text.find("CONSOLE", at)) != o.text.npos; ++at, ++errors)
    said += o.text.substr(at, o.text.find('\n', at) - at) + "\n";
  INFO(said);
  CHECK(errors == 1);
  CHECK(holds(said, "this one is heard"));
  const size_t title = o.text.find("<title>");
  REQUIRE(title != o.text.npos);
  const std::string got = o.text.substr(title, o.text.find("</title>") - title);
  CHECK(got == "<title>up 9.25 21.50 100.75 -; down 100.75 21.50 9.25 -; left 1; marks 2; roofs 3");
}
