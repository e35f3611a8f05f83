package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
)

// A refused is a call that a preset's limits refuse, and what why offers then: what is executed
// for each cure.
type refused struct {
	name      string
	operation string
	spend     int      // calls, all that are granted
	extra     []string // lines of the configuration
	closes    string   // the limit that an operator closes
	count     int      // calls that why is asked about; 0: one
	want      []string // the kinds of cures, in their order
}

// The kinds of cures.
var cureKinds = map[string]*regexp.Regexp{
	"reserve":   regexp.MustCompile(`^spend from the reserve, as an operator: (quotactl acquire .* --use-reserve)$`),
	"wait":      regexp.MustCompile(`^wait until (.*)$`),
	"fewer":     regexp.MustCompile(`^ask for less: (\d+) calls? would be granted now$`),
	"open":      regexp.MustCompile(`^if the upstream is known to grant it again: (quotactl open .*)$`),
	"configure": regexp.MustCompile(`^(?:lower the reserve|raise the limit) in the configuration, then quotactl reload: (\S+ = \S+)$`),
}

// shareOf is a share of job j, which asks for what the file calls holds.
func shareOf(units int, costs string) []string {
	return []string{fmt.Sprintf(`credentials.x.limits.share = { units = %d, jobs = ["j"] }`, units), costs}
}

var sick = map[string][]refused{
	"youtube-classic": {
		{name: "the day is spent", operation: "search.list", spend: 100, want: []string{"wait"}},
		{name: "with a reserve", operation: "search.list", spend: 95, extra: []string{"credentials.x.limits.daily.reserve = 500"}, want: []string{"reserve", "wait", "configure"}},
		{name: "less fits", operation: "search.list", spend: 97, count: 4, want: []string{"wait", "fewer"}},
		{name: "a share", operation: "search.list", spend: 20, extra: shareOf(2_000, ""),
			want: []string{"wait", "configure"}},
		{name: "a share of the others", operation: "search.list", spend: 80, extra: []string{
			"credentials.x.limits.daily.reserve = 2_000", `credentials.x.limits.others = { units = 50, except_jobs = ["j"] }`},
			want: []string{"wait", "configure"}},
		{name: "closed", operation: "search.list", spend: 1, closes: "daily", want: []string{"wait", "open"}},
	},
	"youtube-2026-06": {
		{name: "the searches are spent", operation: "search.list", spend: 100, want: []string{"wait"}},
		{name: "fewer are configured than are granted", operation: "search.list", spend: 50,
			extra: []string{"credentials.x.limits.search.units = 50"}, want: []string{"wait"}},
		{name: "with a reserve", operation: "videos.list", spend: 9_500, extra: []string{"credentials.x.limits.daily.reserve = 500"}, want: []string{"reserve", "wait", "configure"}},
		{name: "a share", operation: "search.list", spend: 20,
			extra: shareOf(20, `credentials.x.operations."search.list" = { search = 1, share = 1 }`),
			want:  []string{"wait", "configure"}},
	},
	"openalex": {
		{name: "the day is spent", operation: "search", spend: 1_000, want: []string{"wait"}},
		{name: "less fits", operation: "search", spend: 997, count: 4, want: []string{"wait", "fewer"}},
		{name: "closed", operation: "list", spend: 1, closes: "daily", want: []string{"wait", "open"}},
	},
	"alpha-vantage": {{name: "the day is spent", operation: "query", spend: 25,
		extra: []string{"credentials.x.limits.second.units = 100"}, want: []string{"wait"}}},
	"google-maps": {{name: "the minute is spent", operation: "geocode", spend: 3_000, want: []string{"wait"}}},
	"omdb":        {{name: "the day is spent", operation: "query", spend: 1_000, want: []string{"wait"}}},
	"twelve-data": {
		{name: "the minute is spent", operation: "price", spend: 8, want: []string{"wait"}},
	},
	"search-console": {
		{name: "the minute is spent", operation: "sites.list", spend: 200, want: []string{"wait"}},
	},
	"github-rest": {
		{name: "the hour is spent", operation: "core", spend: 5_000, want: []string{"wait"}},
		{name: "with a reserve", operation: "core", spend: 4_900, extra: []string{"credentials.x.limits.core.reserve = 100"}, want: []string{"reserve", "wait", "configure"}},
		{name: "a share", operation: "core", spend: 200,
			extra: shareOf(200, `credentials.x.operations.core = { core = 1, share = 1 }`),
			want:  []string{"wait", "configure"}},
	},
}

