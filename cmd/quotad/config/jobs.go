package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/regions"
)

const (
	defaultTimeout   = 5 * time.Minute
	defaultKillGrace = 10 * time.Second
	// dataDir holds the working directories of jobs that name none.
	dataDir = "data"
)

// jobs reads [jobs.NAME] and checks each against the credentials.
func (r *reader) jobs(c *Config, t *table) {
	for _, name := range t.names() {
		one := t.table(name)
		job := r.job(name, one, c.StateDir)
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

func (r *reader) job(name string, t *table, stateDir string) *jobs.Job {
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
		ExhaustedCodes: r.exhaustedCodes(t),
		StopOnFailure:  r.stopOnFailure(t),
		Command:        r.command(t, "command"),
		Dir:            r.path(t, "dir"),
		Env:            r.env(t),
		Timeout:        t.duration("timeout", defaultTimeout),
		KillGrace:      t.duration("kill_grace", defaultKillGrace),
	}
	j.MissedWithin = r.missedWithin(t, j.Schedule)
	if j.Dir == "" {
		j.Dir = filepath.Join(stateDir, dataDir, name)
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
		expects[operation] = t.units(operation, 1)
	}
	return expects
}

// command returns the command at a key, its program as a path.
func (r *reader) command(t *table, key string) []string {
	command := t.texts(key)
	if len(command) == 0 || command[0] == "" {
		return command
	}
	path, err := process.Resolve(command[0], r.host.Programs, r.dir)
	if err != nil {
		t.fail(key, "%v", err)
		return command
	}
	return append([]string{path}, command[1:]...)
}

// env is what env_file holds, and over it the table env.
func (r *reader) env(t *table) map[string]string {
	env := r.envFile(t)
	named := t.table("env")
	for _, name := range named.names() {
		env[name] = named.text(name, "")
	}
	return env
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
