// Inverse-CDF sampling of a token from logits.
#pragma once

#include <cstdint>
#include <vector>

namespace rlcomp {

struct Drawn {
    int64_t token;
    float log_prob;  // nats; 0 for greedy decoding
};

// Draws a token from logits [vocabulary], which it overwrites. The result depends on these logits
// and the uniform number alone. The steps are the steps of rlcomp.engine.draw.sample, so that both
// draw the same tokens.
class Draw {
  public:
    // Temperature 0 takes the most likely token. `suppressed` are `count` tokens that are never
    // drawn.
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
