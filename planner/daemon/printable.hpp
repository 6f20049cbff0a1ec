// Makes a peer's text safe for logs, messages and the store.
#pragma once

#include <string>

namespace espalier {

// At most `most` bytes. Every byte that is not printable ASCII becomes '?'. The text can then forge
// no log line and hold no half of a character.
inline std::string printable(std::string text, std::size_t most = 1000) {
  if (text.size() > most) text.resize(most);
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

}  // namespace espalier
