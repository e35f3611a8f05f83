package config

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"quotad/quota"
	"quotad/quota/upstream"
)

// presetFiles has the facts about providers: keys of a credential, each with the date and the source
// of the fact, and what the proxy needs.
//
//go:embed presets/*.toml
var presetFiles embed.FS

// A Preset is a preset of a credential.
type Preset struct {
	Name    string
	Checked time.Time // when its facts were last compared with their sources
	Page    string    // where the provider says how it counts now
	values  map[string]any
}

// PresetText returns the text of a preset, or without a name those of all.
func PresetText(name string) (string, error) {
	if name == "" {
		return strings.Join(presetNames(), "\n") + "\n", nil
	}
	text, err := presetFiles.ReadFile("presets/" + name + ".toml")
	if err != nil {
		return "", fmt.Errorf("unknown preset %q%s", name, suggest(name, presetNames()))
	}
	return string(text), nil
}

func presetNames() []string {
	files, _ := fs.Glob(presetFiles, "presets/*.toml")
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".toml")
	}
	return names
}

// FindPreset returns the preset of that name.
func FindPreset(name string) (Preset, error) {
	text, err := PresetText(name)
	if name == "" || err != nil {
		return Preset{}, cmp.Or(err, errors.New("no preset is named"))
	}
	p := Preset{Name: name}
	if _, err := toml.Decode(text, &p.values); err != nil {
		panic(fmt.Sprintf("preset %s: %v", name, err)) // a test reads each of them
	}
	p.Checked, _ = p.values["checked"].(time.Time)
	p.Page, _ = p.values["page"].(string)
	delete(p.values, "checked")
	delete(p.values, "page")
	return p, nil
}

// withPreset returns a credential's table merged with its preset: a key of the file
// overrides the preset's.
func (n node) withPreset() any {
	own, _ := n.value.(map[string]any)
	name, named := own["preset"].(string)
	if !named {
		return n.value
	}
	preset, err := FindPreset(name)
	if err != nil {
		n.at("preset").fail("%v", err)
		return n.value
	}
	known := slices.Collect(maps.Keys(tableAt(preset.values, "limits")))
	for name := range tableAt(own, "limits") {
		if near := quota.Nearest(name, known); near != "" && !slices.Contains(known, name) {
			n.at("limits", name).fail("preset %s has no limit of this name: did you mean %q?", preset.Name, near)
		}
	}
	if _, proxied := own["proxy"].(map[string]any); !proxied {
		delete(preset.values, "proxy") // it has no key
	}
	return overridden(preset.values, own, "")
}

// nested names the tables of a credential whose tables are merged too, and not replaced:
// each limit by its name, the reasons and headers of answers, the routes of a proxy.
const nested = "limits answers proxy"

// overridden returns a credential's table, or one within it, with the keys of another one overriding
// its own.
func overridden(below, above map[string]any, within string) map[string]any {
	merged := maps.Clone(below)
	for key, value := range above {
		under, isTable := merged[key].(map[string]any)
		over, too := value.(map[string]any)
		switch {
		case isTable && too && within == "":
			value = overridden(under, over, key)
		case isTable && too && strings.Contains(nested, within):
			value = overridden(under, over, "value")
		}
		merged[key] = value
	}
	return merged
}

// profile returns how the upstream of a credential answers.
func (t *credentialTable) profile() upstream.Profile {
	p := upstream.Profile{Format: t.Answers.format()}
	for _, name := range t.names("limits") {
		one := t.Limits[name]
		if !one.has("upstream") {
			continue
		}
		resets := one.Upstream.Resets
		if one.Upstream.has("resets") && !resets.Restarts() {
			one.Upstream.fail("resets", `must be a period, such as { calendar = "day", timezone = "America/Los_Angeles" }: without one it is not known when the upstream resets`)
			continue
		}
		if p.Format.Day.Period == "" && resets.Period == quota.Day {
			p.Format.Day = resets
		}
		if p.Limits == nil {
			p.Limits = map[string]upstream.Counterpart{}
		}
		p.Limits[name] = one.Upstream.Counterpart
		one.compareResets(resets)
	}
	return p
}

// compareResets warns of a sliding window that is shorter than the longest period by which
// the upstream resets: on the day of 25 hours its debits expire before the upstream resets.
func (t *limitTable) compareResets(resets quota.Window) {
	longest := cmp.Or(resets.Every, map[quota.Period]time.Duration{quota.Hour: time.Hour, quota.Day: 25 * time.Hour, quota.Month: 31*day + time.Hour}[resets.Period])
	if t.Window.Restarts() || !resets.Restarts() || t.Window.Length >= longest {
		return
	}
	instead := fmt.Sprintf(`{ calendar = %q, timezone = %q }`, resets.Period, resets.Zone)
	if resets.Every > 0 {
		instead = fmt.Sprintf(`{ every = %q, from = %q }`, quota.Brief(resets.Every), resets.From.Format(time.RFC3339))
	}
	t.at("window").warn(`any %s is unsafe: the upstream resets %s, and its longest period has %s, in which this grants more than it does; write window = %s, or window = %q`,
		quota.Brief(t.Window.Length), resets.Describe(), quota.Brief(longest), instead, quota.Brief(longest))
}

func (t *answersTable) format() upstream.Format {
	f := t.Format
	f.Headers = t.Fields.Headers
	if f.Headers.Reset != "" && f.Headers.ResetIs == "" {
		t.Fields.require("reset_is", `"epoch", or "seconds", "duration", "rfc3339": the same name means different things`)
	}
	if len(f.Reasons) == 0 {
		f.Reasons = nil
	}
	return f
}

// maxPresetAge is the age at which a preset's facts must be checked again: YouTube's changed three
// times within half a year.
const maxPresetAge = 90 * day

// Outdated says at now that the preset's facts must be checked again; empty if not.
func (p Preset) Outdated(now time.Time) string {
	if now.Sub(p.Checked) <= maxPresetAge {
		return ""
	}
	return fmt.Sprintf("the facts of preset %s were checked on %s, more than 90 days ago: providers change their quotas, compare them with %s",
		p.Name, p.Checked.Format(time.DateOnly), p.Page)
}
