// SPDX-License-Identifier: Apache-2.0
// Cuts the objects out of a JSON text that arrives in pieces: the elements of `items` of a list, or
// the events of a watch.  A list of 100,000 objects so needs the memory of one.
//
// Only strings and brackets are followed here; whether a piece is JSON is for the parser to say
// that gets it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace meshdns::registry::kubernetes {

struct CutterLimits {
  std::size_t object_bytes = std::size_t{4} << 20;  // etcd's own limit is 1.5 MiB
  std::size_t envelope_bytes = std::size_t{64} << 10;
  // A longer object, or so much space between objects, is no API server's: the text is given up.
  std::size_t hopeless_bytes = std::size_t{64} << 20;
};

class JsonCutter {
 public:
  enum class Shape : std::uint8_t {
    Sequence,  // objects one after the other
    List,      // one object, of which the elements of `items` are cut
  };
  // The view is good for the call.  Of an object that is longer than the limit, which is then not
  // whole, it is the beginning.
  using Listener = std::function<void(std::string_view object, bool is_whole)>;

  explicit JsonCutter(Shape shape, CutterLimits limits = {}) : limits_(limits), shape_(shape) {}

  // false: the text is not what it should be; nothing is read after that, and why() says why.
  bool feed(std::string_view bytes, const Listener& listener);
  const std::string& why() const { return why_; }

  // The text may end here: nothing of an object, or of the list, is open.
  bool is_complete() const;
  // Of a List: the text without what was cut out, `items` being empty.
  const std::string& envelope() const { return envelope_; }

 private:
  enum class Where : std::uint8_t { Outside, Envelope, Items, Object, Done, Broken };

  bool cannot_be_inside(char c) const;
  bool is_end_of_object(char c);
  void read_envelope(char c);
  bool read_between(char c);
  void take(std::string_view part);
  void finish_object(std::string_view last_part, const Listener& listener);
  void give_up(std::string why);

  CutterLimits limits_;
  Shape shape_;
  Where where_ = Where::Outside;
  bool in_string_ = false;
  bool escaped_ = false;
  std::uint32_t depth_ = 0;  // of brackets within the object, or within the envelope
  std::string object_;       // what is there of an object that came in several pieces
  bool is_oversized_ = false;
  std::string envelope_;
  std::size_t unbroken_bytes_ = 0;  // of the object, or of the space since the last one
  std::string why_;
  std::string key_;  // the latest string of the envelope's own level
};

}  // namespace meshdns::registry::kubernetes
