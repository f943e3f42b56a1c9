// SPDX-License-Identifier: Apache-2.0
// The load generator of the benchmarks.  Prints what it has seen as one JSON object.
//
//   load SERVER PORT QUERIES [--seconds N] [--warm-up N] [--rate QPS] [--burst N] [--window N]
//        [--sockets N] [--sources FIRST:COUNT] [--skip N] [--tcp | --sleeps] [--pids PID,...]
//        [--samples FILE] [--watch-core N]
#include <arpa/inet.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bench/load/run.hpp"

namespace meshdns::bench {
namespace {

[[noreturn]] void usage(const std::string& what) {
  std::fprintf(stderr, "load: %s; see tests/bench/load/main.cpp\n", what.c_str());
  std::exit(2);
}

double positive_number(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !(number >= 0) || number > 1e9)
    usage("'" + text + "' is no number");
  return number;
}

unsigned count(const std::string& text) { return static_cast<unsigned>(positive_number(text)); }

in_addr address(const std::string& text) {
  in_addr parsed{};
  if (inet_pton(AF_INET, text.c_str(), &parsed) != 1) usage("'" + text + "' is no IPv4 address");
  return parsed;
}

void set_sources(Options& options, const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) usage("--sources FIRST:COUNT");
  options.first_source = ntohl(address(text.substr(0, colon)).s_addr);
  options.sources = count(text.substr(colon + 1));
}

void set_processes(Options& options, std::string text) {
  for (std::size_t comma = 0; comma != std::string::npos; text.erase(0, comma + 1)) {
    comma = text.find(',');
    options.server_processes.push_back(static_cast<int>(count(text.substr(0, comma))));
    if (comma == std::string::npos) return;
  }
}

void set(Options& options, const std::string& key, const std::string& value) {
  if (key == "--seconds") {
    options.seconds = positive_number(value);
  } else if (key == "--warm-up") {
    options.warm_up_seconds = positive_number(value);
  } else if (key == "--rate") {
    options.rate = positive_number(value);
  } else if (key == "--burst") {
    options.burst = count(value);
  } else if (key == "--window") {
    options.window = count(value);
  } else if (key == "--sockets") {
    options.sockets = count(value);
  } else if (key == "--skip") {
    options.skip = count(value);
  } else if (key == "--sources") {
    set_sources(options, value);
  } else if (key == "--pids") {
    set_processes(options, value);
  } else if (key == "--samples") {
    options.samples = value;
  } else if (key == "--watch-core") {
    options.watched_core = static_cast<int>(count(value));
  } else {
    usage("unknown option " + key);
  }
}

Options parse(int argc, char** argv) {
  if (argc < 4) usage("SERVER PORT QUERIES are needed");
  Options options;
  options.server.sin_family = AF_INET;
  options.server.sin_addr = address(argv[1]);
  options.server.sin_port = htons(static_cast<std::uint16_t>(count(argv[2])));
  options.queries = argv[3];
  for (int i = 4; i < argc; ++i) {
    const std::string key = argv[i];
    if (key == "--tcp") {
      options.tcp = true;
    } else if (key == "--sleeps") {
      options.sleeps = true;
    } else if (i + 1 < argc) {
      set(options, key, argv[++i]);
    } else {
      usage(key + " needs a value");
    }
  }
  if (options.sockets == 0 || options.window == 0 || options.sources == 0 || options.burst == 0 ||
      options.seconds <= 0)
    usage("sockets, window, sources, burst and seconds are above 0");
  if (options.sleeps && (options.tcp || options.rate > 0 || options.sockets != 1))
    usage("--sleeps is for one socket, without --tcp and --rate");
  return options;
}

void print(const Seen& seen, const Meter& meter) {
  std::printf("{\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"machine_cpu_seconds\": %.6f, ",
              meter.seconds(), meter.cpu_seconds(), meter.machine_cpu_seconds());
  std::printf("\"sent\": %llu, \"answered\": %llu, ", static_cast<unsigned long long>(seen.sent),
              static_cast<unsigned long long>(seen.answered));
  std::printf("\"lost\": %llu, \"unexpected\": %llu, \"with_answers\": %llu, \"truncated\": %llu, ",
              static_cast<unsigned long long>(seen.lost),
              static_cast<unsigned long long>(seen.unexpected),
              static_cast<unsigned long long>(seen.with_answers),
              static_cast<unsigned long long>(seen.truncated));
  std::printf("\"noerror\": %llu, \"nxdomain\": %llu, \"servfail\": %llu, \"refused\": %llu, ",
              static_cast<unsigned long long>(seen.rcodes[0]),
              static_cast<unsigned long long>(seen.rcodes[3]),
              static_cast<unsigned long long>(seen.rcodes[2]),
              static_cast<unsigned long long>(seen.rcodes[5]));
  std::printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f",
              static_cast<double>(seen.latency.quantile(0.5)) / 1e3,
              static_cast<double>(seen.latency.quantile(0.99)) / 1e3,
              static_cast<double>(seen.latency.quantile(0.999)) / 1e3);
}

// In microseconds since Options::began.
void print_stalls(const Options& options, bool is_watching, const std::vector<Stall>& stalls) {
  std::printf(", \"watching\": %s, \"stalls_us\": [", is_watching ? "true" : "false");
  const char* separator = "";
  for (const Stall& stall : stalls) {
    const auto since = [&](Clock::time_point time) {
      return std::chrono::duration<double, std::micro>(time - options.began).count();
    };
    std::printf("%s[%.0f, %.0f]", separator, since(stall.begin), since(stall.end));
    separator = ", ";
  }
  std::printf("]}\n");
}

void write_samples(const std::string& path, const std::vector<Sample>& samples) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(samples.data()),
             static_cast<std::streamsize>(samples.size() * sizeof(Sample)));
  if (!file.flush()) usage("cannot write " + path);
}

}  // namespace
}  // namespace meshdns::bench

int main(int argc, char** argv) {
  using namespace meshdns::bench;
  const Options options = parse(argc, argv);
  static Seen seen;
  Meter meter(options.server_processes);
  StallWatch watch(options.watched_core);
  std::vector<Stall> stalls;
  options.tcp ? run_tcp(options, seen, meter) : run_udp(options, seen, meter, stalls);
  watch.stop();
  stalls.insert(stalls.end(), watch.stalls().begin(), watch.stalls().end());
  print(seen, meter);
  print_stalls(options, watch.is_watching(), stalls);
  if (!options.samples.empty()) write_samples(options.samples, seen.samples);
}
