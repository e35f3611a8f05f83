package clientlimit

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"
)

// A crowd estimates how many subjects asked in the current span of time and in the one before,
// in 2 KiB (the HyperLogLog algorithm of Flajolet, Fusy, Gandouet and Meunier). The zero value is
// empty.
type crowd struct {
	mu   sync.Mutex // guards what follows
	seed maphash.Seed
	// By a part of the hash, the most zeros that the rest began with, and 1.
	spans[[crowdSize]uint8]
}

const (
	crowdBits = 10
	crowdSize = 1 << crowdBits
	// crowdBias is the algorithm's constant for crowdSize.
	crowdBias = 0.7213 / (1 + 1.079/crowdSize)
)

// record counts the subjects of some asks.
func (c *crowd) record(asks []priced, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(now)
	if c.seed == (maphash.Seed{}) {
		c.seed = maphash.MakeSeed()
	}
	for _, ask := range asks {
		hash := maphash.String(c.seed, ask.subject.text)
		zeros := uint8(bits.LeadingZeros64(hash<<crowdBits|1<<(crowdBits-1))) + 1
		at := hash >> (64 - crowdBits)
		c.current[at] = max(c.current[at], zeros)
	}
}

// size returns about how many subjects asked in both spans.
func (c *crowd) size(now time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance(now)
	sum, empty := 0.0, 0
	for i := range c.current {
		zeros := max(c.current[i], c.before[i])
		sum += math.Ldexp(1, -int(zeros))
		if zeros == 0 {
			empty++
		}
	}
	estimate := crowdBias * crowdSize * crowdSize / sum
	if estimate <= 2.5*crowdSize && empty > 0 { // few subjects: count what is left empty
		estimate = crowdSize * math.Log(crowdSize/float64(empty))
	}
	return int(math.Round(estimate))
}
