// SPDX-License-Identifier: Apache-2.0
#include "dnsd/config/sections.hpp"

#include <set>

#include "dnsd/config/value_codecs.hpp"

namespace meshdns::dnsd::schema {
namespace {

using namespace std::chrono_literals;

Codec<TcpConfig> tcp() {
  return section<TcpConfig>({
      field("max_connections", &TcpConfig::max_connections, number(1, 1'000'000)),
      field("max_connections_per_client", &TcpConfig::max_connections_per_client,
            number(1, 1'000'000)),
      field("idle_timeout", &TcpConfig::idle_timeout, duration(100ms, 1h)),
  });
}

Codec<RateLimitConfig> rate_limit() {
  return section<RateLimitConfig>({
      field("responses_per_second", &RateLimitConfig::responses_per_second, number(0, 1'000'000)),
      field("slip", &RateLimitConfig::slip, number(0, 100)),
      field("ipv4_prefix", &RateLimitConfig::ipv4_prefix, number(8, 32)),
      field("ipv6_prefix", &RateLimitConfig::ipv6_prefix, number(16, 128)),
  });
}

Codec<CookiesConfig> cookies() {
  return section<CookiesConfig>({
      field("mode", &CookiesConfig::mode, enumeration<CookieMode>()),
      field("secret_file", &CookiesConfig::secret_file, text()),
  });
}

// Port 0 may be repeated: each is a free port of its own.
std::string complain_about_repetition(const std::vector<SocketAddress>& addresses) {
  std::set<SocketAddress> seen;
  for (const SocketAddress& address : addresses)
    if (address.port != 0 && !seen.insert(address).second)
      return in_quotes(address.to_string()) + " is listed twice";
  return "";
}

// A path of 107 bytes fits into a Unix socket's name; it is renamed from one that ends in ".new".
constexpr std::size_t kMaxHandoverPath = 103;

std::string complain_about_handover(const std::string& path) {
  if (path.empty() || path.starts_with('/')) return "";
  return "write an absolute path, such as \"/run/meshdns/handover.sock\"";
}

std::string complain_about_maps(const std::string& path) {
  if (path.starts_with('/')) return "";
  return "write an absolute path, such as \"/run/meshdns.bpf/maps\"";
}

std::string complain_about_tls(const AdminConfig& admin) {
  if (admin.metrics_cert_file.empty() == admin.metrics_key_file.empty()) return "";
  return "metrics_cert_file and metrics_key_file go together; name both files or none";
}

Codec<QueryLogConfig> query_log() {
  return section<QueryLogConfig>({
      field("class", &QueryLogConfig::query_class, enumeration<QueryLogClass>()),
      field("sample", &QueryLogConfig::sample, share()),
  });
}

}  // namespace

Codec<ServerConfig> server() {
  const auto listen = checked(non_empty(list(listen_address()), R"(write ["127.0.0.1:53"])"),
                              complain_about_repetition);
  return section<ServerConfig>({
      field("listen", &ServerConfig::listen, listen),
      field("workers", &ServerConfig::workers, number(0, 1024)),
      field("allow", &ServerConfig::allow,
            non_empty(list(prefix()), R"(write ["0.0.0.0/0", "::/0"] for all clients)")),
      field("chaos", &ServerConfig::chaos, enumeration<ChaosAccess>()),
      field("tcp", &ServerConfig::tcp, tcp()),
      field("nsid", &ServerConfig::nsid, text(128)),
      field("cpu_affinity", &ServerConfig::cpu_affinity, boolean()),
      field("rate_limit", &ServerConfig::rate_limit, rate_limit()),
      field("cookies", &ServerConfig::cookies, cookies()),
      field("lameduck", &ServerConfig::lameduck, duration(0ms, 5min)),
      field("handover", &ServerConfig::handover,
            checked(text(kMaxHandoverPath), complain_about_handover)),
      field("watch_config", &ServerConfig::watch_config, boolean()),
      field("kernel_answers", &ServerConfig::kernel_answers, enumeration<KernelAnswersMode>()),
      field("kernel_maps", &ServerConfig::kernel_maps, checked(text(), complain_about_maps)),
      field("core_dumps", &ServerConfig::core_dumps, boolean()),
  });
}

Codec<AdminConfig> admin() {
  const auto keys = section<AdminConfig>({
      field("listen", &AdminConfig::listen, optional(admin_address())),
      field("token_file", &AdminConfig::token_file, text()),
      field("metrics_listen", &AdminConfig::metrics_listen, optional(admin_address())),
      field("metrics_cert_file", &AdminConfig::metrics_cert_file, text()),
      field("metrics_key_file", &AdminConfig::metrics_key_file, text()),
      field("metrics_password_file", &AdminConfig::metrics_password_file, text()),
  });
  return checked(keys, complain_about_tls);
}

Codec<LogConfig> log() {
  return section<LogConfig>({
      field("level", &LogConfig::level, enumeration<LogLevel>()),
      field("format", &LogConfig::format, enumeration<LogFormat>()),
      field("queries", &LogConfig::queries, query_log()),
      field("dnstap", &LogConfig::dnstap, optional(dnstap_target())),
  });
}

}  // namespace meshdns::dnsd::schema
