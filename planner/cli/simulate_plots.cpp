#include "planner/cli/simulate_plots.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "planner/core/error.hpp"

namespace espalier::cli {
namespace {

constexpr std::size_t kShownPoints = 400;

// Colours that colour-blind readers can distinguish (Okabe and Ito 2008). Dashes distinguish the
// curves on paper.
constexpr std::array kColours{"#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a00"};

// In gnuplot's single-quoted strings the only escape is the doubled quote.
std::string literal(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "''" : c == '\n' ? " " : std::string(1, c);
  return result + "'";
}

std::string script_of(const Plot& plot) {
  std::string script =
      "set terminal svg size 720,400 dynamic font 'Helvetica,14' background '#ffffff'\n"
      "set border 3 lc rgb '#555555'\nset tics nomirror tc rgb '#333333'\nset grid lc rgb '#dddddd' lt 1\n"
      "set key outside right center noenhanced\nset yrange [0:1]\n"
      "set ytics ('0%%' 0, '25%%' 0.25, '50%%' 0.5, '75%%' 0.75, '100%%' 1)\n";
  script += "set title " + literal(plot.title) + " noenhanced\nset xlabel " + literal(plot.x) +
            " noenhanced\nset ylabel " + literal(plot.y) + " noenhanced\n";
  if (plot.log_x) script += "set logscale x\nset format x '%g'\n";
  for (std::size_t c = 0; c < plot.curves.size(); ++c) {
    script += fmt::format("$data{} << EOD\n", c);
    for (const auto& [x, y] : plot.curves[c].points) script += fmt::format("{:.6g} {:.6g}\n", x, y);
    script += "EOD\n";
  }
  script += "plot ";
  for (std::size_t c = 0; c < plot.curves.size(); ++c)
    script += fmt::format("{}$data{} using 1:2 with {} lw 2.2 dt {} lc rgb '{}' title {}", c ? ", " : "", c,
                          plot.steps ? "steps" : "lines", plot.curves[c].style % 5 + 1,
                          kColours[plot.curves[c].style % kColours.size()], literal(plot.curves[c].name));
  return script + "\n";
}

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  Pipe() {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("gnuplot: no pipe to it; leave --report out");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(std::size_t end) {
    if (ends[end] >= 0) ::close(std::exchange(ends[end], -1));
  }
};

// Writes and reads at once, because gnuplot may draw before it has read everything.
std::string converse(Pipe& to, Pipe& from, const std::string& input) {
  std::string output;
  std::size_t written = 0;
  std::array<char, 65536> buffer{};
  while (true) {
    std::array<pollfd, 2> waits{pollfd{from.ends[0], POLLIN, 0}, pollfd{to.ends[1], POLLOUT, 0}};
    if (poll(waits.data(), to.ends[1] >= 0 ? 2 : 1, -1) < 0 && errno != EINTR)
      throw Error("gnuplot: does not answer; leave --report out");
    if (to.ends[1] >= 0 && (waits[1].revents & (POLLOUT | POLLERR)) != 0) {
      const ssize_t sent =
          write(to.ends[1], input.data() + written, std::min<std::size_t>(input.size() - written, 4096));
      written += sent > 0 ? static_cast<std::size_t>(sent) : 0;
      if (sent < 0 || written == input.size()) to.close_end(1);
    }
    if ((waits[0].revents & (POLLIN | POLLHUP)) == 0) continue;
    const ssize_t got = read(from.ends[0], buffer.data(), buffer.size());
    if (got <= 0) return output;
    output.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

std::string run_gnuplot(const std::string& script) {
  Pipe to, from;
  const pid_t child = fork();
  if (child < 0) throw Error("gnuplot: cannot be started; leave --report out");
  if (child == 0) {
    dup2(to.ends[0], STDIN_FILENO);
    dup2(from.ends[1], STDOUT_FILENO);
    execlp("gnuplot", "gnuplot", "-", nullptr);
    _exit(127);
  }
  to.close_end(0);
  from.close_end(1);
  const auto before = signal(SIGPIPE, SIG_IGN);  // if gnuplot ends early, its exit status tells
  const std::string output = converse(to, from, script);
  signal(SIGPIPE, before);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw Error("gnuplot: is not installed; install gnuplot-nox, or leave --report out");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error("gnuplot: could not draw the plots; install gnuplot-nox anew, or leave --report out");
  return output;
}

}  // namespace

Curve distribution(const std::string& name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Curve curve{name, {}, 0};
  const std::size_t step = std::max<std::size_t>(1, values.size() / kShownPoints);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i % step == 0 || i + 1 == values.size())
      curve.points.emplace_back(values[i], static_cast<double>(i + 1) / static_cast<double>(values.size()));
  return curve;
}

Curve utilization(const sim::PolicyRun& run, double until, int slots) {
  Curve curve{run.policy, {}, 0};
  std::vector<double> held(static_cast<std::size_t>(slots), 0);
  const double width = until / slots;
  for (std::size_t i = 0; i < run.levels.size(); ++i) {
    double begin = run.levels[i].time;
    const double end = std::min(until, i + 1 < run.levels.size() ? run.levels[i + 1].time : until);
    while (begin < end) {
      const auto slot = std::min(held.size() - 1, static_cast<std::size_t>(begin / width));
      const double stop = std::min(end, std::max(width * static_cast<double>(slot + 1), begin + 1e-9 * until));
      held[slot] += (stop - begin) * run.levels[i].gpus;
      begin = stop;
    }
  }
  for (std::size_t slot = 0; slot < held.size(); ++slot)
    curve.points.emplace_back(width * (static_cast<double>(slot) + 0.5) / 3600, held[slot] / (width * run.gpus));
  return curve;
}

std::string draw(const Plot& plot) {
  const std::string text = run_gnuplot(script_of(plot));
  const std::size_t begin = text.find("<svg");
  if (begin == std::string::npos) throw Error("gnuplot: drew nothing; install gnuplot-nox anew, or leave --report out");
  return text.substr(begin);
}

}  // namespace espalier::cli
