package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"quotad/jobs/process"
)

// A workDir is the directory of a job. It must exist: quotad does not make it, since that would
// hide a mistyped name.
type workDir path

func (d *workDir) decode(n node) {
	if (*path)(d).decode(n); *d == "" {
		return
	}
	cure := "or leave dir out for data/" + n.path[1] + " in state_dir"
	switch info, err := os.Stat(string(*d)); {
	case errors.Is(err, fs.ErrNotExist):
		n.fail("there is no directory %s: create it, %s", *d, cure)
	case err != nil:
		n.fail("cannot be used: %v", err)
	case !info.IsDir():
		n.fail("%s is a file: name a directory, %s", *d, cure)
	}
}

// A variable is the value of a variable of the environment.
type variable string

func (v *variable) decode(n node) {
	if !variableName.MatchString(n.path[len(n.path)-1]) {
		n.fail("is not the name of a variable: use letters, digits and '_'")
	}
	text, _ := as[string](n, aString)
	*v = variable(text)
}

// A command is a program, resolved to its path, and its arguments.
type command []string

func (c *command) decode(n node) {
	if line, ok := n.value.(string); ok {
		n.fail("must be an array of strings, %s, not the string %q", asCommand(line), line)
		return
	}
	var words []string
	n.into(&words)
	if *c = command(words); len(words) == 0 || words[0] == "" {
		return
	}
	program, err := process.Resolve(words[0], n.document.host.Programs, n.document.dir)
	if err != nil {
		n.fail("%v%s", err, cureOfProgram(words[0]))
		return
	}
	if i := slices.IndexFunc(words, isShell); i > 0 {
		n.warn("%q is handed to the program as it is, since no shell reads a command: for a pipeline, write %s", words[i], asCommand(strings.Join(words, " ")))
	}
	(*c)[0] = program
}

// cureOfProgram says what to write if the name of a program was meant for a shell.
func cureOfProgram(name string) string {
	variable, _, assigned := strings.Cut(name, "=")
	switch {
	case assigned && variableName.MatchString(variable):
		return "; a variable is set in env = { " + variable + " = \"…\" }"
	case strings.HasPrefix(name, "~"):
		return "; ~ is not known here: write the whole path"
	case strings.ContainsAny(name, " \t|<>&;"):
		return "; if that is a whole line, write " + asCommand(name)
	}
	return ""
}

// isShell reports whether a word of a command is syntax of a shell.
func isShell(word string) bool {
	return slices.Contains([]string{"|", "||", "&", "&&", "<", ">", ">>", "2>&1"}, word)
}

// asCommand writes a command line as an array.
func asCommand(line string) string {
	if strings.ContainsAny(line, "|<>&;$*?`\"'\\") {
		return `["sh", "-c", ` + strconv.Quote(line) + `]`
	}
	return "[" + quoted(strings.Fields(line)) + "]"
}

// Cgroups is the directory in which each pass gets a cgroup of its own; empty: none
// gets one.
type cgroups string

func (c *cgroups) decode(n node) {
	switch text, ok := as[string](n, aString); {
	case !ok:
	case text == "auto":
		*c = cgroups(process.DelegatedCgroup())
	case text == "off":
		*c = ""
	default:
		*c = cgroups(n.document.absolute(text))
		if _, err := os.Stat(filepath.Join(string(*c), "cgroup.procs")); err != nil {
			n.fail(`%q is not a cgroup v2 directory: write "auto", "off", or one that quotad may write to, below /sys/fs/cgroup`, text)
		}
	}
}

// A passUser is the user that passes run as; nil: quotad's own.
type passUser struct{ *process.User }

// UnmarshalText reads the name of a user of this host.
func (p *passUser) UnmarshalText(name []byte) error {
	if len(name) == 0 {
		return nil
	}
	u, err := process.LookupUser(string(name))
	var unknown user.UnknownUserError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("no user %q on this host: create it (useradd --system %s) or name another", name, name)
	case err != nil:
		return fmt.Errorf("cannot look user %q up: %w", name, err)
	case u.UID == os.Geteuid():
		return nil
	case u.UID == 0:
		return errors.New("passes of root would be operators: name a user of their own")
	}
	if err := process.CanSwitch(); err != nil {
		return fmt.Errorf("cannot run passes as %q: %w: remove systemd/drop-ins/daemon-user.conf, or start quotad as root", name, err)
	}
	p.User = u
	return nil
}

// A group is the name of a group of this host.
type group string

// UnmarshalText reads the name, which may be empty.
func (g *group) UnmarshalText(name []byte) error {
	*g = group(name)
	if _, err := user.LookupGroup(string(name)); err != nil && len(name) > 0 {
		return fmt.Errorf("no group %q on this host: create it (groupadd --system %s) or name another", name, name)
	}
	return nil
}
