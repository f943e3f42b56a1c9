// SPDX-License-Identifier: Apache-2.0
#include "resolver/wire/types.hpp"

#include <array>
#include <charconv>
#include <string>

#include "registry/base/host_name.hpp"

namespace meshdns::wire {
namespace {

struct TypeName {
  std::uint16_t type;
  std::string_view name;
};

constexpr std::array kTypeNames = {
    TypeName{1, "A"},           TypeName{2, "NS"},          TypeName{5, "CNAME"},
    TypeName{6, "SOA"},         TypeName{12, "PTR"},        TypeName{13, "HINFO"},
    TypeName{15, "MX"},         TypeName{16, "TXT"},        TypeName{17, "RP"},
    TypeName{28, "AAAA"},       TypeName{29, "LOC"},        TypeName{33, "SRV"},
    TypeName{35, "NAPTR"},      TypeName{37, "CERT"},       TypeName{39, "DNAME"},
    TypeName{41, "OPT"},        TypeName{43, "DS"},         TypeName{44, "SSHFP"},
    TypeName{46, "RRSIG"},      TypeName{47, "NSEC"},       TypeName{48, "DNSKEY"},
    TypeName{50, "NSEC3"},      TypeName{51, "NSEC3PARAM"}, TypeName{52, "TLSA"},
    TypeName{53, "SMIMEA"},     TypeName{59, "CDS"},        TypeName{60, "CDNSKEY"},
    TypeName{61, "OPENPGPKEY"}, TypeName{62, "CSYNC"},      TypeName{63, "ZONEMD"},
    TypeName{64, "SVCB"},       TypeName{65, "HTTPS"},      TypeName{99, "SPF"},
    TypeName{250, "TSIG"},      TypeName{251, "IXFR"},      TypeName{252, "AXFR"},
    TypeName{253, "MAILB"},     TypeName{254, "MAILA"},     TypeName{255, "ANY"},
    TypeName{256, "URI"},       TypeName{257, "CAA"},
};

}  // namespace

std::string_view to_string(Rcode rcode) {
  switch (rcode) {
    case Rcode::NoError:
      return "NOERROR";
    case Rcode::FormErr:
      return "FORMERR";
    case Rcode::ServFail:
      return "SERVFAIL";
    case Rcode::NxDomain:
      return "NXDOMAIN";
    case Rcode::NotImp:
      return "NOTIMP";
    case Rcode::Refused:
      return "REFUSED";
    case Rcode::BadVers:
      return "BADVERS";
    case Rcode::BadCookie:
      return "BADCOOKIE";
  }
  // The others that RFC 6895 names; an upstream may send any.
  switch (static_cast<std::uint16_t>(rcode)) {
    case 6:
      return "YXDOMAIN";
    case 7:
      return "YXRRSET";
    case 8:
      return "NXRRSET";
    case 9:
      return "NOTAUTH";
    case 10:
      return "NOTZONE";
    case 11:
      return "DSOTYPENI";
    default:
      return "RESERVED";
  }
}

std::string to_string(Type type) {
  const auto number = static_cast<std::uint16_t>(type);
  for (const TypeName& known : kTypeNames)
    if (known.type == number) return std::string(known.name);
  return "TYPE" + std::to_string(number);
}

bool type_from_string(std::string_view text, Type& type) {
  for (const TypeName& known : kTypeNames) {
    if (!equals_ignoring_case(known.name, text)) continue;
    type = static_cast<Type>(known.type);
    return true;
  }
  if (text.size() < 5 || !equals_ignoring_case(text.substr(0, 4), "TYPE")) return false;
  std::uint16_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 4, end, number);
  if (error != std::errc{} || stop != end) return false;
  type = static_cast<Type>(number);
  return true;
}

}  // namespace meshdns::wire
