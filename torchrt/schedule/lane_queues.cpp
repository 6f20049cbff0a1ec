#include "torchrt/schedule/lane_queues.hpp"

namespace espalier::torchrt {

LaneQueues::Key LaneQueues::key(int rank, const Op& op) const {
  if (messages_ == Messages::queues) return {rank, lane_of(op)};
  return {rank, lane_of(op), op.peer, is_receive(op.kind)};
}

LaneQueues::Key LaneQueues::other_side(int rank, const Op& op) const {
  if (messages_ == Messages::queues) return {op.peer, lane_of(op)};
  return {op.peer, lane_of(op), rank, !is_receive(op.kind)};
}

std::vector<LaneQueues::Arrival> LaneQueues::begin(int rank, std::size_t place) {
  const Op& begun = op(rank, place);
  if (begun.peer == rank) {
    std::deque<std::size_t>& sent = to_itself_[{rank, lane_of(begun)}];
    if (!is_receive(begun.kind)) {
      sent.push_back(place);
      return {};
    }
    if (sent.empty()) return {{rank, place, false}};
    const Op& message = op(rank, sent.front());
    sent.pop_front();
    return {arrival(rank, place, message)};
  }
  const Key first_key = key(rank, begun);
  std::deque<std::size_t>& queue = waiting_[first_key];
  queue.push_back(place);
  if (queue.size() > 1) return {};
  std::vector<Arrival> arrivals;
  for (std::vector<Key> keys{first_key}; !keys.empty();) {
    const Key here = keys.back();
    keys.pop_back();
    std::deque<std::size_t>& own = waiting_[here];
    if (own.empty()) continue;
    const Op& first = op(here.rank, own.front());
    const Key there = other_side(here.rank, first);
    std::deque<std::size_t>& others = waiting_[there];
    if (others.empty()) continue;
    const Op& answer = op(there.rank, others.front());
    if (answer.peer != here.rank || is_receive(answer.kind) == is_receive(first.kind)) continue;
    arrivals.push_back(is_receive(first.kind) ? arrival(here.rank, own.front(), answer)
                                              : arrival(there.rank, others.front(), first));
    own.pop_front();
    others.pop_front();
    keys.insert(keys.end(), {here, there});
  }
  return arrivals;
}

LaneQueues::Arrival LaneQueues::arrival(int rank, std::size_t place, const Op& message) const {
  const Op& receive = op(rank, place);
  const bool tied = receive.kind == OpKind::receive_tied;
  const OpKind sent = tied                                       ? OpKind::send_tied
                      : receive.kind == OpKind::receive_gradient ? OpKind::send_gradient
                                                                 : OpKind::send_activation;
  // The chunk before sends an activation, the chunk behind a gradient.
  const int neighbour = tied ? -1 : receive.chunk + (receive.kind == OpKind::receive_gradient ? 1 : -1);
  return {rank, place,
          message.kind == sent && message.micro_batch == receive.micro_batch && message.first == receive.first &&
              message.count == receive.count && message.chunk == neighbour};
}

std::vector<std::string> LaneQueues::left() const {
  std::vector<std::string> sentences;
  for (const Queues* queues : {&waiting_, &to_itself_})
    for (const auto& [key, places] : *queues)
      if (!places.empty())
        sentences.push_back("rank " + std::to_string(key.rank) + ": \"" + describe(op(key.rank, places.front())) +
                            "\" never meets its other side");
  return sentences;
}

}  // namespace espalier::torchrt
