package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"strings"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
)

//go:embed page.html page.css page.js icon.svg
var files embed.FS

// sectionNames are the parts of the page that change by themselves, from top to bottom.
// Each is a template of page.html.
var sectionNames = [...]string{"head", "triage", "limits", "jobs", "day", "spent", "refusals"}

// A rendering is the HTML of each section.
type rendering [len(sectionNames)]string

// A scene is the input of the templates.
type scene struct {
	Picture
	Lost  error     // why quotad does not answer; nil if it does
	Since time.Time // since when
}

// A renderer turns pictures into HTML.
type renderer struct {
	templates     *template.Template
	style, script string
}

func newRenderer() *renderer {
	r := &renderer{style: read("page.css"), script: read("page.js")}
	r.templates = template.Must(template.New("page").Funcs(template.FuncMap{
		"curve": viewOfCurve, "day": viewOfDay, "units": quota.Thousands[int64], "percent": percentOf, "part": partOf, "tone": tone,
		"first": func(n int, list []Trouble) []Trouble { return list[:min(n, len(list))] },
		"less":  func(x, y int64) int64 { return x - y },
		"clock": func(p Picture, at time.Time) string { return at.In(p.Zone).Format("15:04:05") + p.Mark },
	}).Parse(read("page.html")))
	return r
}

// tone is the CSS class of a style. No state is shown by its tone alone.
func tone(s term.Style) string {
	switch s {
	case term.Red:
		return "bad"
	case term.Yellow:
		return "warn"
	case term.Green:
		return "good"
	case term.Faint:
		return "faint"
	}
	return ""
}

// read returns a file that is embedded in the program.
func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// partOf is the part of a limit that an amount is, from 0 to 1.
func partOf(units, whole int64) float64 {
	return min(1, max(0, float64(units)/float64(max(1, whole))))
}

// sections renders what changes.
func (r *renderer) sections(s scene) (all rendering) {
	for i, name := range sectionNames {
		all[i] = r.execute(name, s)
	}
	return all
}

// page renders the whole of it.
func (r *renderer) page(host string, all rendering) string {
	type section struct {
		Name string
		HTML template.HTML
	}
	content := struct {
		Host     string
		Style    template.CSS
		Script   template.JS
		Sections []section
	}{Host: host, Style: template.CSS(r.style), Script: template.JS(r.script)}
	for i, name := range sectionNames {
		content.Sections = append(content.Sections, section{name, template.HTML(all[i])})
	}
	return r.execute("page", content)
}

// execute renders a template. An error is a mistake in page.html; the rest is shown.
func (r *renderer) execute(name string, content any) string {
	var b strings.Builder
	if err := r.templates.ExecuteTemplate(&b, name, content); err != nil {
		return template.HTMLEscapeString(err.Error())
	}
	return b.String()
}

// policy lets the page load its own style and script, and nothing from anywhere else.
func (r *renderer) policy() string {
	return "default-src 'none'; style-src " + hashOf(r.style) + "; script-src " + hashOf(r.script) +
		"; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// hashOf names a text in a policy.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
