// Package benchmark measures quotad against the floors beneath it and against its peers, each a process of its own,
// asked by lean clients: one connection and one prepared request. The client of net/http costs about as much CPU as
// the daemon itself.
//
// Every rival has its turn in each round, so that a machine that grows slower does so for all. Latencies are medians
// over all rounds; CPU is what the kernel counted for the processes that served, divided by the answers of the same
// span: from /proc, so on Linux alone.
//
// It is a module of its own, so that no peer is part of quotad's.
package benchmark
