// When a turn ends: with a stop token, or with the token that completes a stop text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rlcomp {

// Byte strings one behind the other, and where each ends.
struct Texts {
    const char* bytes;
    const int64_t* ends;
    int64_t count;

    std::string_view at(int64_t n) const {
        const int64_t begin = n ? ends[n - 1] : 0;
        return {bytes + begin, static_cast<size_t>(ends[n] - begin)};
    }
};

// A stop text is searched in the bytes of what a row sampled, for tokens need not end where it does.
class Stops {
  public:
    // `table`: the bytes of each token, read only where there are texts.
    Stops(const int64_t* tokens, int64_t count, const Texts& texts, const Texts& table)
        : tokens_(tokens, tokens + count), texts_(texts), table_(table) {
        for (int64_t n = 0; n < texts.count; ++n) longest_ = std::max(longest_, texts.at(n).size());
    }

    // Whether a token ends a row; `tail` holds the bytes in which a stop text may have begun.
    bool ends(int64_t token, std::string& tail) const {
        if (std::find(tokens_.begin(), tokens_.end(), token) != tokens_.end()) return true;
        if (!texts_.count) return false;
        tail += table_.at(token);
        for (int64_t n = 0; n < texts_.count; ++n)
            if (tail.find(texts_.at(n)) != std::string::npos) return true;
        const size_t kept = longest_ - 1;
        if (tail.size() > kept) tail.erase(0, tail.size() - kept);
        return false;
    }

  private:
    std::vector<int64_t> tokens_;
    Texts texts_, table_;
    size_t longest_ = 1;
};

}  // namespace rlcomp
