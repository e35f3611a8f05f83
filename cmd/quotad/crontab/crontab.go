package crontab

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Job is a line of a crontab that runs a command.
type Job struct {
	Line     int
	Name     string // of the program that it runs; unique
	Schedule string // "*/30 * * * *" or "@daily"
	User     string // of a line with a column for one
	Shell    string
	Command  string // what the shell reads, with the standard input that a % began
	Zone     string // CRON_TZ above the line
	Home     string // HOME above the line
	Env      map[string]string
}

// A Note says what of a line cannot be kept, and what to do about it.
type Note struct {
	Line int
	Text string
}

// Parse reads a crontab. It has a column for users if each line that runs something names one there, as those of /etc do.
func Parse(text string, isUser func(name string) bool) (jobs []Job, notes []Note) {
	env := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		note := func(format string, args ...any) { notes = append(notes, Note{i + 1, fmt.Sprintf(format, args...)}) }
		if line == "" || line[0] == '#' {
			continue
		}
		if set := assignment.FindStringSubmatch(line); set != nil {
			if set[1] == "MAILTO" {
				note("quotad sends no mail: a command of [on_event] can")
			}
			env[set[1]] = set[2] + set[3] + set[4]
			continue
		}
		schedule, command := cutFields(line, 5)
		if line[0] == '@' {
			schedule, command = cutFields(line, 1)
		}
		switch {
		case command == "":
			note("it is neither a schedule with a command nor NAME=value")
			continue
		case schedule == "@reboot":
			note("quotad begins no job at a reboot: leave the line in the crontab")
			continue
		}
		schedule = strings.Replace(strings.Replace(schedule, "@annually", "@yearly", 1), "@midnight", "@daily", 1)
		job := Job{Line: i + 1, Schedule: schedule, Shell: "/bin/sh", Command: command, Env: maps.Clone(env)}
		for name, into := range map[string]*string{"SHELL": &job.Shell, "CRON_TZ": &job.Zone, "HOME": &job.Home, "MAILTO": new(string)} {
			if value, set := job.Env[name]; set {
				*into = value
				delete(job.Env, name)
			}
		}
		jobs = append(jobs, job)
	}
	hasUsers := !slices.ContainsFunc(jobs, func(j Job) bool {
		user, rest := cutFields(j.Command, 1)
		return rest == "" || !isUser(user)
	})
	names := map[string]int{}
	for i := range jobs {
		j := &jobs[i]
		if hasUsers {
			j.User, j.Command = cutFields(j.Command, 1)
		}
		program, _, _ := strings.Cut(strings.ReplaceAll(j.Command, `\%`, "-"), "%")
		j.Name = nameOf(program)
		if names[j.Name]++; names[j.Name] > 1 {
			j.Name = fmt.Sprintf("%s-%d", j.Name, names[j.Name])
		}
		j.Command = withInput(j.Command)
	}
	return jobs, notes
}

// cutFields cuts the first n fields off, and returns them with one blank between two.
func cutFields(line string, n int) (fields, rest string) {
	var list []string
	for rest = line; len(list) < n && rest != ""; rest = strings.TrimLeft(rest, " \t") {
		end := strings.IndexAny(rest+" ", " \t")
		list, rest = append(list, rest[:end]), rest[end:]
	}
	return strings.Join(list, " "), rest
}

// assignment is NAME=value, with blanks around the sign and quotes around the value as cron takes them.
var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?:"(.*)"|'(.*)'|(.*))$`)

// withInput returns a command as a shell reads it: what follows its first % is its standard input, a line for each %, and \%
// is a %.
func withInput(command string) string {
	const escaped = "\x00"
	command, input, has := strings.Cut(strings.ReplaceAll(command, `\%`, escaped), "%")
	if has {
		command = fmt.Sprintf("{ %s\n} <<'END'\n%s\nEND", strings.TrimSpace(command), strings.ReplaceAll(input, "%", "\n"))
	}
	return strings.ReplaceAll(command, escaped, "%")
}

// What a command begins with that says little of what it does.
var wrappers = strings.Fields("flock cd nice ionice timeout env sudo sh bash dash python python3 php node perl ruby exec test time chronic setsid nohup [ && || ; . : { while until for if do then done source")

// nameOf returns a name of a job for a command: that of its first script, or of its first program that is no wrapper.
func nameOf(command string) string {
	program := ""
	words := strings.Fields(command)
	for i, word := range words {
		word = strings.Trim(word, `"';()`)
		isArgument := i > 0 && words[i-1] == "cd" || strings.HasPrefix(word, "-") || strings.Contains(word, "=") || strings.HasSuffix(word, ".lock")
		switch {
		case word == "" || isArgument || slices.Contains(wrappers, filepath.Base(word)):
		case strings.ContainsAny(word, "|<>"):
		case slices.Contains([]string{".sh", ".py", ".php", ".js", ".mjs", ".pl", ".rb"}, filepath.Ext(word)):
			return plain(strings.TrimSuffix(filepath.Base(word), filepath.Ext(word)))
		case program == "" && strings.Trim(word, "0123456789.") != "":
			program = filepath.Base(word)
		}
	}
	return plain(program)
}

var notPlain = regexp.MustCompile(`[^A-Za-z0-9_]`)

// plain returns a name as a table of the configuration may have it.
func plain(text string) string {
	name := strings.Trim(notPlain.ReplaceAllString(text, "-"), "-_")
	if name == "" {
		return "job"
	}
	return name[:min(len(name), 40)]
}
