package config

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

const (
	day              = 24 * time.Hour
	durationExamples = `such as "90s", "30m", "24h" or "7d"`
)

// A span is a duration that may be zero.
type span time.Duration

// UnmarshalText reads "90s" or "7d".
func (s *span) UnmarshalText(text []byte) error {
	d, err := parseDuration(string(text))
	*s = span(d)
	return err
}

func (s span) String() string { return jobs.Brief(time.Duration(s).String()) }

// A duration is longer than zero.
type duration time.Duration

// UnmarshalText reads "90s" or "7d".
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := parseDuration(string(text))
	if err == nil && parsed == 0 {
		return errors.New("must be longer than zero")
	}
	*d = duration(parsed)
	return err
}

func (d duration) String() string { return span(d).String() }

// parseDuration reads "30m", "1.5h", "7d" or "1d12h". None is below zero.
func parseDuration(text string) (time.Duration, error) {
	d, err := api.ParseSpan(text)
	switch {
	case err == strconv.ErrRange:
		return 0, fmt.Errorf("%q is too long", text)
	case err != nil:
		return 0, fmt.Errorf("%q is no duration: write a number with its unit, %s", text, durationExamples)
	case d < 0:
		return 0, fmt.Errorf("%q is below zero", text)
	}
	return d, nil
}

// A stagger is "even" or a duration.
type stagger time.Duration

const evenStagger = stagger(jobs.EvenStagger)

// UnmarshalText reads "even" or "2s".
func (s *stagger) UnmarshalText(text []byte) error {
	if *s = evenStagger; string(text) == "even" {
		return nil
	}
	d, err := parseDuration(string(text))
	if err != nil {
		return fmt.Errorf(`%w; or write "even"`, err)
	}
	*s = stagger(d)
	return nil
}

func (s stagger) String() string {
	if s == evenStagger {
		return "even"
	}
	return span(s).String()
}

// A zone is a time zone.
type zone struct{ *time.Location }

// UnmarshalText reads the IANA name of a time zone. Go reads "" as UTC and "Local" as
// the host's own zone, which is another one on every host that shares a ledger.
func (z *zone) UnmarshalText(name []byte) error {
	location, err := time.LoadLocation(string(name))
	if err != nil || len(name) == 0 || string(name) == "Local" {
		return fmt.Errorf(`unknown time zone %q: use a name of the IANA database, such as "Europe/Berlin"`, name)
	}
	z.Location = location
	return nil
}

// A window is a duration, or a table { calendar = "day", timezone = "…" }.
type window struct{ quota.Window }

func (w *window) decode(n node) {
	if _, isTable := n.value.(map[string]any); !isTable {
		length := duration(day)
		n.into(&length)
		w.Window = quota.Sliding(time.Duration(length))
		return
	}
	var c calendarTable
	n.into(&c)
	c.require("calendar", `"day"`)
	c.require("timezone", `"America/Los_Angeles", where the period begins`)
	w.Window = quota.Calendar(c.Calendar, c.Timezone.Location)
}

func (w window) String() string {
	if w.IsCalendar() {
		return fmt.Sprintf("a %s, by the clock of %s", w.Period, w.Zone)
	}
	return jobs.Brief(w.Window.String())
}

// A cost is a number for every limit, or a table of numbers per limit.
type cost struct{ quota.Cost }

func (c *cost) decode(n node) {
	if _, isTable := n.value.(map[string]any); isTable {
		c.Per = map[string]quota.Units{}
		for limit, value := range n.asTable() {
			units := quota.Units(1)
			n.below(limit, value).into(&units)
			c.Per[limit] = units
		}
		return
	}
	c.Every = 1
	if units, ok := as[int64](n, "a number of units, or a table of them per limit: { daily = 100 }"); ok {
		c.Every = quota.Units(units)
	}
}

func (c cost) String() string {
	if c.Per == nil {
		return quota.Thousands(c.Every)
	}
	var parts []string
	for _, limit := range slices.Sorted(maps.Keys(c.Per)) {
		parts = append(parts, quota.Thousands(c.Per[limit])+" "+limit)
	}
	return strings.Join(parts, ", ")
}

// Costs are those of operations, by name.
type costs map[string]cost

func (c *costs) decode(n node) {
	*c = costs{}
	limits, _ := n.beside["limits"].(map[string]any)
	for operation, value := range n.asTable() {
		one := n.below(operation, value)
		names := one.unquoted(limits)
		for _, name := range names {
			(*c)[name] = cost{quota.Cost{Every: 1}}
		}
		if names == nil {
			var read cost
			read.decode(one)
			(*c)[operation] = read
		}
	}
}

// Calls are numbers of calls, by the name of an operation.
type calls map[string]quota.Units

func (c *calls) decode(n node) {
	*c = calls{}
	for operation, value := range n.asTable() {
		one := n.below(operation, value)
		if one.unquoted(nil) == nil {
			units := quota.Units(1)
			one.into(&units)
			(*c)[operation] = units
		}
	}
}

