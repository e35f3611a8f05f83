// Package benchmark measures servers against each other: the daemon, the floors
// beneath it, and its peers, each a process of its own, asked by lean clients.
//
// A lean client is one connection and one prepared request. The client of net/http
// costs about as much CPU as the daemon itself, which would hide what is compared;
// so ours, the floors and the peers are all asked the lean way.
//
// Every rival has its turn in each round, so that a machine that grows slower does
// so for all. Latencies are medians over all rounds; CPU is what the kernel counted
// for the processes that served, divided by the answers of the same span.
//
// The machine is assumed to run Linux: CPU times are read from /proc.
package benchmark