// What why offers is accepted, and then the call is granted: for each preset, each cure alone.
func TestCuresOfWhy(t *testing.T) {
	seedtest.SkipUnderRace(t)
	if os.Getuid() != 0 {
		t.Skip("cures are an operator's")
	}
	t.Parallel()
	files, err := filepath.Glob("config/presets/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no presets: %v", err)
	}
	for _, file := range files {
		preset := strings.TrimSuffix(filepath.Base(file), ".toml")
		if sick[preset] == nil {
			t.Errorf("no refusal of preset %s is tried", preset)
		}
		for _, r := range sick[preset] {
			t.Run(preset+"/"+r.name, func(t *testing.T) {
				t.Parallel()
				s := newSickbed(t, preset, r)
				cures := s.fallIll()
				var kinds []string
				for _, c := range cures {
					kinds = append(kinds, c.kind)
				}
				if !slices.Equal(kinds, r.want) {
					t.Fatalf("why offers %q, want %q", cures, r.want)
				}
				for i, c := range cures {
					if i > 0 {
						s.fallIll()
					}
					s.try(c)
				}
			})
		}
	}
}

// A sickbed is a daemon that refuses a call.
type sickbed struct {
	*testing.T
	refused
	dir    string
	client string   // its socket
	lines  []string // of the configuration
}

func newSickbed(t *testing.T, preset string, r refused) *sickbed {
	s := &sickbed{T: t, refused: r, dir: shortDir(t)}
	s.client = filepath.Join(s.dir, ".quotad/quotad.sock")
	s.count = max(1, s.count)
	s.lines = append([]string{
		fmt.Sprintf("credentials.x.preset = %q", preset), `jobs.j.credential = "x"`, `jobs.j.regions = ["one"]`, `jobs.j.schedule = "manual"`,
		fmt.Sprintf(`jobs.j.command = ["sh", "-c", "quotactl acquire %s --count $(cat %s/calls)"]`, r.operation, s.dir),
	}, r.extra...)
	s.configure(s.lines)
	startIn(t, s.dir)
	return s
}

func (s *sickbed) configure(lines []string) {
	s.Helper()
	write(s.T, s.dir, "config.toml", strings.Join(lines, "\n"))
}

// quotactl runs a command and returns its exit code.
func (s *sickbed) quotactl(args ...string) (code int, output string) {
	cmd := exec.Command("quotactl", append([]string{"--socket", s.client}, args...)...)
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(text)
}

// must runs a command that is accepted.
func (s *sickbed) must(command string) string {
	s.Helper()
	code, output := s.quotactl(strings.Fields(command)...)
	if code != 0 {
		s.Fatalf("quotactl %s: exit code %d: %s", command, code, output)
	}
	return output
}

// calls makes calls, in job j where the limit is a share of it, and returns whether they are
// granted.
func (s *sickbed) calls(count int) bool {
	s.Helper()
	args := []string{"acquire", s.operation, "--credential", "x", "--count", strconv.Itoa(count)}
	if s.isShare() {
		write(s.T, s.dir, "calls", strconv.Itoa(count))
		args = []string{"run", "j", "--wait"}
	}
	code, output := s.quotactl(args...)
	if code != 0 && code != exitDenied {
		s.Fatalf("%q: exit code %d: %s", args, code, output)
	}
	return code == 0
}

const exitDenied = 75

func (s *sickbed) isShare() bool { return strings.Contains(strings.Join(s.extra, " "), "jobs = ") }

// A cure is what why offers.
type cure struct{ kind, what string }