// unquoted notes that a key, the name of an operation, misses its quotes, and returns
// the names that were meant: videos.list = 1 is videos = { list = 1 }. A table that holds
// one of the keys that may stand there is another matter.
func (n node) unquoted(may map[string]any) []string {
	names := namesBelow(n.path[len(n.path)-1], n.value, may)
	if names != nil {
		n.fail("must not be a table: an operation with a dot in its name stands in quotes, %s", quoted(names))
	}
	return names
}

func namesBelow(key string, value any, may map[string]any) (names []string) {
	values, ok := value.(map[string]any)
	if !ok || strings.Contains(key, ".") {
		return nil
	}
	known := slices.Collect(maps.Keys(may))
	for _, below := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(known, below) || quota.Nearest(below, known) != "" {
			return nil
		}
		inner := namesBelow(below, values[below], nil)
		if inner == nil {
			inner = []string{below}
		}
		for _, name := range inner {
			names = append(names, key+"."+name)
		}
	}
	return names
}

// Texts are an array of strings.
type texts []string

func (t *texts) decode(n node) {
	list := texts{}
	for _, text := range n.texts() {
		list = append(list, text)
	}
	if _, ok := n.value.([]any); ok {
		*t = list
	}
}

func (n node) texts() iter.Seq2[node, string] {
	return elements[string](n, `an array of strings, such as ["one", "two"]`, "strings in quotes")
}

// A ring is an array of regions with plain names, and items one of any texts; no two are
// alike.
type (
	ring  regions.Ring
	items regions.Ring
)

func (r *ring) decode(n node) {
	*r = ring(n.ring(func(region regions.Region) error {
		err := region.CheckName()
		if err != nil && region.Check() == nil {
			err = fmt.Errorf("%w; any text may stand in items, instead of regions", err)
		}
		return err
	}))
}

func (i *items) decode(n node) { *i = items(n.ring(regions.Region.Check)) }

func (n node) ring(check func(regions.Region) error) (list regions.Ring) {
	for one, text := range n.texts() {
		region := regions.Region(text)
		if err := check(region); err != nil {
			one.fail("%v", err)
		} else if slices.Contains(list, region) {
			one.fail("region %q is listed twice: remove one", region)
		} else {
			list = append(list, region)
		}
	}
	return list
}

// Exit codes are those by which a command says that the budget was gone.
type exitCodes []int

func (e *exitCodes) decode(n node) {
	if array, ok := n.value.([]any); ok && len(array) == 0 {
		n.fail("must hold at least one exit code, such as 75: leave it out for that one")
	}
	for _, code := range elements[int64](n, "an array of exit codes, such as [75, 100]", "whole numbers") {
		*e = append(*e, int(code))
	}
}

// A path is absolute: a relative one begins at the directory of the file.
type path string

func (p *path) decode(n node) {
	text, ok := as[string](n, "a path in quotes")
	switch {
	case !ok:
	case text == "":
		n.fail("must not be empty")
	default:
		*p = path(n.document.absolute(text))
	}
}

// Contents are what a file holds that a key names.
type contents struct {
	path string // as path; empty: the key is absent
	text string
	read bool
}

func (c *contents) decode(n node) {
	var name path
	if name.decode(n); name == "" {
		return
	}
	c.path = string(name)
	file, err := readFile(c.path)
	if err != nil {
		n.fail("cannot be read: %v", err)
		return
	}
	if file.writable {
		n.warn("everybody on this host may write %s: chmod o-w %s", c.path, c.path)
	}
	c.text, c.read = file.text, true
}

// A variable is the value of a variable of the environment.
type variable string

func (v *variable) decode(n node) {
	if !isVariable(n.path[len(n.path)-1]) {
		n.fail("is no name of a variable: that is made of letters, digits and '_'")
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
	var words texts
	words.decode(n)
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
			n.fail(`%q is no directory of cgroup v2: write "auto", "off", or one that quotad may write to, below /sys/fs/cgroup`, text)
		}
	}
}

// A passUser is somebody else than quotad itself, whom passes run as; nil: nobody is.
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
		return fmt.Errorf("cannot run passes as %q: %w: apply systemd/drop-ins/passes-user.conf, or start quotad as root", name, err)
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

// A loopback is an address of this host that no other host reaches. It is no name:
// what "localhost" stands for is up to a file that anything may have changed.
type loopback string

// UnmarshalText reads an address with a port, in numbers.
func (l *loopback) UnmarshalText(text []byte) error {
	const cure = `write "127.0.0.1:9464" or "[::1]:9464"`
	address, err := netip.ParseAddrPort(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("%q is not the numbers of an address and a port: "+cure, text)
	case !address.Addr().IsLoopback():
		return fmt.Errorf("%q could be reached from other hosts, and nobody would be asked who they are: "+cure, text)
	}
	*l = loopback(text)
	return nil
}
