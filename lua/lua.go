package lua

import (
	"embed"
	"strconv"
	"strings"
)

//go:embed *.lua
var files embed.FS

// Bounds are what one call may do: entries that an acquire reads, those of a walk, of the first page, and those that
// are trimmed at once; and for how long a new log, or one on another server, grants nothing.
type Bounds struct {
	Work, Walk, Page, Trim int
	QuietMicros            int64
}

// Usual are the bounds outside of tests. The quiet time is two polls of each host.
func Usual() Bounds { return Bounds{Work: 500, Walk: 100, Page: 10, Trim: 200, QuietMicros: 2_000_000} }

// Scripts are the sources of all verbs, ready to be loaded.
type Scripts struct {
	Acquire, Correct, Walk, Restore, Declare, Mirror, Hosts, ClientLog, ClientCounter string
}

// All returns the scripts, each with the parts that it uses in front.
func All(b Bounds) Scripts {
	read := func(name string) string {
		text, _ := files.ReadFile(name + ".lua") // it is a file of this package
		return string(text)
	}
	n := strconv.Itoa
	front := strings.NewReplacer("$WORK", n(b.Work), "$WALK", n(b.Walk), "$PAGE", n(b.Page), "$TRIM", n(b.Trim),
		"$QUIET", strconv.FormatInt(b.QuietMicros, 10)).Replace(read("clock"))
	verb := func(parts ...string) string {
		text := front
		for _, part := range parts {
			text += "\n" + read(part)
		}
		return text
	}
	return Scripts{
		Acquire: verb("known", "pages", "acquire"), Correct: verb("known", "settle", "correct"),
		Walk: verb("pages", "walk"), Restore: verb("server", "settle", "restore"), Declare: verb("server", "declare"),
		Mirror: verb("pages", "mirror"), Hosts: verb("hosts"),
		ClientLog: read("client_log"), ClientCounter: read("client_counter"),
	}
}
