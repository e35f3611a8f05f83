package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"

	"quotad/jobs/process"
)

// checked checks a text by the tag is of its field, and returns what quotad uses in its place.
func (n node) checked(text string) string {
	var err error
	switch n.tag.Get("is") {
	case "path":
		if text == "" {
			n.fail("must not be empty")
			return ""
		}
		return n.document.absolute(text)
	case "file": // that can be read: the daemon reads it again when it changes
		var file contents
		file.decode(n)
		return file.path
	case "dir":
		text = n.document.absolute(text)
		n.checkDir(text)
	case "url":
		err = checkURL(text)
		text = strings.TrimSuffix(text, "/")
	case "loopback":
		err = checkLoopback(text)
	case "address":
		if _, wrong := netip.ParseAddrPort(cmp.Or(map[bool]string{true: "[::]" + text}[strings.HasPrefix(text, ":")], text)); wrong != nil {
			err = fmt.Errorf(`%q is not an address and a port in numbers: write ":9466", "192.0.2.1:9466" or "[2001:db8::1]:9466"`, text)
		}
	case "group":
		if _, wrong := user.LookupGroup(text); wrong != nil && text != "" {
			err = fmt.Errorf("no group %q on this host: create it (groupadd --system %s) or name another", text, text)
		}
	case "variable":
		if !variableName.MatchString(n.path[len(n.path)-1]) {
			err = errors.New("is not the name of a variable: use letters, digits and '_'")
		}
	}
	if err != nil {
		n.fail("%v", err)
	}
	return text
}

// checkDir checks that the directory of a job exists: quotad does not make it, since that would
// hide a mistyped name.
func (n node) checkDir(dir string) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		n.fail("there is no directory %s: create it, or leave dir out for data/%s in state_dir", dir, n.path[1])
	}
}

// checkURL checks an address to which a key can be sent.
func checkURL(text string) error {
	address, err := url.Parse(text)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http":
		return fmt.Errorf(`%q is not the address of an API: write "https://api.example.com"`, text)
	case address.User != nil || address.RawQuery != "" || address.Fragment != "":
		return errors.New("holds more than a host and a path: write a key into key_file")
	case address.Scheme == "http" && !isLoopback(address.Hostname()):
		return fmt.Errorf("%q would have the key travel in plain text: write https://%s", text, address.Host)
	}
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// checkLoopback checks an address of this host that no other host can reach. It is not a name:
// what "localhost" means depends on a file that may have been changed.
func checkLoopback(text string) error {
	address, err := netip.ParseAddrPort(text)
	switch {
	case err != nil:
		return fmt.Errorf(`%q is not an address and a port in numbers: write "127.0.0.1:9464" or "[::1]:9464"`, text)
	case !address.Addr().IsLoopback():
		return fmt.Errorf(`%q can be reached from other hosts, and callers there need no password: `+
			`write "127.0.0.1:%[2]d" or "[::1]:%[2]d"`, text, address.Port())
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// user reads the name of the user that passes run as; nil: quotad's own.
func (n node) user(into **process.User) {
	name, ok := as[string](n, aString)
	if !ok || name == "" {
		return
	}
	u, err := findUser(name)
	if err != nil {
		n.fail("%v", err)
	}
	*into = u
}

func findUser(name string) (*process.User, error) {
	u, err := process.LookupUser(name)
	var unknown user.UnknownUserError
	switch {
	case errors.As(err, &unknown):
		return nil, fmt.Errorf("no user %q on this host: create it (useradd --system %s) or name another", name, name)
	case err != nil:
		return nil, fmt.Errorf("cannot look user %q up: %w", name, err)
	case u.UID == os.Geteuid():
		return nil, nil
	case u.UID == 0:
		return nil, errors.New("passes of root would be operators: name a user of their own")
	}
	return u, nil
}

// command reads a program, which it resolves to its path, and its arguments.
func (n node) command(c *[]string) {
	if line, ok := n.value.(string); ok {
		n.fail("must be an array of strings, %s, not the string %q", asCommand(line), line)
		return
	}
	words := n.texts()
	if n.value != nil {
		*c = append([]string{}, words...)
	}
	if len(words) == 0 || words[0] == "" {
		if n.value != nil {
			n.failLater("must name a program, such as %s", cmp.Or(n.tag.Get("such"), n.tag.Get("required")))
		}
		return
	}
	program, err := process.Resolve(words[0], n.document.host.Programs, n.document.dir)
	if err != nil {
		n.fail("%v%s", err, cureOfProgram(words[0]))
		return
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

// asCommand writes a command line as an array.
func asCommand(line string) string {
	if strings.ContainsAny(line, "|<>&;$*?`\"'\\") {
		return `["sh", "-c", ` + strconv.Quote(line) + `]`
	}
	return "[" + quoted(strings.Fields(line)) + "]"
}
