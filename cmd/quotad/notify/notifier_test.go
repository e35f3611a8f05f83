package notify

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
)

// A bench has a notifier whose command is a shell's, in a directory of its own.
type bench struct {
	*testing.T
	*Notifier
	dir     string
	mu      sync.Mutex
	results []Result
}

func newBench(t *testing.T, timeout time.Duration, command ...string) *bench {
	b := &bench{T: t, dir: t.TempDir()}
	b.Notifier = NewNotifier(b.dir, func(event any) {
		if one, ok := event.(Result); ok {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.results = append(b.results, one)
		}
	})
	b.Configure(config.OnEvent{Command: command, Kinds: config.Events(), Timeout: timeout})
	return b
}

func (b *bench) told() string {
	text, _ := os.ReadFile(filepath.Join(b.dir, "told"))
	return string(text)
}

func (b *bench) failures() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.results {
		if r.Failed != "" {
			list = append(list, r.Failed)
		}
	}
	return list
}

func troubleOf(of string, ended bool) Event {
	return Changed(trouble.Change{Trouble: trouble.Trouble{Kind: trouble.Closed, Of: of, Says: "it is closed", Do: "quotactl open youtube daily"}, Ended: ended},
		time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
}

// What the command finds in its environment, it finds in the object too, which has the output of a run besides.
func TestWhatACommandReads(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	left, run := quota.Units(5), jobs.Run{ID: "r1", Job: "fetch", Trigger: "schedule", StartedAt: at, EndedAt: at.Add(1500 * time.Millisecond),
		State: jobs.RunFailed, Passes: []jobs.Pass{
			{Region: "US", Outcome: jobs.OK, Spent: jobs.Spent{Units: 101, Made: jobs.Made{"search": 1, "list": 1}}, Tail: []string{"fine"}},
			{Region: "GB", Outcome: jobs.Failed, Spent: jobs.Spent{Units: 1, Made: jobs.Made{"list": 1}}, Tail: []string{"no route"}},
		}}
	for _, row := range []struct {
		name, want, output string
		event              Event
	}{
		{"of a limit", "AT=2026-11-26T12:00:00Z CREDENTIAL=youtube DO=quotactl open youtube daily EVENT=trouble KIND=closed LIMIT=daily " +
			"OF=limit youtube daily SAYS=it is closed", "", troubleOf("limit youtube daily", false)},
		{"of a job, and over", "AT=2026-11-26T12:00:00Z DO=quotactl open youtube daily EVENT=over JOB=fetch KIND=closed OF=job fetch SAYS=it is closed", "",
			troubleOf("job fetch", true)},
		{"that may have been told", "AGAIN=true AT=2026-11-26T12:00:00Z EVENT=trouble GRAVE=true KIND=ledger OF=ledger SAYS=x SINCE=2026-11-26T12:00:00Z", "",
			Changed(trouble.Change{Trouble: trouble.Trouble{Kind: trouble.Ledger, Of: "ledger", Says: "x", Grave: true, Since: at}, Again: true}, at)},
		{"of few units", "AT=2026-11-26T12:00:00Z BUDGET=9007199254740991 EVENT=low LEFT=5 SAYS=a\tb", "",
			Event{Event: config.EventLow, At: at, Left: &left, Budget: quota.MaxUnits, Says: "a\tb\x00"}},
		{"of a run", "AT=2026-11-26T12:00:00Z CALLS=list=2 search=1 DO=quotactl runs r1 EVENT=run_ended JOB=fetch PASSES=failed=1 ok=1 RUN_ID=r1 " +
			"SAYS=fetch is failed STARTED_AT=2026-11-26T12:00:00Z STATE=failed TOOK_MS=1500 TRIGGER=schedule UNITS=102", "GB: no route\n", ofRun(run, time.Time{}, at)},
	} {
		t.Run(row.name, func(t *testing.T) {
			object, environment := row.event.encoded()
			if got := strings.ReplaceAll(strings.Join(environment, " "), "QUOTAD_", ""); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			var got Event
			must(t, json.Unmarshal(object, &got))
			if got.Event != row.event.Event || got.Says != row.event.Says || got.Output != row.output || !got.At.Equal(at) {
				t.Errorf("it reads %s", object)
			}
		})
	}
	tail := append(slices.Repeat([]string{strings.Repeat("é", 50)}, 1000), "no route to host")
	e := ofRun(jobs.Run{State: jobs.RunFailed, Passes: []jobs.Pass{{Region: "US", Outcome: jobs.Failed, Tail: tail}}}, at, at)
	if len(e.Output) > maxOutput || len(e.Output) < maxOutput-2 || !strings.HasSuffix(e.Output, "no route to host\n") {
		t.Errorf("%d bytes, which end with %q", len(e.Output), e.Output[max(0, len(e.Output)-30):])
	}
}

// A command of an event has nothing of the daemon's environment that a pass would not have.
func TestEnvironmentOfACommand(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "Sesame")
	b := newBench(t, time.Minute, "/bin/sh", "-c", "env >told; cat >>told")
	b.Start(process.Launcher{})
	b.Record(troubleOf("ledger", false))
	b.Stop()
	for text, want := range map[string]bool{"Sesame": false, "QUOTAD_EVENT=trouble\n": true, "PATH=": true, `{"event":"trouble",`: true} {
		if strings.Contains(b.told(), text) != want {
			t.Errorf("it has %q: %v, want %v:\n%s", text, !want, want, b.told())
		}
	}
}

