// Inverse-CDF sampling of a token from logits.
#pragma once

#include <cstdint>
#include <vector>

namespace rlcomp {

struct Drawn {
    int64_t token;
    float log_prob;  // nats
};

// Draws from logits [vocabulary], which it overwrites; a token's numbers depend on its row alone.
// The steps are those of rlcomp.engine.decoding.sample, so that it draws the same tokens.
class Draw {
  public:
    // temperature 0 takes the most likely token; `suppressed` are never drawn.
    Draw(int64_t vocabulary, double temperature, const int64_t* suppressed, int64_t count);

    Drawn operator()(float* logits, double uniform);

  private:
    Drawn most_likely(const float* logits) const;
    double cumulate(const float* weights, int64_t count);
    int64_t invert(const float* weights, int64_t count, double uniform) const;

    int64_t vocabulary_;
    double temperature_;
    std::vector<int64_t> suppressed_;
    std::vector<float> weights_, sums_;
    std::vector<double> cumulative_;
};

}  // namespace rlcomp
