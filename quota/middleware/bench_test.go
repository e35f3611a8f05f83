package middleware_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/benchmark"
	"quotad/quota/clientlimit"
	"quotad/quota/middleware"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

// What a server of the benchmark asks, and for which clients.
const (
	daemonVariable  = "QUOTAD_CHILD_DAEMON"
	clientsVariable = "QUOTAD_CHILD_CLIENTS"
	redisVariable   = "QUOTAD_CHILD_REDIS" // where it decides by itself
	unitsVariable   = "QUOTAD_CHILD_UNITS"
	windowVariable  = "QUOTAD_CHILD_WINDOW"
)

// TestServeLimited is a server of the benchmark, until it is killed.
func TestServeLimited(t *testing.T) {
	if os.Getenv(daemonVariable) == "" && os.Getenv(redisVariable) == "" {
		t.Skip("only a process of the benchmark serves")
	}
	limiter := openLimits(t)
	if limiter == nil {
		limiter = &api.Client{Socket: os.Getenv(daemonVariable)}
	}
	handler := middleware.Handler(limiter, hello, middleware.Options{
		Clients:    os.Getenv(clientsVariable),
		Identify:   []middleware.Identify{func(r *http.Request) string { return r.FormValue("subject") }},
		FailClosed: true,
		Timeout:    time.Minute, // what is not decided would not be measured
	})
	listener, err := net.Listen("unix", os.Getenv(benchmark.SocketVariable))
	if err != nil {
		t.Fatal(err)
	}
	if err := http.Serve(listener, handler); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

// openLimits returns limits that the server decides by itself; nil: the daemon does.
func openLimits(t *testing.T) middleware.Limiter {
	addr := os.Getenv(redisVariable)
	if addr == "" {
		return nil
	}
	units, err := strconv.Atoi(os.Getenv(unitsVariable))
	if err != nil {
		t.Fatal(err)
	}
	window, err := time.ParseDuration(os.Getenv(windowVariable))
	if err != nil {
		t.Fatal(err)
	}
	name := os.Getenv(clientsVariable)
	config := redisledger.Config{Addrs: []string{"unix://" + addr}, KeyPrefix: "alone:", Deadline: 10 * time.Second}
	limits, err := redisledger.OpenClients(config, "", &clientlimit.Clients{
		Name: name, Algorithm: clientlimit.Algorithm(name),
		Limits: []quota.Limit{{Name: "default", Units: quota.Units(units), Window: quota.Sliding(window)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") })

// noLimit is the server that lets everything through.
const noLimit = "no limit"

// A limited is a server that limits its clients, by the form's field subject.
type limited struct {
	name    string
	socket  string
	path    string
	servers []*benchmark.Process
	redis   *benchmark.Process // where it counts; nil: in the process, or in a file
}

// startLimited starts the same server with each of the libraries, and with ours.
func startLimited(b *testing.B, redis *benchmark.Process, limit int, window time.Duration) []limited {
	all := libraries(b, redis, limit, window)
	path := benchmark.BuildQuotad(b)
	onRedis := benchmark.Quotad(b, path, configuration(limit, window)+fmt.Sprintf(`
[ledger]
backend = "redis"
deadline = "10s"
redis.addrs = ["unix://%s"]
`, redis.Socket))
	embedded := benchmark.Quotad(b, path, configuration(limit, window))
	for _, row := range []struct {
		where  string
		daemon *benchmark.Process
		redis  *benchmark.Process
	}{{"Redis", onRedis, redis}, {"memory", embedded, nil}} {
		counts := []*benchmark.Process{row.daemon}
		if row.redis != nil {
			counts = append(counts, row.redis)
		}
		for _, algorithm := range []string{"log", "counter"} {
			server := benchmark.Again(b, "TestServeLimited", daemonVariable+"="+row.daemon.Socket, clientsVariable+"="+algorithm)
			all = append(all,
				limited{"quota/middleware, " + algorithm + ", " + row.where, server.Socket, "/", append([]*benchmark.Process{server}, counts...), row.redis},
				limited{"quotad alone, " + algorithm + ", " + row.where, row.daemon.Socket, "/v1/clients/" + algorithm + "/acquire", counts, row.redis})
		}
	}
	for _, algorithm := range []string{"log", "counter"} {
		server := benchmark.Again(b, "TestServeLimited", redisVariable+"="+redis.Socket, clientsVariable+"="+algorithm,
			unitsVariable+"="+strconv.Itoa(limit), windowVariable+"="+window.String())
		all = append(all, limited{"redisledger.OpenClients, " + algorithm + ", Redis", server.Socket, "/", []*benchmark.Process{server, redis}, redis})
	}
	return all
}

func configuration(limit int, window time.Duration) (text string) {
	for _, algorithm := range []string{"log", "counter"} {
		text += fmt.Sprintf("[clients.%[1]s]\nunits = %[2]d\nwindow = %[3]q\nalgorithm = %[1]q\n", algorithm, limit, window)
	}
	return text
}

func libraries(b *testing.B, redis *benchmark.Process, limit int, window time.Duration) (all []limited) {
	peers, err := benchmark.BuildLimiters(b)
	if err != nil {
		b.Logf("the libraries cannot be had: %v", err)
		return nil
	}
	for _, row := range []struct {
		kind, name string
		redis      *benchmark.Process
	}{
		{"none", noLimit, nil},
		{"ulule", "ulule/limiter, Redis", redis}, {"redis_rate", "go-redis/redis_rate, Redis", redis},
		{"httprate", "go-chi/httprate, memory", nil}, {"tollbooth", "didip/tollbooth, memory", nil},
	} {
		server := peers.Start(b, row.kind, redis, limit, window)
		l := limited{row.name, server.Socket, "/", []*benchmark.Process{server}, row.redis}
		if row.redis != nil {
			l.servers = append(l.servers, row.redis)
		}
		all = append(all, l)
	}
	return all
}

// dial opens a client that asks for each subject in turn.
func (l limited) dial(subjects []string, status int) (benchmark.Client, error) {
	forms := make([]string, len(subjects))
	for i, subject := range subjects {
		forms[i] = "subject=" + subject
	}
	return benchmark.HTTPEach(l.socket, l.path, forms, status)
}

func subjects(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = prefix + strconv.Itoa(i)
	}
	return all
}

// BenchmarkLimiters compares servers that limit their clients, each by a library, with
// those that ask quotad, and these with quotad alone: the time that a client waits, the
// rate and the CPU time, what Redis keeps of a subject, and how many calls of one subject
// a limit of 50 lets through within one window. One iteration is the whole comparison:
//
//	go test -run - -bench Limiters -benchtime 1x -v ./quota/middleware
func BenchmarkLimiters(b *testing.B) {
	server := redistest.Start(b)
	redis := &benchmark.Process{PID: server.Process.Pid, Socket: strings.TrimPrefix(server.Addr, "unix://")}
	many := startLimited(b, redis, 1000, time.Minute)
	few := startLimited(b, redis, boundaryLimit, boundaryWindow)
	table := benchmark.Table{
		Name: "limiters", Command: "QUOTAD_BENCH_README=1 go test -run - -bench Limiters -benchtime 1x -v ./quota/middleware",
		Sources: []string{"lua", "quota", "quota/api", "quota/clientlimit", "quota/middleware", "quota/redisledger", "quota/server"},
		Head:    []string{"limit by", "waits, µs", "times", "CPU, µs", "times", "bytes", fmt.Sprint("of ", boundaryLimit)},
	}
	for b.Loop() {
		times, most := compareTimes(b, many), compareBoundaries(b, few)
		none := times[noLimit]
		table.Rows = nil
		for i, l := range many {
			row, of := []string{l.name, "", "", "", "", "", ""}, times[l.name]
			row[1], row[3] = benchmark.Figure(of.P50), benchmark.Figure(of.CPU)
			if none != nil && l.name != noLimit {
				row[2], row[4] = benchmark.Figure(of.P50/none.P50), benchmark.Figure(of.CPU/none.CPU)
			}
			if l.redis != nil {
				row[5] = fmt.Sprintf("%.0f", memory(b, server, l))
			}
			if most[i] > 0 {
				row[6] = strconv.Itoa(most[i])
			}
			if l.path == "/" { // quotad alone is in the log
				table.Rows = append(table.Rows, row)
			}
		}
		table.Write(b)
	}
}

func compareTimes(b *testing.B, all []limited) map[string]*benchmark.Result {
	var client atomic.Int64
	var rivals []benchmark.Rival
	for _, l := range all {
		r := benchmark.Rival{Name: l.name, Servers: l.servers, Floor: noLimit, Dial: func() (benchmark.Client, error) {
			return l.dial(subjects(fmt.Sprintf("client%d-", client.Add(1)), 100), http.StatusOK)
		}}
		if l.name == r.Floor {
			r.Floor = ""
		}
		rivals = append(rivals, r)
	}
	return benchmark.Compare(b, rivals)
}

// memory returns how many bytes Redis keeps of a subject that has made ten calls of late.
func memory(b *testing.B, server *redistest.Server, l limited) float64 {
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
func compareBoundaries(b *testing.B, all []limited) []int {
	most, greatest := make([][]int, len(all)), make([]int, len(all))
	var asking sync.WaitGroup
	begin := time.Now().Truncate(boundaryWindow).Add(boundaryWindow)
	for i, l := range all {
		if l.name == noLimit || l.path != "/" { // quotad alone decides as behind the middleware
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
func flood(l limited, subject string, begin time.Time) (most int, err error) {
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
