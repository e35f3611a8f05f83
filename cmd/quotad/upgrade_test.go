package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

// formerVariable names the commit or the tag of the version before.
const formerVariable = "QUOTAD_TEST_UPGRADE"

// Each pass spends a unit, adds to a file and fails.
const pagesJob = `
[credentials.api]
limits.daily.units = 100
operations.list = 1
[jobs.pages]
credential = "api"
regions = ["one", "two"]
schedule = "manual"
command = ["sh", "-c", '''
quotactl acquire list >/dev/null &&
echo "$QUOTAD_RUN_ID" >>"$QUOTAD_JOB_DIR/$QUOTAD_REGION"
exit 1''']
`

// TestUpgrade upgrades a daemon, and rolls it back after a kill, with its ledger in a file and in Redis: what was spent
// stays spent, a request id stays used, and jobs continue where they were.
func TestUpgrade(t *testing.T) {
	former := formerQuotad(t)
	for name, ledger := range map[string]func(*testing.T) string{
		"embedded": func(*testing.T) string { return onFile },
		"redis":    func(t *testing.T) string { return onRedis(redistest.Start(t).Addr) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			write(t, dir, "config.toml", "[ledger]\n"+ledger(t)+pagesJob)
			h := &upgraded{t: t, dir: dir, former: former, client: clientIn(dir)}
			h.is.Runs = []keptRun{}
			first := h.under(former, syscall.SIGTERM)
			if again := h.under("quotad", syscall.SIGTERM); again != first {
				t.Errorf("the request id of %s is granted again, as %s", first, again)
			}
			h.under(former, syscall.SIGKILL)
			h.under("quotad", syscall.SIGTERM)
			if want := int64(4*2 + 1 + 4); h.is.Used != want || len(h.is.Runs) != 4 || h.is.Passes != 4 || h.is.Note != "by hand" {
				t.Errorf("got %+v, want %d units, four runs, and what each pass added", h.is, want)
			}
		})
	}
}

// upgraded is the state that one version after the other uses.
type upgraded struct {
	t      *testing.T
	dir    string
	former string // the quotad before
	client *api.Client
	is     kept // as the last version left it
}

// kept is what outlives an upgrade.
type kept struct {
	Used   int64
	Runs   []keptRun
	Passes int // of region one
	Note   string
}

type keptRun struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// under has a version find what the one before left, then spend, run and pause, and ends it by a signal. It returns
// the grant of a request that all of them make.
func (h *upgraded) under(program string, end syscall.Signal) (grant string) {
	h.t.Helper()
	daemon := startProgram(h.t, h.dir, program)
	if found := h.look(); !reflect.DeepEqual(found, h.is) {
		h.t.Errorf("%s finds %+v, the version before left %+v", program, found, h.is)
	}
	for _, id := range []string{"the same", ""} {
		d, err := h.client.Acquire(context.Background(), api.AcquireRequest{Credential: "api", Operation: "list", RequestID: id})
		if err != nil || !d.Granted {
			h.t.Fatalf("%s: got %+v, %v, want a grant", program, d, err)
		}
		if id != "" {
			grant = d.GrantID
		}
	}
	run := quotactlIn(h.dir, "run", "pages", "--wait")
	run.Path = filepath.Join(filepath.Dir(daemon.cmd.Path), "quotactl") // a newer one asks what an older quotad does not know
	if output, err := run.CombinedOutput(); run.ProcessState.ExitCode() != 1 {
		h.t.Fatalf("%s: a run: %v, want that its passes fail:\n%s", program, err, output)
	}
	old := quotactlIn(h.dir, "status")
	old.Path = filepath.Join(filepath.Dir(h.former), "quotactl")
	if output, err := old.CombinedOutput(); err != nil || !strings.Contains(string(output), "api daily") {
		h.t.Errorf("%s: the quotactl before: %v, want that it understands the answer:\n%s", program, err, output)
	}
	jobs := jobsapi.Client{Client: h.client}
	if _, err := jobs.Pause(context.Background(), "pages", jobsapi.PauseRequest{Note: "by hand"}); err != nil {
		h.t.Fatal(err)
	}
	h.is = h.look()
	must(h.t, daemon.cmd.Process.Signal(end))
	<-daemon.done
	return grant
}

func (h *upgraded) look() (k kept) {
	h.t.Helper()
	k.Used = usedNow(h.t, h.client)
	job, err := (&jobsapi.Client{Client: h.client}).Job(context.Background(), "pages")
	must(h.t, err)
	if job.Pause != nil {
		k.Note = job.Pause.Note
	}
	text, _ := os.ReadFile(filepath.Join(h.dir, ".quotad/data/pages/one"))
	k.Passes = strings.Count(string(text), "\n")
	must(h.t, json.Unmarshal([]byte(h.print("runs", "pages", "-o", "json")), &k.Runs))
	return k
}

func (h *upgraded) print(args ...string) string {
	h.t.Helper()
	output, err := quotactlIn(h.dir, args...).Output()
	if err != nil {
		h.t.Fatalf("quotactl %v: %v", args, err)
	}
	return string(output)
}

// formerQuotad builds the version before, and returns the path of its quotad.
func formerQuotad(t *testing.T) string {
	t.Helper()
	commit := os.Getenv(formerVariable)
	if commit == "" {
		t.Skipf("set %s to the version before", formerVariable)
	}
	tree, bin := t.TempDir(), t.TempDir()
	for _, command := range []*exec.Cmd{
		exec.Command("git", "-C", "../..", "archive", "--output", filepath.Join(tree, "tree.tar"), commit+"^{tree}"),
		exec.Command("tar", "-x", "-C", tree, "-f", filepath.Join(tree, "tree.tar")),
		exec.Command("go", "build", "-C", tree, "-trimpath", "-o", bin, "./cmd/quotad", "./cmd/quotactl"),
	} {
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command.Args, err, output)
		}
	}
	return filepath.Join(bin, "quotad")
}
