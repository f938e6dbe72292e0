#include "runtime/comm/ranks/world.h"

#include <cstring>
#include <fmt/format.h>
#include <span>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

void put(std::string& bytes, int64_t number) { bytes.append(reinterpret_cast<const char*>(&number), sizeof number); }

void put(std::string& bytes, const std::string& text) {
  put(bytes, static_cast<int64_t>(text.size()));
  bytes += text;
}

// Reads data written by `put`.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  int64_t number() {
    int64_t number = 0;
    if (at_ + sizeof number <= bytes_.size()) {
      std::memcpy(&number, bytes_.data() + at_, sizeof number);
    }
    at_ += sizeof number;
    return number;
  }
  std::string text() {
    const auto size = static_cast<size_t>(number());
    const std::string text = at_ <= bytes_.size() ? bytes_.substr(at_, size) : "";
    at_ += size;
    return text;
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

}  // namespace

std::string pack(const Result<std::string>& said) {
  std::string bytes;
  put(bytes, said.ok() ? 1 : 0);
  if (said.ok()) {
    return bytes + *said;
  }
  const Error& error = said.error();
  put(bytes, static_cast<int64_t>(error.kind));
  put(bytes, error.code);
  put(bytes, error.message);
  put(bytes, error.help);
  put(bytes, error.span.file);
  put(bytes, error.span.begin);
  put(bytes, error.span.end);
  put(bytes, std::ssize(error.notes));
  for (const std::string& note : error.notes) {
    put(bytes, note);
  }
  return bytes;
}

Result<std::string> unpack(const std::string& bytes) {
  Reader reader(bytes);
  if (reader.number() == 1) {
    return bytes.substr(sizeof(int64_t));
  }
  Error error;
  error.kind = static_cast<ErrorKind>(reader.number());
  error.code = reader.text();
  error.message = reader.text();
  error.help = reader.text();
  error.span.file = static_cast<int32_t>(reader.number());
  error.span.begin = static_cast<uint32_t>(reader.number());
  error.span.end = static_cast<uint32_t>(reader.number());
  for (int64_t notes = reader.number(); notes > 0; --notes) {
    error.notes.push_back(reader.text());
  }
  return error;
}

Result<std::unique_ptr<World>> World::join(std::function<std::unique_ptr<Messenger>(std::string&)> make,
                                           const std::string& host, bool direct) {
  std::unique_ptr<World> world(new World());
  XRUN_ASSIGN(world->network_, Network::start(std::move(make)));
  world->hosts_.resize(static_cast<size_t>(world->count()), "?");
  world->hosts_[static_cast<size_t>(world->rank())] = host;
  world->channel_ = world->network_->open(*world);
  if (const auto hosts = world->gather(host); !hosts.ok()) {
    return hosts.error();
  }
  XRUN_TRY(world->find_neighbours(direct));
  return world;
}

// Finds the ranks of this host whose memory this rank can read and to which it can send wake-ups. Each rank publishes
// an id of its process and the name of its wake-up, tries those of the other ranks on its host, and publishes which
// ranks it can reach.
Status World::find_neighbours(bool direct) {
  const auto size = static_cast<size_t>(count());
  memories_.resize(size);
  readers_.resize(size, false);
  const std::string& wake_up = network_->wake_up().name();
  XRUN_ASSIGN(const auto places, gather(direct ? wake_up + "\n" + PeerMemory::own_place() : "\n"));
  std::vector<std::string> wake_ups(size);
  std::string seen(2 * size, '0');
  for (size_t other = 0; other < size; ++other) {
    if (static_cast<int>(other) == rank() || hosts_[other] != hosts_[static_cast<size_t>(rank())]) {
      continue;
    }
    const size_t end = std::min(places[other].find('\n'), places[other].size());
    const std::string theirs = places[other].substr(0, end);
    memories_[other] = direct ? PeerMemory::open(places[other].substr(end)) : std::nullopt;
    wake_ups[other] = direct && network_->wake_up().send(theirs) ? theirs : "";
    seen[2 * other] = memories_[other] ? '1' : '0';
    seen[2 * other + 1] = wake_ups[other].empty() ? '0' : '1';
  }
  XRUN_ASSIGN(const auto all, gather(seen));
  const auto mine = 2 * static_cast<size_t>(rank());
  bool all_wake = true;
  for (size_t other = 0; other < size; ++other) {
    const bool told = all[other].size() == 2 * size;
    readers_[other] = told && all[other][mine] == '1';
    all_wake = all_wake && (static_cast<int>(other) == rank() || (told && all[other][mine + 1] == '1'));
  }
  network_->use_wake_ups(std::move(wake_ups), all_wake);
  return {};
}

World::~World() { end(); }  // before members that the network's thread uses are destroyed

void World::end() {
  if (network_ != nullptr) {
    if (!left_) {
      leave();
    }
    network_->stop();
  }
}

void World::leave(const std::optional<Error>& error) {
  left_ = true;
  say(error ? *error : world_error("XG0834", "it ended before the other ranks", "read its earlier messages"), true);
}

std::string World::name(int rank) const {
  return fmt::format("rank {} on {}", rank, hosts_[static_cast<size_t>(rank)]);
}

