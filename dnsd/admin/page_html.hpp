// SPDX-License-Identifier: Apache-2.0
// Pieces of HTML of the status page.  All text is escaped.
#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>

namespace meshdns::dnsd {

// Control octets are escaped as in names, \DDD: a terminal that shows the page would obey them.
std::string escaped(std::string_view text);

// Adds cells to a row of a table.
void add_cells(std::string& page, std::initializer_list<std::string> cells);
// Adds a row of a table.
void add_row(std::string& page, std::initializer_list<std::string> cells, bool bad = false);

// Begins a part of the page with that heading; a wide one takes a line of its own.
void begin_section(std::string& page, std::string_view heading, bool wide = false);
void end_section(std::string& page);

// Begins a part that is a table with these columns.
void begin_table(std::string& page, std::string_view heading,
                 std::initializer_list<std::string_view> columns, bool wide = false);
// Ends both.
void end_table(std::string& page);
// The same; of a table that is cut, `path` has all rows.
void end_table(std::string& page, bool is_cut, std::string_view path);

// The time since then: "35 s", "3 min", "5 h", "12 days".
std::string ago(std::chrono::steady_clock::time_point then);

}  // namespace meshdns::dnsd
