package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/regions"
)

const (
	defaultTimeout   = 5 * time.Minute
	defaultKillGrace = 10 * time.Second
)

// DataDir holds the working directories of jobs that name none.
func (c *Config) DataDir() string { return filepath.Join(c.StateDir, "data") }

// jobs reads [jobs.NAME] and checks each against the credentials.
func (r *reader) jobs(c *Config, t *table) {
	tables := t.tables("trending")
	for _, name := range t.names() {
		one := tables[name]
		if one == nil {
			continue
		}
		job := r.job(name, one, c)
		wrong := job.Validate(c.Credentials)
		for _, w := range wrong {
			if slices.Equal(w.Path, []string{"schedule"}) {
				w.Path = []string{"cron"} // of the two, only a cron line may never come
			}
		}
		one.adopt(wrong)
		c.Jobs = append(c.Jobs, job)
	}
}

func (r *reader) job(name string, t *table, c *Config) *jobs.Job {
	t.require("credential", `"…", the one that its calls are charged to`)
	t.require("regions", `["US"]`)
	t.require("command", `["ytfetch", "trending"]`)
	j := &jobs.Job{
		Name:           name,
		Credential:     t.text("credential", ""),
		Regions:        r.regions(t),
		Schedule:       r.schedule(t),
		Stagger:        r.stagger(t),
		Parallel:       parallel(t),
		RunAtStart:     t.flag("run_at_start"),
		Expects:        r.expects(t.table("expects")),
		UseReserve:     t.flag("use_reserve"),
		UnitsPerRun:    unitsPerRun(t),
		ExhaustedCodes: r.exhaustedCodes(t),
		StopOnFailure:  r.stopOnFailure(t),
		Command:        r.command(t, "command"),
		Dir:            r.path(t, "dir"),
		Timeout:        t.duration("timeout", defaultTimeout),
		KillGrace:      t.duration("kill_grace", defaultKillGrace),
	}
	j.Env, j.Secrets = r.env(t)
	j.MissedWithin = r.missedWithin(t, j.Schedule)
	if j.Dir == "" {
		j.Dir = filepath.Join(c.DataDir(), name)
	}
	t.end()
	return j
}

// regions leaves out what is wrong with the ring, once noted with its line.
func (r *reader) regions(t *table) regions.Ring {
	var ring regions.Ring
	for i, text := range t.texts("regions") {
		region := regions.Region(text)
		err := region.Check()
		if err == nil && slices.Contains(ring, region) {
			err = fmt.Errorf("region %q is listed twice: remove one", region)
		}
		if err != nil {
			r.document.fail(t.at("regions", element(i)), "%v", err)
			continue
		}
		ring = append(ring, region)
	}
	return ring
}

// stagger is "even", which is the default, or a duration.
func (r *reader) stagger(t *table) time.Duration {
	const even = "even"
	text, ok := read[string](t, "stagger", `"even" or a duration in quotes, `+durationExamples)
	if !ok || text == even {
		return jobs.EvenStagger
	}
	d, err := parseDuration(text)
	if err != nil {
		t.fail("stagger", `%v; or write "even"`, err)
		return jobs.EvenStagger
	}
	return d
}

func (r *reader) expects(t *table) map[string]quota.Units {
	expects := map[string]quota.Units{}
	for _, operation := range t.names() {
		if names := unquoted(t, operation, nil); len(names) > 0 {
			t.failUnquoted(operation, names)
			continue
		}
		expects[operation] = t.units(operation, 1)
	}
	return expects
}

// unitsPerRun returns 0 where the key is missing: what the limits allow.
func unitsPerRun(t *table) quota.Units {
	const key = "units_per_run"
	units := t.units(key, 0)
	if t.has(key) && units < 1 {
		t.fail(key, "must be at least 1: %d; leave it out for as much as the limits allow", units)
		return 0
	}
	return units
}

// command returns the command at a key, its program as a path.
func (r *reader) command(t *table, key string) []string {
	if line, ok := t.values[key].(string); ok {
		t.has(key)
		t.fail(key, "must be an array of strings, %s, not the string %q", asCommand(line), line)
		return nil
	}
	command := t.texts(key)
	if len(command) == 0 || command[0] == "" {
		return command
	}
	path, err := process.Resolve(command[0], r.host.Programs, r.dir)
	if err != nil {
		t.fail(key, "%v%s", err, cureOfProgram(command[0]))
		return command
	}
	if i := slices.IndexFunc(command, isShell); i > 0 {
		t.warn(key, "%q is handed to the program as it is, since no shell reads a command: for a pipeline, write %s", command[i], asCommand(strings.Join(command, " ")))
	}
	return append([]string{path}, command[1:]...)
}

// cureOfProgram says what a shell would have made of the name of a program.
func cureOfProgram(name string) string {
	variable, _, assigned := strings.Cut(name, "=")
	switch {
	case assigned && isVariable(variable):
		return "; a variable is set in env = { " + variable + " = \"…\" }"
	case strings.HasPrefix(name, "~"):
		return "; ~ is not known here: write the whole path"
	case strings.ContainsAny(name, " \t|<>&;"):
		return "; if that is a whole line, write " + asCommand(name)
	}
	return ""
}

// isShell tells whether a word of a command looks as if a shell were to read it.
func isShell(word string) bool {
	return slices.Contains([]string{"|", "||", "&", "&&", "<", ">", ">>", "2>&1"}, word)
}

// asCommand writes a line as the array that a command is.
func asCommand(line string) string {
	if strings.ContainsAny(line, "|<>&;$*?`\"'\\") {
		return `["sh", "-c", ` + strconv.Quote(line) + `]`
	}
	return "[" + quoted(strings.Fields(line)) + "]"
}

// shortestSecret is how long a value of an env_file is that is kept out of logs. A
// shorter one would be found in all sorts of words.
const shortestSecret = 8

// env is what env_file holds, and over it the table env.
func (r *reader) env(t *table) (env map[string]string, secrets []string) {
	env = r.envFile(t)
	for _, value := range env {
		if len(value) >= shortestSecret {
			secrets = append(secrets, value)
		}
	}
	slices.Sort(secrets)
	named := t.table("env")
	for _, name := range named.names() {
		if !isVariable(name) {
			named.fail(name, "is no name of a variable: that is made of letters, digits and '_'")
		}
		env[name] = named.text(name, "")
	}
	return env, secrets
}

// exhaustedCodes returns nil where the key is missing.
func (r *reader) exhaustedCodes(t *table) []int {
	const key = "exhausted_exit_codes"
	array, ok := read[[]any](t, key, "an array of exit codes, such as [75, 100]")
	if ok && len(array) == 0 {
		t.fail(key, "must hold at least one exit code, such as 75: leave it out for that one")
	}
	var codes []int
	for i, value := range array {
		code, ok := value.(int64)
		if !ok {
			t.document.fail(t.at(key, element(i)), "must hold whole numbers, not %s", describe(value))
			continue
		}
		codes = append(codes, int(code))
	}
	return codes
}

// stopOnFailure tells whether a pass that fails ends its run.
func (r *reader) stopOnFailure(t *table) bool {
	const goOn, stop = "continue", "stop"
	return t.oneOf("on_failure", goOn, goOn, stop) == stop
}
