// A log-linear histogram of microseconds: 64 steps per octave, so a quantile is read back within 1.6 %.
#ifndef HISTOGRAM_H
#define HISTOGRAM_H
#include <stdint.h>

enum { HIST_SUB_BITS = 6, HIST_SUB = 1 << HIST_SUB_BITS, HIST_OCTAVES = 34, HIST_SIZE = HIST_SUB * HIST_OCTAVES };

struct histogram {
  uint64_t count, max, buckets[HIST_SIZE];
};

static inline int hist_index(uint64_t us) {
  if (us < HIST_SUB) return (int)us;
  int octave = 63 - __builtin_clzll(us) - HIST_SUB_BITS;
  int index = (octave + 1) * HIST_SUB + (int)((us >> octave) - HIST_SUB);
  return index < HIST_SIZE ? index : HIST_SIZE - 1;
}

static inline uint64_t hist_value(int index) {
  if (index < HIST_SUB) return (uint64_t)index;
  int octave = index / HIST_SUB - 1;
  return ((uint64_t)(index % HIST_SUB + HIST_SUB) << octave) + ((1ull << octave) >> 1);
}

static inline void hist_add(struct histogram *h, uint64_t us) {
  h->buckets[hist_index(us)]++;
  h->count++;
  if (us > h->max) h->max = us;
}

static inline uint64_t hist_quantile(const struct histogram *h, double q) {
  uint64_t rank = (uint64_t)(q * (double)h->count), seen = 0;
  if (rank >= h->count) rank = h->count ? h->count - 1 : 0;
  for (int i = 0; i < HIST_SIZE; i++)
    if ((seen += h->buckets[i]) > rank) return hist_value(i) < h->max ? hist_value(i) : h->max;
  return h->max;
}
#endif
