/* The counters of cutedsl_quant/backend.h for C and whatever binds to C. */
#ifndef CUTEDSL_QUANT_STATS_H_
#define CUTEDSL_QUANT_STATS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char* name; /* "calls.<backend>" or "misses.<reason>"; lives as long as the process */
  uint64_t count;
} CutedslQuantCounter;

/* Writes the first `capacity` counters to `counters` (which may be null if that is 0), and returns
 * how many there are. */
size_t cutedsl_quant_stats(CutedslQuantCounter* counters, size_t capacity);

/* Sets all of them to zero. */
void cutedsl_quant_reset_stats(void);

#ifdef __cplusplus
}
#endif

#endif /* CUTEDSL_QUANT_STATS_H_ */
