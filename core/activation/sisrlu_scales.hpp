// The two factors of self-normalising ISRLU, which follow from alpha.
#pragma once

namespace isrlu {

// sisrlu(x) = positive x for x >= 0, negative x / sqrt(1 + alpha x^2) for x < 0. positive is lambda, negative lambda
// beta. With them sisrlu(z) has mean 0 and variance 1 for a standard normal z.
struct SisrluScales {
    double positive, negative;
};

// alpha >= 0, finite. Takes about 20 us for a new alpha. Each thread remembers its last one.
SisrluScales sisrlu_scales(double alpha);

}  // namespace isrlu
