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

// parts are what stands in front of a verb, behind clock.lua; no others read the clock of a log.
var parts = map[string][]string{
	"acquire": {"known", "pages"}, "correct": {"known", "settle"}, "walk": {"pages"}, "restore": {"settle"},
	"declare": nil, "mirror": {"pages"}, "hosts": nil,
}

// All returns the sources of the verbs by name, each with the parts that it uses in front.
func All(b Bounds) map[string]string {
	read := func(name string) string {
		text, _ := files.ReadFile(name + ".lua") // it is a file of this package
		return string(text)
	}
	n := strconv.Itoa
	front := strings.NewReplacer("$WORK", n(b.Work), "$WALK", n(b.Walk), "$PAGE", n(b.Page), "$TRIM", n(b.Trim),
		"$QUIET", strconv.FormatInt(b.QuietMicros, 10)).Replace(read("clock"))
	all := map[string]string{"client_log": read("client_log"), "client_counter": read("client_counter")}
	for verb, names := range parts {
		text := front
		for _, part := range names {
			text += "\n" + read(part)
		}
		all[verb] = text + "\n" + read(verb)
	}
	return all
}
