// SPDX-License-Identifier: Apache-2.0
#include "resolver/forward/lifetime.hpp"

#include <cassert>

namespace meshdns::dnsd {

RetireList::~RetireList() {
  assert(!is_in_turn() && "the event loop's kit is destroyed inside a callback");
  free_retired();
}

void RetireList::add(Retirable& object) {
  const Turn turn(*this);
  object.next_retired_ = std::exchange(first_, &object);
}

// A destructor may retire more.
void RetireList::free_retired() {
  while (first_ != nullptr) delete std::exchange(first_, first_->next_retired_);
}

Retirable::~Retirable() { clear_weak_links(); }

void Retirable::retire() {
  assert(!is_retired_);
  // Objects that on_retire() lets go of are freed after it, not from inside.
  const RetireList::Turn turn(list_);
  is_retired_ = true;
  clear_weak_links();
  on_retire();
  list_.add(*this);
}

void Retirable::clear_weak_links() {
  while (weak_links_ != nullptr) weak_links_->unlink();
}

// NOLINTNEXTLINE(bugprone-unhandled-self-assignment): its own object is the same.
WeakLink& WeakLink::operator=(const WeakLink& other) {
  if (object_ == other.object_) return *this;
  unlink();
  link(other.object_);
  return *this;
}

void WeakLink::link(Retirable* object) {
  if (object == nullptr || object->is_retired_) return;
  object_ = object;
  next_ = std::exchange(object->weak_links_, this);
  if (next_ != nullptr) next_->previous_ = this;
}

void WeakLink::unlink() {
  if (object_ == nullptr) return;
  (previous_ != nullptr ? previous_->next_ : object_->weak_links_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  object_ = nullptr;
  previous_ = next_ = nullptr;
}

}  // namespace meshdns::dnsd
