package main

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

func TestNumbersAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "1,000": 1000, "1_234_567": 1_234_567, "9,007,199,254,740,991": 9_007_199_254_740_991,
	} {
		if got, ok := parseUnits(text, 1); !ok || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range strings.Split("|-|1,5|1,0000|10,00|1__000|1_|,100|1.0|1e3|-1|+1|0|99999999999999999999", "|") {
		if got, ok := parseUnits(text, 1); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// A time of day is the last one in the past and the next one in the future, by the clock of the zone.
func TestInstants(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ text, now, last, next string }{
		{"09:00", "2026-03-14 11:26", "2026-03-14 09:00", "2026-03-15 09:00"},
		{"22:00", "2026-03-14 11:26", "2026-03-13 22:00", "2026-03-14 22:00"},
		{"11:26", "2026-03-14 11:26", "2026-03-14 11:26", "2026-03-15 11:26"},
		{"9:00", "2026-01-01 08:00", "2025-12-31 09:00", "2026-01-01 09:00"},
		{"09:00", "2026-03-29 01:00", "2026-03-28 09:00", "2026-03-29 09:00"}, // of 23 hours
		{"09:00", "2026-03-29 08:00", "2026-03-28 09:00", "2026-03-29 09:00"},
		{"09:00", "2026-10-25 01:00", "2026-10-24 09:00", "2026-10-25 09:00"}, // of 25 hours
		{"90m", "2026-03-14 11:00", "2026-03-14 09:30", "2026-03-14 12:30"},
		{"1d", "2026-03-29 12:00", "2026-03-28 11:00", "2026-03-30 12:00"}, // 24 hours
		{"2026-03-14T09:00:00Z", "2026-03-14 11:26", "2026-03-14 10:00", "2026-03-14 10:00"},
		{"yesterday", "2026-03-14 11:26", "", ""}, {"24:00", "2026-03-14 11:26", "", ""}, {"5", "2026-03-14 11:26", "", ""}, {"-1h", "2026-03-14 11:26", "", ""},
	} {
		now, err := time.ParseInLocation("2006-01-02 15:04", row.now, berlin)
		for past, want := range map[bool]string{true: row.last, false: row.next} {
			got, ok := parseInstant(row.text, now, past)
			if text := got.In(berlin).Format("2006-01-02 15:04"); err != nil || ok != (want != "") || ok && text != want {
				t.Errorf("%s at %s, past %v: got %s, want %s", row.text, row.now, past, text, want)
			}
		}
	}
}

// What a pass wrote is printed before its end, and that of the pass under way after it, each on its stream. What was
// written too fast is missing, and that is said.
func TestWaitPrintsInOrder(t *testing.T) {
	var stdout, stderr strings.Builder
	w := runWriter{cli: &cli{stdout: &stdout, stderr: &stderr}}
	us := jobs.Pass{Region: "US", Outcome: jobs.OK, StartedAt: at, EndedAt: at.Add(time.Second)}
	gb := jobs.Pass{Region: "GB", Outcome: jobs.Running, StartedAt: at}
	for _, p := range []jobs.Progress{
		{Output: []jobs.OutputLine{{Region: "US", Stream: "stdout", Text: "page 1"}}, Written: 1},
		{Run: jobs.Run{Passes: []jobs.Pass{us, gb}}, Written: 4, Output: []jobs.OutputLine{
			{Region: "GB", Stream: "stdout", Text: "page 1"}, {Region: "US", Stream: "stderr", Text: "slow\x1b[31m"}, {Region: "US", Stream: "stdout", Text: "page 2"}}},
		{Run: jobs.Run{Passes: []jobs.Pass{us, gb}}, Written: 9, Output: []jobs.OutputLine{{Region: "GB", Stream: "stdout", Text: "page 6"}}},
	} {
		if err := w.write(p); err != nil {
			t.Fatal(err)
		}
	}
	if want := "US: page 1\nUS: page 2\nUS  ok, 0 units, 1.00s\nGB: page 1\nGB: page 6\n"; stdout.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", stdout.String(), want)
	}
	if want := "US: slow?[31m\nquotactl: 4 lines are left out: they were written too fast\n"; stderr.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", stderr.String(), want)
	}
}

