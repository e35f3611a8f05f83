package config

import (
	"cmp"
	"embed"
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

// PresetText returns the text of a preset, or without a name those of all.
func PresetText(name string) (string, error) {
	if name == "" {
		return strings.Join(presetNames(), "\n") + "\n", nil
	}
	return presetText(name)
}

func presetText(name string) (string, error) {
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

// withPreset returns a credential's table merged with its preset: a key of the file
// overrides the preset's.
func (n node) withPreset() any {
	own, _ := n.value.(map[string]any)
	name, named := own["preset"].(string)
	if !named {
		return n.value
	}
	text, err := presetText(name)
	if err != nil {
		n.at("preset").fail("%v", err)
		return n.value
	}
	var preset map[string]any
	if _, err := toml.Decode(text, &preset); err != nil {
		panic(fmt.Sprintf("preset %s: %v", name, err)) // a test reads each of them
	}
	known := slices.Collect(maps.Keys(tableAt(preset, "limits")))
	for limit := range tableAt(own, "limits") {
		if near := quota.Nearest(limit, known); near != "" && !slices.Contains(known, limit) {
			n.at("limits", limit).fail("preset %s has no limit of this name: did you mean %q?", name, near)
		}
	}
	if tableAt(own, "proxy") == nil {
		delete(preset, "proxy") // it has no key
	}
	delete(preset, "checked") // when its facts were last compared with their sources
	delete(preset, "page")    // where the provider says how it counts now
	return overridden(preset, own, "")
}

// nested are the tables of a credential, from which and within which tables are merged, and not replaced: each limit by
// its name, the reasons and headers of answers, the routes of a proxy.
var nested = []string{"", "/limits", "/answers", "/proxy"}

// overridden returns a credential's table, or the one at a path in it, with the keys of another one overriding its own.
func overridden(below, above map[string]any, path string) map[string]any {
	merged := maps.Clone(below)
	for key, value := range above {
		under, isTable := merged[key].(map[string]any)
		over, too := value.(map[string]any)
		if isTable && too && slices.Contains(nested, path) {
			value = overridden(under, over, path+"/"+key)
		}
		merged[key] = value
	}
	return merged
}

// profile returns how the upstream of a credential answers.
func (t *credentialTable) profile() upstream.Profile {
	p := upstream.Profile{Format: t.Answers.Format, Limits: map[string]upstream.Counterpart{}}
	if h := p.Format.Headers; h.Reset != "" && h.ResetIs == "" {
		const which = `"epoch", or "seconds", "duration", "rfc3339": the same name means different things`
		t.at("answers", "headers", "reset_is").fail(missing, "reset_is", which)
	}
	for _, name := range t.names("limits") {
		one := t.Limits[name]
		if !one.has("upstream") {
			continue
		}
		resets := one.Upstream.Resets
		if p.Format.Day.Period == "" && resets.Period == quota.Day {
			p.Format.Day = resets
		}
		p.Limits[name] = one.Upstream
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
