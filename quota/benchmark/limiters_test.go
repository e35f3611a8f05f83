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

// startLimiting starts the same server with each of the libraries, and with ours.
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
		{noLimit, "none", nil}, {"ulule/limiter, Redis", "ulule", []*Process{redis}},
		{"go-redis/redis_rate, Redis", "redis_rate", []*Process{redis}}, {"go-chi/httprate, memory", "httprate", nil},
		{"didip/tollbooth, memory", "tollbooth", nil},
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

// BenchmarkLimiters compares servers that limit their clients, each by a library, with those that ask quotad: the time
// that a client waits, the CPU time, what Redis keeps of a subject, and how many calls of one subject a limit of 50
// lets through within one window. One iteration is the whole comparison:
//
//	go test -run - -bench Limiters -benchtime 1x -v
func BenchmarkLimiters(b *testing.B) {
	server := redistest.Start(b)
	redis := &Process{PID: server.Process.Pid, Socket: strings.TrimPrefix(server.Addr, "unix://")}
	many := startLimiting(b, redis, 1000, time.Minute)
	few := startLimiting(b, redis, boundaryLimit, boundaryWindow)
	for b.Loop() {
		compareTimes(b, many)
		most := compareBoundaries(b, few)
		for i, l := range many {
			bytes := ""
			if l.inRedis {
				bytes = fmt.Sprintf("%.0f bytes of a subject", memory(b, server, l))
			}
			b.Logf("%-44s %d of %d  %s", l.name, most[i], boundaryLimit, bytes)
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

const (
	boundaryLimit  = 50
	boundaryWindow = 10 * time.Second
	floodEvery     = 20 * time.Millisecond
	boundarySlack  = 250 * time.Millisecond // between the clock of who decides and that of who asks
)

// compareBoundaries returns how many calls of one subject were let through in any span of a
// window: of one who waits for the end of a window that his first call began, and of
// others who begin elsewhere, because some count in windows of the clock. All go on asking.
func compareBoundaries(b *testing.B, all []limiting) []int {
	most, greatest := make([][]int, len(all)), make([]int, len(all))
	var asking sync.WaitGroup
	begin := time.Now().Truncate(boundaryWindow).Add(boundaryWindow)
	for i, l := range all {
		if l.name == noLimit {
			continue
		}
		const phases = 4
		most[i] = make([]int, phases)
		for p := range phases {
			asking.Go(func() {
				n, err := flood(l, "greedy"+strconv.Itoa(p), begin.Add(boundaryWindow*time.Duration(p)/phases))
				if most[i][p] = n; err != nil {
					b.Errorf("%s: %v", l.name, err)
				}
			})
		}
	}
	asking.Wait()
	for i := range all {
		if most[i] != nil {
			greatest[i] = slices.Max(most[i])
		}
	}
	return greatest
}

// flood makes one call, and from shortly before a window later on as many as it gets. It
// returns how many were let through in any span of a window, less the slack.
func flood(l limiting, subject string, begin time.Time) (most int, err error) {
	client, err := l.dial([]string{subject}, http.StatusOK)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	var let []time.Time
	ask := func() error {
		err := client.Ask()
		if err == nil {
			let = append(let, time.Now())
		} else if strings.Contains(err.Error(), " 429 ") {
			return nil
		}
		return err
	}
	time.Sleep(time.Until(begin))
	err = ask()
	time.Sleep(time.Until(begin.Add(boundaryWindow - boundaryLimit*floodEvery)))
	tick := time.NewTicker(floodEvery)
	defer tick.Stop()
	for err == nil && time.Since(begin) < 3*boundaryWindow {
		err = ask()
		<-tick.C
	}
	for i, from := range let {
		end, _ := slices.BinarySearchFunc(let, from.Add(boundaryWindow-boundarySlack), time.Time.Compare)
		most = max(most, end-i)
	}
	return most, err
}