// A script decides by the exit code what it may do next: 75 says that the budget alone was in the way.
func TestExitCodes(t *testing.T) {
	for reason, want := range map[quota.Reason]int{
		quota.LimitExceeded: exitDenied, quota.LimitClosed: exitDenied, quota.CostExceedsLimit: exitError,
		quota.UnknownCredential: exitNotFound, quota.UnknownOperation: exitNotFound, quota.UnknownGrant: exitNotFound, api.NotFound: exitNotFound,
		quota.BadRequest: exitUsage, api.LedgerUnavailable: exitError, quota.RequestIDConflict: exitError, quota.Forbidden: exitError,
	} {
		if got := exitCodeOf(reason); got != want {
			t.Errorf("%s is %d, want %d", reason, got, want)
		}
	}
	for _, row := range []struct {
		state   jobs.RunState
		reason  jobs.Reason
		outcome jobs.Outcome // of its only pass
		want    int
	}{
		{jobs.RunDone, "", jobs.OK, exitOK},
		{jobs.RunStopped, jobs.BudgetGone, jobs.Exhausted, exitDenied},
		{jobs.RunStopped, jobs.DoesNotFit, jobs.NotLaunched, exitDenied},
		{jobs.RunStopped, jobs.Closed, jobs.NotLaunched, exitDenied},
		{jobs.RunStopped, jobs.Operator, jobs.Interrupted, exitError},
		{jobs.RunStopped, jobs.UpstreamRefuses, jobs.Exhausted, exitError},
		{jobs.RunStopped, jobs.BudgetGone, jobs.Failed, exitError},
	} {
		c := &cli{stdout: io.Discard, stderr: io.Discard}
		run := jobs.Run{ID: "a", Ring: regions.Ring{"US"}, State: row.state, Stop: jobs.Stop{Reason: row.reason}, StartedAt: at, EndedAt: at,
			Passes: []jobs.Pass{{Region: "US", Outcome: row.outcome, StartedAt: at, EndedAt: at}}}
		if got := c.report(c.endOf(run)); got != row.want {
			t.Errorf("%+v: exit code %d", row, got)
		}
	}
}

