package notify

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/jobs/process/processtest"
	"quotad/quota"
)

func TestMain(m *testing.M) { os.Exit(processtest.Tests(m.Run).Run()) }

func troubleOf(of string, ended bool) Event {
	return Changed(trouble.Change{Trouble: trouble.Trouble{Kind: trouble.Closed, Of: of, Says: "it is closed", Do: "quotactl open youtube daily"}, Ended: ended},
		time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
}

// What the command finds in its environment, it finds in the object too, which has the output of a run besides.
func TestWhatACommandReads(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	left, run := quota.Units(5), jobs.Run{ID: "r1", Job: "fetch", Trigger: "schedule", StartedAt: at, EndedAt: at.Add(1500 * time.Millisecond),
		State: jobs.RunFailed, Stop: jobs.Stop{Reason: jobs.DoesNotFit, RetryAt: at.Add(time.Hour)}, Passes: []jobs.Pass{
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
		{"that may be known", "AGAIN=true AT=2026-11-26T12:00:00Z EVENT=trouble GRAVE=true KIND=ledger OF=ledger SAYS=x SINCE=2026-11-26T12:00:00Z", "",
			Changed(trouble.Change{Trouble: trouble.Trouble{Kind: trouble.Ledger, Of: "ledger", Says: "x", Grave: true, Since: at}, Again: true}, at)},
		{"of few units", "AT=2026-11-26T12:00:00Z BUDGET=9007199254740991 EVENT=low LEFT=5 SAYS=a\tb", "",
			Event{Event: config.EventLow, At: at, Left: &left, Budget: quota.MaxUnits, Says: "a\tb\x00"}},
		{"of a run", "AT=2026-11-26T12:00:00Z CALLS=list=2 search=1 DO=quotactl runs r1 EVENT=run_ended JOB=fetch " +
			"NEXT_RUN=2026-11-26T14:00:00Z PASSES=failed=1 ok=1 REASON=not_launched RETRY_AT=2026-11-26T13:00:00Z RUN_ID=r1 " +
			"SAYS=fetch is failed STARTED_AT=2026-11-26T12:00:00Z STATE=failed TOOK_MS=1500 TRIGGER=schedule UNITS=102",
			"GB: no route\n", ofRun(jobs.RunChanged{Run: run, Next: at.Add(2 * time.Hour)}, at)},
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
	e := ofRun(jobs.RunChanged{Run: jobs.Run{State: jobs.RunFailed, Passes: []jobs.Pass{{Region: "US", Outcome: jobs.Failed, Tail: tail}}}}, at)
	if len(e.Output) > maxOutput || len(e.Output) < maxOutput-2 || !strings.HasSuffix(e.Output, "no route to host\n") {
		t.Errorf("%d bytes, which end with %q", len(e.Output), e.Output[max(0, len(e.Output)-30):])
	}
}

// newNotifier returns a notifier with a command for troubles, and what it emits once it is stopped.
func newNotifier(t *testing.T, command ...string) (*Notifier, *[]any) {
	emitted := new([]any)
	n := NewNotifier(t.TempDir(), func(event any) { *emitted = append(*emitted, event) })
	n.Configure(config.OnEvent{Command: command, Kinds: []string{config.EventTrouble, config.EventOver}})
	return n, emitted
}

// The command runs for one event after the other, of the kinds that are configured, with the object on its standard input
// and nothing of the daemon's environment that a pass would not have.
func TestCommandsInOrder(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "Sesame")
	n, emitted := newNotifier(t, "/bin/sh", "-c", "read object; echo $QUOTAD_EVENT $QUOTAD_LIMIT $AWS_SECRET_ACCESS_KEY ${object%%,*}")
	n.Record(troubleOf("limit api daily", false))
	n.Record(Event{Event: config.EventLow})
	n.Record(troubleOf("limit api daily", true))
	n.Start(process.Launcher{})
	n.Stop()
	var lines []string
	for _, event := range *emitted {
		if output, is := event.(Output); is {
			lines = append(lines, output.Line.Text)
		}
	}
	if want := []string{`trouble daily {"event":"trouble"`, `over daily {"event":"over"`}; !slices.Equal(lines, want) || len(*emitted) != 4 {
		t.Errorf("got %q, %v", lines, *emitted)
	}
}

// Events beyond what may wait take the place of the oldest, and the log says so.
func TestTheQueueIsBounded(t *testing.T) {
	n, emitted := newNotifier(t, "/bin/true")
	for range maxWaiting + 1 {
		n.Record(troubleOf("job fetch", len(n.waiting) == 0))
	}
	wait, first := len(n.waiting), <-n.waiting
	if wait != maxWaiting || first.Event != config.EventTrouble || len(*emitted) != 1 ||
		(*emitted)[0].(Result).Event != config.EventOver || !strings.HasPrefix((*emitted)[0].(Result).Failed, "dropped: ") {
		t.Errorf("%d wait, the first is %s; %v", wait, first.Event, *emitted)
	}
}

// A launched is a launcher whose commands end so.
type launched jobs.Exit

func (l launched) Launch(_, _ context.Context, c jobs.Command, _ func(jobs.Line)) jobs.Exit {
	if c.Timeout != timeout || c.KillGrace != killGrace {
		return jobs.Exit{Err: errors.New("it has no bounds")}
	}
	return jobs.Exit(l)
}

// A command that hangs, is missing or fails costs 30 seconds at most, and its result says why.
func TestBadCommands(t *testing.T) {
	for want, exit := range map[string]jobs.Exit{
		"": {}, "it took longer than 30s": {Cause: jobs.ErrTimeout}, "exit status 77": {Code: 77}, "killed by SIGKILL": {Signal: "SIGKILL"}, "no such file": {Err: errors.New("no such file")},
	} {
		n, emitted := newNotifier(t, "notify")
		n.Record(troubleOf("ledger", false))
		n.Start(launched(exit))
		n.Stop()
		if got := (*emitted)[0].(Result).Failed; got != want {
			t.Errorf("got %q, want %q", got, want)
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
