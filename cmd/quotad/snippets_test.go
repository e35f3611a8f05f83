package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
	"quotad/quota/seedtest"
)

// snippets are the pages' jobs that do not call upstream.
var snippets = []struct{ file, program string }{{"fetch.py", "python3"}, {"fetch.mjs", "node"}, {"fetch.php", "php"}}

// cannotRun returns why a snippet could not run by a program.
func cannotRun(program string) error {
	if program == "php" {
		return exec.Command("php", "-r", "exit((int) !function_exists('curl_init'));").Run()
	}
	_, err := exec.LookPath(program)
	return err
}

// snippetConfig has room for one call of two of a snippet.
const snippetConfig = `
[credentials.%[1]s]
limits.daily.units = 1
operations."videos.list" = 1
[jobs.%[1]s]
credential = "%[1]s"
regions = ["US", "GB"]
schedule = "manual"
command = %[2]s
`

// The examples as passes of a daemon: granted, denied, and without a daemon.
func TestReadmeSnippets(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	// Where no program is, quotad starts all the same.
	text, commands := "[credentials.api]\nlimits.daily.units = 1\noperations.list = 1\n", map[string][]string{}
	for _, s := range snippets {
		file, err := filepath.Abs("../../quota/api/examples/" + s.file)
		must(t, err)
		commands[s.program] = []string{s.program, file}
		list, err := json.Marshal(commands[s.program]) // as TOML has it too
		must(t, err)
		if cannotRun(s.program) == nil {
			text += fmt.Sprintf(snippetConfig, s.program, list)
		}
	}
	_, client := startWith(t, text)
	for _, s := range snippets {
		t.Run(s.file, func(t *testing.T) {
			if err := cannotRun(s.program); err != nil {
				t.Skip(err)
			}
			_, err := (jobsapi.Client{Client: client}).Begin(t.Context(), s.program, jobsapi.RunRequest{})
			must(t, err)
			if got, want := outcomesOf(lastRun(t, client, s.program)), "US ok 1, GB exhausted 0"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			checkUnreachable(t, commands[s.program])
		})
	}
}

// lastRun waits for the end of a job's only run.
func lastRun(t *testing.T, client *api.Client, job string) (run jobs.Run) {
	t.Helper()
	operator := jobsapi.Client{Client: client}
	eventually(t, func() bool {
		runs, err := operator.Runs(t.Context(), jobsapi.Selection{Job: job})
		must(t, err)
		if len(runs) == 0 || runs[0].EndedAt.IsZero() {
			return false
		}
		run, err = operator.Run(t.Context(), runs[0].ID)
		must(t, err)
		return true
	})
	return run
}

func outcomesOf(r jobs.Run) string {
	var passes []string
	for _, p := range r.Passes {
		passes = append(passes, fmt.Sprintf("%s %s %d", p.Region, p.Outcome, p.Units))
	}
	return strings.Join(passes, ", ")
}

// tails is what the passes of a run said last.
func tails(r jobs.Run) (text string) {
	for _, p := range r.Passes {
		text += strings.Join(p.Tail, "\n")
	}
	return text
}

// checkUnreachable: no daemon is neither a grant nor a denial.
func checkUnreachable(t *testing.T, command []string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "QUOTAD_SOCKET="+filepath.Join(t.TempDir(), "none.sock"), "QUOTAD_TOKEN=t")
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() == 75 {
		t.Errorf("without a daemon: %v, want it to fail by a code that is not 75\n%s", err, output)
	}
}

// commandsConfig has the names that the README's commands have.
const commandsConfig = `
[credentials.youtube]
preset = "youtube-classic"
limits.daily.reserve = 500
limits.discover = { units = 2_000, jobs = ["page"] }
[jobs.page]
credential = "youtube"
regions = ["US", "GB"]
cron = "$FAR * * *"
stagger = "0s"
run_at_start = true
command = ["true"]
[jobs.trending]
credential = "youtube"
regions = ["US"]
schedule = "manual"
command = ["true"]
[clients.public]
units = 60
window = "1m"
[on_event]
command = ["true"]
`

// Every quotactl command that the pages name is one, and does what it can.
func TestReadmeCommands(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	_, client := startWith(t, commandsConfig)
	t.Run("and every route", func(t *testing.T) { pageListsEveryRoute(t, client) })
	names := strings.NewReplacer("JOB", "page", "OPERATION", "videos.list", "COMMAND", "true", "REGION", "US", "NAME", "public", "EVENT", "low", "CREDENTIAL LIMIT UNITS", "youtube daily 1", "RUN", lastRun(t, client, "page").ID)
	var text string
	for _, page := range userPages(t) {
		text += readPage(t, page)
	}
	commands := regexp.MustCompile("`quotactl( [^`]*)?`").FindAllStringSubmatch(text, -1)
	if len(commands) < 30 {
		t.Fatalf("the pages name %d commands", len(commands))
	}
	slices.SortFunc(commands, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	for _, command := range slices.CompactFunc(commands, func(a, b []string) bool { return a[1] == b[1] }) {
		args := strings.Fields(names.Replace(command[1]))
		within := hangTimeout
		if slices.Contains(args, "-f") || command[1] == " page" {
			within = time.Second // it has no end
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		cmd := exec.CommandContext(ctx, "quotactl", append([]string{"--socket", client.Socket}, args...)...)
		output, _ := cmd.CombinedOutput()
		cancel()
		if named := len(args) == 1 && cmd.ProcessState.ExitCode() == 2; named { // without what it takes
			output, _ = exec.Command("quotactl", "help", args[0]).CombinedOutput()
			if !strings.Contains(string(output), "quotactl "+args[0]) {
				t.Errorf("%v: %s", args, output)
			}
			continue
		}
		// Its run has ended or is under way, a user other than root may not operate, there is no
		// terminal, and Kill ends what follows.
		refused := regexp.MustCompile(`error: (job "\w+": a run of the job is under way|job "page" has no run under way|run "\w+": not found|user \w+ may |jobs run as user |--watch redraws |denied: limit daily is closed)`).Match(output)
		if code := cmd.ProcessState.ExitCode(); code != 0 && !refused && within == hangTimeout {
			t.Errorf("%v: exit code %d\n%s", args, code, output)
		}
	}
}