// What a command line asks of the daemon, with which rights, how it ends and what it prints. Within a pass only what
// spends has the pass's token, and its credential is the one that is not named.
func TestQuestions(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("QUOTAD_SOCKET", filepath.Join(dir, "s"))
	t.Setenv("QUOTAD_TOKEN", "T")
	t.Setenv("QUOTAD_CREDENTIAL", "maps")
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	answers := map[string]string{ // by the end of the path; {} to others
		"/notify": `{"event": "low", "outcome": "failed", "detail": "exit status 1", "output": ["a \u001b[31mline"]}`,
		"/reload": `{"changed": "1 job", "warnings": ["it is <odd>"]}`,
		"/log":    `{"entries": [{"at": "2026-03-14T09:00:00Z", "kind": "denied", "note": "R&D <x>"}]}`,
		"/busy":   `{"last_run": {"id": "r1", "state": "running", "ring": ["-"]}}`,
		"/r1":     `{"id": "r1", "state": "done", "ring": ["-"]}`,
		"/over":   `{"name": "over", "credential": "tube"}`,
	}
	daemon := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path := strings.TrimPrefix(r.URL.String(), "/v1")
		if path != "/version" { // which an error asks for
			asked = append(asked, strings.TrimSpace(r.Method+path+" "+string(body)+r.Header.Get("Authorization")))
		}
		if strings.HasSuffix(r.URL.Path, "/busy/run") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, `{"status": 409, "reason": "conflict", "detail": "under way"}`)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/away/book") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"status": 503, "reason": "ledger_unavailable", "detail": "Redis is away"}`)
			return
		}
		io.WriteString(w, cmp.Or(answers[r.URL.Path[strings.LastIndex(r.URL.Path, "/"):]], "{}"))
	})}
	go daemon.Serve(listener)
	defer daemon.Close()
	for _, row := range []struct {
		line   string
		code   int
		asks   string // one after the other
		prints string // among other things, on stdout
		says   string // and on stderr
	}{
		{"acquire get --request-id a --count 2 --use-reserve --optional", 1,
			`POST/acquire {"operation":"get","count":2,"request_id":"a","use_reserve":true,"optional":true}Bearer T`, "", ""},
		{"settle g 4", 1, `POST/grants/g/settle {"units":4}Bearer T`, "", ""},
		{"why get", 1, `POST/acquire {"credential":"maps","operation":"get","count":1,"dry_run":true}Bearer T`, "", ""},
		{"why tube get --job over", 1,
			`GET/jobs/over, POST/acquire {"credential":"tube","operation":"get","count":1,"dry_run":true,"job":"over"}`, "", ""},
		{"why get --job remote/a", 1,
			`POST/acquire {"credential":"maps","operation":"get","count":1,"dry_run":true,"job":"remote/a"}`, "", ""},
		{"log", 0, "GET/log?credential=maps&most=1000&newest=true", "R&D", ""},
		{"log tube --since 2026-03-14T09:00:00Z", 0,
			"GET/log?credential=tube&most=1000&since=2026-03-14T09%3A00%3A00Z", "R&D", ""},
		{"log --denied -o json", 0, "GET/log?denied=true", `"R&D <x>"`, ""},
		{"runs j -n 7", 1, "GET/jobs/j, GET/runs?most=7", "", ""},
		{"pause j --for 90s --reason why", 0, `POST/jobs/j/pause {"note":"why","for_ms":90000}`, "", ""},
		{"pause j --end", 0, `POST/jobs/j/pause {"end":true}`, "", ""},
		{"close daily --until 2026-03-14T09:00:00+02:00 --reason why", 0,
			`POST/credentials/maps/close {"limit":"daily","until":"2026-03-14T09:00:00+02:00","note":"why"}`, "", ""},
		{"open tube daily", 0, `POST/credentials/tube/close {"limit":"daily","open":true}`, "", ""},
		{"book daily 1,500 --reason why", 0,
			`POST/credentials/maps/book {"limit":"daily","units":1500,"note":"why"}`, "", ""},
		{"book away daily 5", 1, `POST/credentials/away/book {"limit":"daily","units":5}`, "", "it may be booked all the same"},
		{"reset tube --yes --reason why", 0, `POST/credentials/tube/reset {"confirm":"tube","note":"why"}`, "", ""},
		{"run busy --wait", 0,
			"POST/jobs/busy/run {}, GET/jobs/busy, GET/runs/r1?ended=0&wait_ms=4000&written=0",
			"run done", "waiting for its end"},
		{"run busy --wait --region US", 1, `POST/jobs/busy/run {"regions":["US"]}`, "", "under way"},
		{"stop busy", 0, "GET/jobs/busy, POST/runs/r1/stop", "", ""},
		{"reload", 0, "POST/reload", "read again, keys too: 1 job\n", "quotactl: warning: it is <odd>\n"},
		{"notify low", 1, `POST/notify {"event":"low"}`, "a ?[31mline\nlow failed",
			"the command of low failed: exit status 1"},
		{"page --listen 192.0.2.1:0", 2, "", "", "knows no passwords"},
		{"page --listen :8042", 2, "", "", "knows no passwords"},
	} {
		var stdout, stderr strings.Builder
		c := &cli{stdout: &stdout, stderr: &stderr}
		root := newRoot(c)
		root.SetArgs(strings.Fields(row.line))
		asked = nil
		code := c.report(root.Execute())
		if got := strings.Join(asked, ", "); code != row.code || got != row.asks {
			t.Errorf("%s: exit code %d, want %d, asks\n%s, want\n%s", row.line, code, row.code, got, row.asks)
		}
		if !strings.Contains(stdout.String(), row.prints) || !strings.Contains(stderr.String(), row.says) {
			t.Errorf("%s: prints %s, want %q; says %s, want %q", row.line, &stdout, row.prints, &stderr, row.says)
		}
	}
}
