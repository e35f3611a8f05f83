package benchmark

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// A Rival is something that is measured.
type Rival struct {
	Name    string
	Dial    func() (Client, error) // each client is used by one goroutine
	Servers []*Process             // that answer: their CPU is counted
	Floor   string                 // the rival that ratios are printed against; empty: none
}

const (
	rounds = 10 // turns of each rival
	turn   = 400 * time.Millisecond
)

// figures are those of a rival.
type figures struct {
	took []time.Duration // of each answer
	cpu  time.Duration   // of all servers
}

// p50 is the median time that a client waits, each the servers' CPU for an answer, in µs.
func (f figures) p50() float64  { return at(f.took, 0.5) * 1e6 }
func (f figures) each() float64 { return f.cpu.Seconds() * 1e6 / float64(len(f.took)) }

// at returns the time, in seconds, within which a part of the calls was answered.
func at(took []time.Duration, part float64) float64 {
	slices.Sort(took)
	return took[int(part*float64(len(took)-1))].Seconds()
}

// Compare measures the rivals with one client, then with 64, and logs a line for each.
func Compare(b *testing.B, rivals []Rival) {
	for _, clients := range []int{1, 64} {
		of := map[string]*figures{}
		for range rounds {
			for _, r := range rivals {
				if of[r.Name] == nil {
					of[r.Name] = new(figures)
				}
				of[r.Name].turn(b, r, clients)
			}
		}
		for _, r := range rivals {
			f := *of[r.Name]
			b.Logf("%2d clients  %-36s p50 %7.1f µs  cpu %6.1f µs", clients, r.Name, f.p50(), f.each())
			if floor := of[r.Floor]; floor != nil {
				b.Logf("%48s p50 ×%.2f  cpu ×%.2f of %s", "", f.p50()/floor.p50(), f.each()/floor.each(), r.Floor)
			}
		}
	}
}

// turn has clients ask a rival for one turn, over connections of their own.
func (f *figures) turn(b *testing.B, r Rival, clients int) {
	asking := make([]Client, clients)
	for i := range asking {
		c, err := r.Dial()
		if err == nil {
			defer c.Close()
			err = c.Ask() // what is made ready by a first request
		}
		if err != nil {
			b.Fatalf("%s: %v", r.Name, err)
		}
		asking[i] = c
	}
	took := make([][]time.Duration, clients)
	before, end := r.cpu(b), time.Now().Add(turn)
	var wg sync.WaitGroup
	for i, c := range asking {
		wg.Go(func() {
			for begun := time.Now(); begun.Before(end); {
				if err := c.Ask(); err != nil {
					b.Errorf("%s: %v", r.Name, err)
					return
				}
				now := time.Now()
				took[i] = append(took[i], now.Sub(begun))
				begun = now
			}
		})
	}
	wg.Wait()
	f.took, f.cpu = append(f.took, slices.Concat(took...)...), f.cpu+r.cpu(b)-before
}

// cpu returns the time that the kernel has counted for a rival's servers, in steps of 10 ms.
func (r Rival) cpu(b *testing.B) (sum time.Duration) {
	for _, server := range r.Servers {
		sum += server.cpu(b)
	}
	return sum
}
