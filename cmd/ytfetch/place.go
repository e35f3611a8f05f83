package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A place is where the next pass of a region continues, as JSON in a file.
type place struct {
	Of    string   `json:"of"`              // what is fetched: a place in something else is of no use
	Page  int      `json:"page"`            // from 1
	Token string   `json:"token,omitempty"` // of that page; the first one has none
	IDs   []string `json:"ids,omitempty"`   // of videos that a search found, and that are not fetched yet
}

// first is where a pass begins that continues no other.
func (p *pass) first() place { return place{Of: p.base + " " + p.query, Page: 1} }

func (p *pass) placeFile() string { return filepath.Join(p.dir, p.command+"-"+p.region+".page") }

// resume returns where the last pass of the region stopped.
func (p *pass) resume() (at place) {
	text, err := os.ReadFile(p.placeFile())
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.say("beginning at page 1, as the last pass left no place: %v", err)
	}
	first := p.first()
	if err != nil || at.Of != first.Of || at.Page < 1 || p.pages > 0 && at.Page > p.pages {
		return first
	}
	if at.Page > 1 || at.IDs != nil {
		p.say("continuing at page %d", at.Page)
	}
	return at
}

// keep makes the next pass continue at a place. If it cannot, it says so, and the next pass fetches again what is
// there.
func (p *pass) keep(at place) {
	text, err := json.Marshal(at)
	if err == nil {
		err = os.WriteFile(p.placeFile()+".new", text, 0o644)
	}
	if err == nil {
		err = os.Rename(p.placeFile()+".new", p.placeFile())
	}
	if err != nil {
		p.say("the next pass cannot continue here: %v", err)
	}
}
