// Text of a peer on its way into logs, messages and the store.
#pragma once

#include <string>

namespace espalier {

// At most `most` bytes; whatever is not printable ASCII becomes '?': no forged log lines, no half of a character.
inline std::string printable(std::string text, std::size_t most = 1000) {
  if (text.size() > most) text.resize(most);
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

}  // namespace espalier
