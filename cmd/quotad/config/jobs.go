package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"quotad/jobs"
	"quotad/jobs/scheduler"
	"quotad/regions"
)

// jobs sets the jobs, and checks each against the credentials.
func (c *Config) jobs() {
	for _, name := range c.names("jobs") {
		one := c.fileTable.Jobs[name]
		job := one.job(name)
		job.Files = filepath.Join(c.DataDir(), name)
		job.Dir = cmp.Or(job.Dir, job.Files)
		wrong := job.Validate(c.Credentials)
		for _, w := range wrong {
			if slices.Equal(w.Path, []string{"schedule"}) {
				w.Path = []string{"cron"} // only a cron line may never come
			}
		}
		one.addErrors(wrong)
		if c.Ledger.Backend != OnRedis && job.Host != "" && job.Host != c.Name {
			job.Schedule, job.RunAtStart = jobs.Unscheduled{}, false // that host does not share this ledger
		}
		c.Jobs = append(c.Jobs, job)
	}
	for _, job := range c.Jobs {
		if err := job.CheckAfter(c.Jobs); err != nil {
			c.fileTable.Jobs[job.Name].fail("after", "%v", err)
		}
	}
}

func (t *jobTable) job(name string) *jobs.Job {
	j := t.Job
	j.Name, j.CatchUp, j.Schedule = name, t.Missed == "once", t.schedule()
	if !t.has("regions") {
		j.Regions = regions.Ring{regions.None}
	}
	if t.RetryAfter > 0 && t.Retry == 0 {
		t.fail("retry_after", "needs retry, which says how often: retry = 1")
	}
	j.Env, j.Secrets = t.env()
	if !t.has("stagger") && j.Schedule != nil && !j.StaggerFits() {
		j.Stagger = jobs.EvenStagger
	}
	if !t.has("max_wait") && j.Schedule != nil {
		j.MaxWait = jobs.DefaultMaxWait(j.Schedule)
	}
	return &j
}

// minSecret is the minimum length of a value of an env_file that is kept out of logs. A
// shorter one would match parts of ordinary words.
const minSecret = 8

// env returns the variables of env_file, overridden by the table env.
func (t *jobTable) env() (env map[string]string, secrets []string) {
	env = t.envFile()
	for _, value := range env {
		if len(value) >= minSecret {
			secrets = append(secrets, value)
		}
	}
	slices.Sort(secrets)
	for name, value := range t.Env {
		env[name] = value
		if isKey := keyName.MatchString(name) && len(value) >= 2*minSecret && value[0] != '/'; isKey || keyText.MatchString(value) {
			t.at("env", name).warn("holds a key, and readers of this file have it: write it into env_file, or into key_file of the proxy")
			secrets = append(secrets, value)
		}
	}
	if slices.ContainsFunc(t.Command, keyText.MatchString) {
		t.at("command").warn("holds a key, which ps shows to everybody on this host: write it into env_file, or into key_file of the proxy")
	}
	return env, secrets
}

// What names a key, and what a key looks like: those of Google, of GitHub and of language models, and
// the value of a parameter that is named so.
var (
	keyName = regexp.MustCompile(`(?i)(key|token|secret|password)$`)
	keyText = regexp.MustCompile(`AIza[\w-]{30,}|gh[pousr]_\w{30,}|github_pat_\w{30,}|sk-[\w-]{20,}|((?i:key|token|secret|password)=)[^&\s$"']{16,}`)
)

// schedule reads every, or cron with its timezone, or schedule. It is nil where
// none of the keys is there. One that cannot be read counts as daily.
func (t *jobTable) schedule() jobs.Schedule {
	switch {
	case t.has("schedule"):
		return t.manual()
	case t.has("every") && t.has("cron"):
		t.fail("cron", "cannot be combined with every: remove one of the two")
	case t.has("timezone") && !t.has("cron"):
		t.fail("timezone", "works only with cron: remove it")
	}
	var schedule jobs.Schedule
	var err error
	key := "every"
	switch {
	case t.has("every"):
		schedule, err = jobs.NewEvery(t.Every)
	case t.has("cron"):
		key = "cron"
		schedule, err = scheduler.ParseCron(asCron(t.Cron), t.Timezone)
		if step := longStep(t.Cron); step != "" {
			err = fmt.Errorf("a step of %s never comes within a field that ends at 59: for a period, write every = \"%sm\"", step, step)
		} else if err != nil && badField.MatchString(err.Error()) {
			err = fmt.Errorf("%w; a line has minute (0-59), hour (0-23), day (1-31), month (1-12) and weekday (0-7)", err)
		}
	}
	if err != nil {
		t.fail(key, "%v", err)
		return jobs.Every{Period: day}
	}
	return schedule
}

// asCron returns a cron line with Sunday as 0, which crond knows as 7, too.
func asCron(line string) string {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return line
	}
	days := strings.Split(fields[len(fields)-1], ",")
	for i, day := range days {
		if from, found := strings.CutSuffix(day, "-7"); found {
			days[i] = from + "-6,0"
		} else if day == "7" {
			days[i] = "0"
		}
	}
	fields[len(fields)-1] = strings.Join(days, ",")
	return strings.Join(fields, " ")
}

// longStep returns the step of a cron line that is longer than any field, or "".
func longStep(line string) string {
	for _, step := range steps.FindAllStringSubmatch(line, -1) {
		if n, err := strconv.Atoi(step[1]); err != nil || n >= 60 {
			return step[1]
		}
	}
	return ""
}

var (
	steps    = regexp.MustCompile(`/(\d+)`)
	badField = regexp.MustCompile(`expected|range|parse`)
)

// manual returns the schedule of a job that only a person runs. Keys that say when a run or
// its passes begin are errors with it.
func (t *jobTable) manual() jobs.Schedule {
	if t.Schedule != "" && t.Schedule != "manual" {
		t.fail("schedule", `must be "manual", not %q: write a period as every, and a cron line as cron`, t.Schedule)
	}
	for _, key := range []string{"every", "cron", "timezone", "after", "stagger", "missed"} {
		if t.has(key) {
			t.fail(key, `has no effect with schedule = "manual": remove one of the two`)
		}
	}
	return jobs.Unscheduled{}
}

// envFile reads the file that env_file names: NAME=value on each line, except blank
// lines and comments. Its values may be secret: errors name the lines,
// never their text.
func (t *jobTable) envFile() map[string]string {
	env := map[string]string{}
	for i, line := range strings.Split(t.EnvFile.text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, err := parseVariable(line)
		if err != nil {
			t.fail("env_file", "%s:%d: %v", t.EnvFile.path, i+1, err)
			continue
		}
		env[name] = value
	}
	return env
}

// parseVariable reads NAME=value; quotes around the whole value are dropped.
func parseVariable(line string) (name, value string, err error) {
	name, value, found := strings.Cut(line, "=")
	if !found || !variableName.MatchString(name) {
		return "", "", fmt.Errorf("not a variable: write NAME=value, NAME of letters, digits and '_'")
	}
	if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		value = value[1 : n-1]
	}
	return name, value, nil
}