// 500 troubles begin or are over at once while the command does not end: each is an event, in its order. A kind that is
// not configured is none.
func TestAStorm(t *testing.T) {
	b := newBench(t, time.Minute, "/bin/sh", "-c", "until test -e go; do sleep 0.01; done; echo $QUOTAD_EVENT $QUOTAD_LIMIT >>told")
	b.Configure(config.OnEvent{Command: b.onEvent.Load().Command, Kinds: []string{config.EventTrouble, config.EventOver}, Timeout: time.Minute})
	b.Start(process.Launcher{})
	var want []string
	for i := range 500 {
		ended := i%5 == 4 // the one before it is over
		b.Record(troubleOf(fmt.Sprint("limit api limit-", i/5), ended))
		want = append(want, fmt.Sprint(map[bool]string{false: "trouble", true: "over"}[ended], " limit-", i/5))
	}
	b.Record(Event{Event: config.EventLow})
	must(t, os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o600))
	eventually(t, func() bool { return strings.Count(b.told(), "\n") == len(want) })
	b.Stop()
	if got := strings.Split(strings.TrimSpace(b.told()), "\n"); !slices.Equal(got, want) || len(b.failures()) > 0 {
		t.Errorf("%d were told, %q failed", len(got), b.failures())
	}
}

// Events beyond what may wait take the place of the oldest, and the log says so.
func TestTheQueueIsBounded(t *testing.T) {
	b := newBench(t, time.Minute, "/bin/true")
	for i := range maxWaiting + 3 {
		b.Record(troubleOf(fmt.Sprint("job ", i), false))
	}
	if failed := b.failures(); len(b.waiting) != maxWaiting || b.waiting[0].Job != "3" || len(failed) != 3 || !strings.HasPrefix(failed[0], "dropped: ") {
		t.Errorf("%d wait, the first is of job %s; %q", len(b.waiting), b.waiting[0].Job, failed)
	}
}

// A command that hangs, is missing, floods or fails costs its timeout at most, and the next event has its turn.
func TestBadCommands(t *testing.T) {
	for _, row := range []struct{ name, command, want string }{
		{"it hangs", "trap '' TERM; sleep 1000", "it reached its timeout"},
		{"it floods, and hangs", "while :; do echo flood; done", "it reached its timeout"},
		{"it needs root", "exit 77", "exit status 77"},
		{"it reads nothing", "exec <&-; true", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 100*time.Millisecond, "/bin/sh", "-c", row.command)
			if row.name != "it hangs" && row.name != "it floods, and hangs" {
				b.Configure(config.OnEvent{Command: b.onEvent.Load().Command, Kinds: config.Events(), Timeout: time.Minute})
			}
			b.Start(process.Launcher{})
			b.Record(troubleOf("ledger", false))
			b.Record(troubleOf("ledger", true))
			eventually(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.results) == 2 })
			b.Stop()
			for _, r := range b.results {
				if r.Failed != row.want {
					t.Errorf("of %s: %q, want %q", r.Event, r.Failed, row.want)
				}
			}
		})
	}
	b := newBench(t, time.Minute, "/no/such/program")
	b.Start(process.Launcher{})
	b.Record(troubleOf("ledger", false))
	b.Stop()
	if failed := b.failures(); len(failed) != 1 || !strings.Contains(failed[0], "no such file") {
		t.Errorf("a program that is missing: %q", failed)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(3*time.Minute)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not come to pass")
		}
	}
}

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
