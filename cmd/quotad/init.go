package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/crontab"
	"quotad/jobs"
	"quotad/jobs/scheduler"
	"quotad/quota"
)

const initUsage = `quotad init writes a first configuration. Its limits are those of a preset, and only
observe: nothing is refused. Without a preset two lines are left for you to fill in.
Each line of a crontab becomes a job; what cannot be kept is printed.

Usage:
  quotad init [--preset NAME] [--from-crontab FILE] [--config FILE]

Flags:
  --preset NAME        the provider that the jobs call; quotad --presets has them;
                       leave it away for another one
  --from-crontab FILE  a crontab; - reads what crontab -l prints
  --config FILE        the file to write (default ./config.toml); it must not be there

Example:
  $ crontab -l | quotad init --preset youtube-2026-06 --from-crontab -
`

// A starter is a first configuration that is being written.
type starter struct {
	bytes.Buffer
	preset config.Preset // without one, its name is that of the credential alone
	now    time.Time
	notes  []crontab.Note
	source string // of the crontab
}

// initialize carries out quotad init.
func initialize(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("quotad init", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	preset, source, file := flags.String("preset", "", ""), flags.String("from-crontab", "", ""), flags.String("config", localConfig, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, initUsage)
		return exitOK
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	s := &starter{now: time.Now(), source: *source, preset: config.Preset{Name: "api", Upstream: "the API", Flat: true}}
	if err == nil && *preset != "" {
		if s.preset, err = config.FindPreset(*preset); err != nil {
			err = fmt.Errorf("%w; for another API leave --preset away", err)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "quotad: error: %v\nquotad: hint: see quotad init --help\n", err)
		return exitUsage
	}
	if err := s.write(*file, stdin); err != nil {
		return fail(stderr, err)
	}
	slices.SortStableFunc(s.notes, func(a, b crontab.Note) int { return a.Line - b.Line })
	for _, n := range s.notes {
		fmt.Fprintf(stderr, "%s:%d: %s\n", s.source, n.Line, n.Text)
	}
	fmt.Fprintf(stdout, "wrote %s; next:\n", *file)
	if *preset == "" {
		fmt.Fprintln(stdout, "  fill in the lines that say "+fillIn)
	}
	fmt.Fprintf(stdout, "  quotad --check --config %s\n", *file)
	if s.preset.Upstream != "" {
		fmt.Fprintf(stdout, "  have the jobs call $QUOTAD_PROXY instead of %s\n", s.preset.Upstream)
	}
	fmt.Fprint(stdout, "  take the lines out of the crontab, and start quotad\n  after a week: quotactl report --since 7d\n")
	return exitOK
}

func (s *starter) write(file string, stdin io.Reader) error {
	var list []crontab.Job
	if s.source != "" {
		if s.source != "-" {
			file, err := os.Open(s.source)
			if err != nil {
				return err
			}
			defer file.Close()
			stdin = file
		}
		text, err := io.ReadAll(stdin)
		if err != nil {
			return err
		}
		list, s.notes = crontab.Parse(string(text), func(name string) bool { _, err := user.Lookup(name); return err == nil })
	}
	s.head()
	for _, job := range list {
		s.job(job)
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: name another file by --config", err)
	} else if err != nil {
		return err
	}
	_, err = out.Write(s.Bytes())
	return errors.Join(err, out.Close())
}

func (s *starter) note(line int, format string, args ...any) {
	s.notes = append(s.notes, crontab.Note{Line: line, Text: fmt.Sprintf(format, args...)})
}

func (s *starter) line(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// credential is the name of the credential: that of the preset, without its version.
func (s *starter) credential() string {
	name, _, _ := strings.Cut(s.preset.Name, "-")
	return name
}

func (s *starter) head() {
	s.line("# Written by quotad init. The limits only observe: quotad counts and refuses nothing. After a week,")
	s.line("# quotactl report --since 7d says what would have been refused, and what to write here.\n")
	s.line("[ledger]\nbackend = \"embedded\"\n")
	if s.preset.Upstream != "" {
		s.line("# Jobs call the address in $QUOTAD_PROXY instead of %s.\n[proxy]\nlisten = \"127.0.0.1:8650\"\n", s.preset.Upstream)
	}
	s.line("[credentials.%s]", s.credential())
	if s.preset.Checked.IsZero() {
		s.line(frame)
	} else {
		s.line("preset = %s", inQuotes(s.preset.Name))
	}
	if s.preset.Upstream != "" {
		s.line("proxy.key = \"caller\" # each job sends its own key, as before")
	}
	for _, name := range s.preset.LimitNames {
		s.line("limits.%s.enforce = false", name)
	}
	if s.preset.Flat {
		s.line("limits.week = { units = 1_000_000_000, window = \"7d\", enforce = false } # keeps the log for the report")
	}
}

// fillIn is what --check refuses until you write the facts of your API, and frame a credential without a preset.
const (
	fillIn = `"FILL IN"`
	frame  = `limits.daily = { units = ` + fillIn + `, window = "24h", enforce = false } # what the API allows a day; or window = { calendar = "day", timezone = "UTC" }
operations.call = 1 # what a call costs
proxy.upstream = ` + fillIn + ` # its address: "https://api.weather.example"
proxy.routes = { "* /**" = "call" } # calls that cost more want an operation and a route of their own`
)

// maxTimeout is the longest timeout that is written. What never ends is ended by it, and a pass that could wait for a day's
// budget would be asked to.
const maxTimeout = time.Hour

// job writes a job, or notes why it is left out.
func (s *starter) job(j crontab.Job) {
	zone := cmp.Or(j.Zone, hostZone())
	location, err := time.LoadLocation(zone)
	var schedule jobs.Schedule
	if err == nil {
		schedule, err = scheduler.ParseCron(j.Schedule, location)
	}
	if err != nil {
		s.note(j.Line, "%v: left out", err)
		return
	}
	home := cmp.Or(j.Home, homeOf(j.User))
	if j.User != "" {
		if own, err := user.Current(); err != nil || own.Username != j.User {
			s.note(j.Line, "cron runs it as %s, quotad runs all jobs as one user: see user in [passes]", j.User)
		}
	}
	first := schedule.Next(s.now)
	period := min(maxTimeout, schedule.Next(first).Sub(first))
	s.line("\n[jobs.%s] # line %d of the crontab", j.Name, j.Line)
	s.line("credential = %s\ncron = %s\ntimezone = %s", inQuotes(s.credential()), inQuotes(j.Schedule), inQuotes(zone))
	s.line("missed = \"skip\" # as cron does")
	s.line("timeout = %s # cron has none", inQuotes(quota.Brief(period)))
	if info, err := os.Stat(home); err == nil && info.IsDir() {
		closed := ""
		if info.Mode()&1 == 0 {
			closed = " # under systemd the user of the jobs, quotad-jobs, cannot enter it: move what the command needs, and name its directory"
		}
		s.line("dir = %s%s", inQuotes(home), closed)
	} else {
		s.note(j.Line, "its directory %s is not here: the job gets one of its own", home)
	}
	if script, _, _ := strings.Cut(j.Command, " "); strings.Contains(script, "/") {
		if !filepath.IsAbs(script) {
			script = filepath.Join(home, script)
		}
		if info, err := os.Stat(script); err == nil && info.Mode()&0o111 == 0 {
			s.note(j.Line, "%s is not executable, and fails in the crontab too: chmod +x", script)
		}
	}
	s.line("command = [%s, \"-c\", %s]", inQuotes(j.Shell), inQuotes(j.Command))
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		s.line("env.%s = %s", name, inQuotes(j.Env[name]))
	}
}

// inQuotes writes a string as TOML has it, which is as JSON has it.
func inQuotes(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a string can be written
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// homeOf returns the home of a user; without a name, of ours.
func homeOf(name string) string {
	if u, err := user.Lookup(name); err == nil {
		return u.HomeDir
	}
	home, _ := os.UserHomeDir()
	return home
}

// hostZone returns the name of the time zone of this host, by which cron goes; UTC if it has none.
func hostZone() string {
	link, _ := filepath.EvalSymlinks("/etc/localtime")
	_, name, _ := strings.Cut(link, "/zoneinfo/")
	if zone := cmp.Or(strings.TrimPrefix(os.Getenv("TZ"), ":"), name); zone != "" && zone != "Local" {
		return zone
	}
	return "UTC"
}