std::string World::spread() const {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& host : hosts_) {
    bool known = false;
    for (auto& [name, ranks] : counts) {
      known = known || name == host;
      ranks += name == host ? 1 : 0;
    }
    if (!known) {
      counts.emplace_back(host, 1);
    }
  }
  std::string text;
  for (const auto& [name, ranks] : counts) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", ranks, name);
  }
  return text;
}

// Adds the name of the rank to an error from it, unless the message already begins with a rank.
Error World::from_rank(int rank, Error error) const {
  if (!error.message.starts_with("rank ")) {
    error.message = fmt::format("{}: {}", name(rank), error.message);
  }
  return error;
}

// Sends a text or an error to all other ranks. The message starts with the number of the round and with `last`: whether
// this rank sends no further texts.
void World::say(const Result<std::string>& mine, bool last) {
  std::string bytes;
  put(bytes, round_);
  put(bytes, last ? 1 : 0);
  bytes += pack(mine);
  {
    const std::lock_guard lock(mutex_);
    const auto body = std::as_bytes(std::span(bytes));
    for (int to = 0; to < count(); ++to) {
      Message message(kNetworkHeader);
      message.insert(message.end(), body.begin(), body.end());
      outgoing_.push_back(std::move(message));
    }
  }
  network_->wake();
}

Result<std::vector<std::string>> World::gather(Result<std::string> mine) {
  if (!mine.ok() && failed_ && failed_->message == mine.error().message) {
    return *failed_;
  }
  say(mine);
  std::unique_lock lock(mutex_);
  const int64_t round = round_++;
  auto& texts = texts_[round];
  texts.insert_or_assign(rank(), std::move(mine));
  waiting_ = true;
  const auto size = static_cast<size_t>(count());
  // Waits until every rank has sent its text, or will send no more.
  changed_.wait(lock, [&] {
    if (lost_ || texts.size() == size) {
      return true;
    }
    for (int rank = 0; rank < count(); ++rank) {
      if (!texts.contains(rank) && !gone_.contains(rank)) {
        return false;
      }
    }
    return true;
  });
  waiting_ = false;
  std::vector<std::string> all;
  std::optional<Error> error;
  for (int rank = 0; rank < count() && !error; ++rank) {
    const auto said = texts.find(rank);
    if (said != texts.end() && said->second.ok()) {
      all.push_back(std::move(said->second).value());
      continue;
    }
    const auto gone = gone_.find(rank);
    if (said != texts.end() || gone != gone_.end()) {
      error = from_rank(rank, said != texts.end() ? said->second.error() : gone->second);
      failed_ = error;
      failed_rank_ = rank;
    }
  }
  texts_.erase(round);
  if (error) {
    return *std::move(error);
  }
  return lost_ ? Result<std::vector<std::string>>(*lost_) : std::move(all);
}

Outcome World::agree(Outcome mine) {
  const bool stop = mine.stop;
  const std::string word = std::string(stop ? "stop" : "") + (mine.skipped ? " skipped" : "");
  auto all = gather(mine.status.ok() ? Result<std::string>(word) : std::move(mine.status).error());
  if (!all.ok()) {
    return {.status = std::move(all).error(), .stop = stop};
  }
  Outcome outcome;
  for (const std::string& said : *all) {
    outcome.stop = outcome.stop || said.starts_with("stop");
    outcome.skipped = outcome.skipped || said.ends_with("skipped");
  }
  return outcome;
}

void World::on_message(int from, Message message) {
  int64_t head[2] = {};  // number of the round and `last`: see `say`
  std::memcpy(head, message.data() + kNetworkHeader, sizeof head);
  const auto body = std::span(message).subspan(kNetworkHeader + sizeof head);
  Result<std::string> said = unpack({reinterpret_cast<const char*>(body.data()), body.size()});
  const bool last = head[1] == 1;
  std::optional<Error> error;
  {
    const std::lock_guard lock(mutex_);
    if (!said.ok() && (last || said.error().kind != ErrorKind::kInterrupted)) {
      error = from_rank(from, said.error());
    }
    if (last) {
      gone_.insert_or_assign(from, said.error());
    } else {
      if (head[0] == 0 && said.ok()) {
        hosts_[static_cast<size_t>(from)] = *said;  // set at once, since an error in the next message contains it
      }
      texts_[head[0]].insert_or_assign(from, std::move(said));
    }
    changed_.notify_all();
  }
  if (error) {
    // Without this call, channel ends that expect blocks of that rank would wait forever. The call is not made for a
    // rank that was only interrupted, since that rank still saves together with the others.
    network_->give_up(*error);
  }
}

void World::work() {
  std::vector<Message> messages;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(outgoing_);
  }
  const auto ranks = static_cast<size_t>(count());
  for (size_t i = 0; i < messages.size(); ++i) {
    if (const auto to = static_cast<int>(i % ranks); to != rank()) {
      network_->send(channel_, to, std::move(messages[i]));
    }
  }
}

void World::on_error(const Error& error, bool lost) {
  if (lost) {
    const std::lock_guard lock(mutex_);
    lost_ = error;
    changed_.notify_all();
  }
}

bool World::waits() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

}  // namespace xrun::runtime