// fallIll begins anew, until the call is refused, and returns what why offers then.
func (s *sickbed) fallIll() (cures []cure) {
	s.Helper()
	s.configure(s.lines)
	s.must("reload")
	s.must("reset x --yes")
	if !s.calls(s.spend) {
		s.Fatal("what is to be spent is refused")
	}
	if s.closes != "" {
		s.must("close x " + s.closes + " --until 1h")
	}
	if s.calls(s.count) {
		s.Fatal("the call is granted without a cure")
	}
	ask := fmt.Sprintf("why x %s --count %d", s.operation, s.count)
	if s.isShare() {
		ask += " --job j"
	}
	page := s.must(ask)
	_, list, _ := strings.Cut(page, "\nwhat would change it\n")
	list = strings.ReplaceAll(list, "\n    ", " ") // as the lines were before they were broken
next:
	for line := range strings.Lines(list) {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "- "))
		if strings.HasSuffix(text, "(if the upstream grants that many)") {
			continue // nobody here knows
		}
		for kind, is := range cureKinds {
			if found := is.FindStringSubmatch(text); found != nil {
				cures = append(cures, cure{kind, found[1]})
				continue next
			}
		}
		s.Errorf("an unknown cure: %q", text)
	}
	return cures
}

// try does what a cure says; then the call is granted.
func (s *sickbed) try(c cure) {
	s.Helper()
	switch c.kind {
	case "wait":
		s.wait()
		return
	case "reserve":
		s.must(strings.TrimPrefix(c.what, "quotactl "))
		return
	case "fewer":
		s.count, _ = strconv.Atoi(c.what)
		if s.calls(s.count + 1) {
			s.Errorf("more than the offered %s calls are granted", c.what)
		}
	case "open":
		s.must(strings.TrimPrefix(c.what, "quotactl "))
	case "configure":
		s.configure(set(s.lines, c.what))
		s.must("reload")
	}
	if !s.calls(s.count) {
		s.Errorf("the call is refused after %s", c.what)
	}
}

// set sets a key of a configuration.
func set(lines []string, line string) []string {
	key, value, _ := strings.Cut(line, " = ")
	isKey := func(l string) bool { return strings.HasPrefix(l, key+" = ") }
	if i := slices.IndexFunc(lines, isKey); i >= 0 {
		lines = slices.Clone(lines)
		lines[i] = line
		return lines
	}
	limit, member := key[:strings.LastIndex(key, ".")], key[strings.LastIndex(key, ".")+1:]
	for i, l := range lines {
		if strings.HasPrefix(l, limit+" = {") {
			lines = slices.Clone(lines)
			lines[i] = regexp.MustCompile(`\b`+member+` = [^,}]*`).ReplaceAllString(l, member+" = "+value)
			return lines
		}
	}
	return append(slices.Clone(lines), line)
}

// wait plays the same by a clock that can be set: the call is granted at the time that why names,
// and not before.
func (s *sickbed) wait() {
	s.Helper()
	c, err := config.Load(filepath.Join(s.dir, "config.toml"), config.Host{Programs: filepath.Dir(s.client)})
	must(s, err)
	clock := ledgertest.NewClock(time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC))
	service, err := quota.NewService(ledgertest.NewModel(clock.Now), c.Credentials, time.Second)
	must(s, err)
	r := quota.Request{Credential: "x", Operation: s.operation, Count: quota.Units(s.spend), Caller: quota.Caller{UID: -1}}
	if s.isShare() {
		r.Caller.Job = "j"
	}
	acquire := func() {
		s.Helper()
		if d, err := service.Acquire(s.Context(), r); err != nil || !d.Granted() {
			s.Errorf("at %s: got %+v, %v, want it granted", clock.Now(), d, err)
		}
	}
	acquire()
	if s.closes != "" {
		closing := quota.Change{Kind: quota.KindClosing, Limit: s.closes, Until: clock.Now().Add(time.Hour)}
		if d, changed, err := service.ChangeLimit(s.Context(), "x", closing); err != nil || !changed {
			s.Fatalf("got %+v, %v", d, err)
		}
	}
	r.Count = quota.Units(s.count)
	e, err := service.Why(s.Context(), r)
	if err != nil || e.RetryAt.IsZero() {
		s.Fatalf("got %+v, %v, want a time", e, err)
	}
	clock.Set(e.RetryAt.Add(-time.Millisecond))
	if early, err := service.Why(s.Context(), r); err != nil || early.Granted() {
		s.Errorf("got %+v, %v, want it refused until %s", early, err, e.RetryAt)
	}
	clock.Set(e.RetryAt)
	acquire()
}
