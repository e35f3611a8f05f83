package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"strings"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/quota"
)

var (
	//go:embed page.html
	templatesText string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
	//go:embed icon.svg
	iconImage string
)

var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"units": quota.Thousands[int64], "percent": percentOf, "part": partOf, "tone": tone,
	"triageStyle": wording.TriageStyle, "troubleStyle": wording.TroubleStyle,
	"limitStyle": wording.LimitStyle, "outlook": wording.Outlook, "notes": wording.LimitNotes, "notOK": wording.NotOK,
	"refused": wording.Refused, "what": wording.RefusedWhat, "outcomeStyle": wording.OutcomeStyle, "mark": wording.Mark, "passes": wording.Passes, "jobLines": wording.JobLines,
	"less": func(x, y int64) int64 { return x - y },
}).Parse(templatesText))

// sectionNames are the parts of the page that change by themselves, from top to bottom.
// Each is a template of page.html.
var sectionNames = [...]string{"head", "triage", "limits", "jobs", "day", "spent", "refusals"}

// A rendering is the HTML of each section.
type rendering [len(sectionNames)]string

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

// partOf is the part of a limit that an amount is, from 0 to 1.
func partOf(units, whole int64) float64 {
	return min(1, max(0, float64(units)/float64(max(1, whole))))
}

// sections renders what changes.
func sections(p Picture) (all rendering) {
	for i, name := range sectionNames {
		all[i] = execute(name, p)
	}
	return all
}

// wholePage renders all of it.
func wholePage(host string, all rendering) string {
	type section struct {
		Name string
		HTML template.HTML
	}
	content := struct {
		Host     string
		Style    template.CSS
		Script   template.JS
		Sections []section
	}{Host: host, Style: template.CSS(style), Script: template.JS(script)}
	for i, name := range sectionNames {
		content.Sections = append(content.Sections, section{name, template.HTML(all[i])})
	}
	return execute("page", content)
}

// execute renders a template. An error is a mistake in page.html; the rest is shown.
func execute(name string, content any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, content); err != nil {
		return template.HTMLEscapeString(err.Error())
	}
	return b.String()
}

// policy lets the page load its own style and script, and nothing from anywhere else.
var policy = "default-src 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script) +
	"; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// hashOf names a text in a policy.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
