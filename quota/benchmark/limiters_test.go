package benchmark

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota/redisledger/redistest"
)

// noLimit is the server that lets everything through.
const noLimit = "no limit"

// A limiting is a server that limits its clients, by the form's field subject.
type limiting struct {
	name    string
	socket  string
	servers []*Process
	inRedis bool // else it counts in a process
}

// startLimiting starts the same server with the library, and with ours.
func startLimiting(b *testing.B, redis *Process, units int, window time.Duration) (all []limiting) {
	path, clients := BuildQuotad(b), ""
	for _, algorithm := range []string{"log", "counter"} {
		clients += fmt.Sprintf("[clients.%[1]s]\nunits = %[2]d\nwindow = %[3]q\nalgorithm = %[1]q\n", algorithm, units, window)
	}
	onRedis := Quotad(b, path, clients+fmt.Sprintf("[ledger]\nbackend = \"redis\"\ndeadline = \"10s\"\nredis.addrs = [\"unix://%s\"]\n", redis.Socket))
	for _, row := range []struct {
		name, kind string
		counts     []*Process
	}{
		{noLimit, "none", nil}, {"go-redis/redis_rate, Redis", "redis_rate", []*Process{redis}},
		{"quota/middleware, log, Redis", "middleware log", []*Process{onRedis, redis}},
		{"quota/middleware, counter, Redis", "middleware counter", []*Process{onRedis, redis}},
		{"quota/middleware, log, memory", "middleware log", []*Process{Quotad(b, path, clients)}},
		{"quota/middleware, counter, memory", "middleware counter", []*Process{Quotad(b, path, clients)}},
		{"redisledger.OpenClients, log, Redis", "alone log", []*Process{redis}},
		{"redisledger.OpenClients, counter, Redis", "alone counter", []*Process{redis}},
	} {
		environment := []string{redisVariable + "=" + redis.Socket, unitsVariable + "=" + strconv.Itoa(units), windowVariable + "=" + window.String()}
		if strings.HasPrefix(row.kind, "middleware") {
			environment = append(environment, daemonVariable+"="+row.counts[0].Socket)
		}
		server := Serve(b, row.kind, environment...)
		all = append(all, limiting{row.name, server.Socket, append([]*Process{server}, row.counts...), slices.Contains(row.counts, redis)})
	}
	return all
}

// dial opens a client that asks for each subject in turn.
func (l limiting) dial(subjects []string, status int) (Client, error) {
	forms := make([]string, len(subjects))
	for i, subject := range subjects {
		forms[i] = "subject=" + subject
	}
	return HTTPEach(l.socket, "/", forms, status)
}

func subjects(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = prefix + strconv.Itoa(i)
	}
	return all
}

// BenchmarkLimiters compares a server that limits its clients by a library with those that ask quotad, or Redis by
// quotad's scripts: the time that a client waits, the CPU time, and what Redis keeps of a subject. One iteration is the
// whole comparison:
//
//	go test -run - -bench Limiters -benchtime 1x -v
func BenchmarkLimiters(b *testing.B) {
	server := redistest.Start(b)
	all := startLimiting(b, processOf(server), 1000, time.Minute)
	for b.Loop() {
		compareTimes(b, all)
		for _, l := range all {
			if l.inRedis {
				b.Logf("%-44s %.0f bytes of a subject", l.name, memory(b, server, l))
			}
		}
	}
}

func compareTimes(b *testing.B, all []limiting) {
	var client atomic.Int64
	var rivals []Rival
	for _, l := range all {
		r := Rival{Name: l.name, Servers: l.servers, Floor: noLimit, Dial: func() (Client, error) {
			return l.dial(subjects(fmt.Sprintf("client%d-", client.Add(1)), 100), http.StatusOK)
		}}
		if l.name == r.Floor {
			r.Floor = ""
		}
		rivals = append(rivals, r)
	}
	Compare(b, rivals)
}

// memory returns how many bytes Redis keeps of a subject that has made ten calls of late.
func memory(b *testing.B, server *redistest.Server, l limiting) float64 {
	const clients, each, calls, sample = 8, 500, 10, 500
	server.Order(b, "FLUSHALL")
	var asking sync.WaitGroup
	for c := range clients {
		asking.Go(func() {
			client, err := l.dial(subjects(fmt.Sprintf("client%d-", c), each), http.StatusOK)
			for range calls * each {
				if err == nil {
					err = client.Ask()
				}
			}
			if err != nil {
				b.Errorf("%s: %v", l.name, err)
				return
			}
			client.Close()
		})
	}
	asking.Wait()
	keys, total := server.Do(b, "KEYS", "*").([]any), int64(0)
	for _, key := range keys[:sample] {
		size, _ := server.Do(b, "MEMORY", "USAGE", key.(string)).(int64) // nil of one that has gone by now
		total += size
	}
	return float64(total) / sample * float64(len(keys)) / (clients * each)
}
