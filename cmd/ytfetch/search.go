package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/ytfetch/store"
	"quotad/quota"
)

const defaultLimit = 20

// search finds videos by words in what is stored, without quotad and without upstream.
func search(ctx context.Context, args []string, stdout io.Writer) error {
	now := time.Now()
	r := &reader{out: stdout, now: now, view: term.NewView(now, stdout, false)}
	words, err := r.parse(args)
	if err != nil {
		return err
	}
	if err := becomeOwner(filepath.Join(r.dir, store.FileName)); err != nil {
		return err
	}
	if r.file, err = store.OpenExisting(r.dir); err != nil {
		return err
	}
	defer r.file.Close()
	if err = r.search(ctx, words); err != nil && ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted"))
	}
	return err
}

func (r *reader) search(ctx context.Context, words []string) (err error) {
	if r.region != "" {
		if r.region, err = regionOf(r.region); err != nil {
			return err
		}
	}
	// A search ranks no more: what is after that is empty, however many pages after.
	before, limit := min(r.page-1, store.MaxRanked), min(r.limit, store.MaxRanked)
	query := store.Query{Words: strings.Join(words, " "), Region: r.region, Limit: limit, Offset: before * limit, By: store.Order(r.by)}
	switch {
	case r.page < 1:
		return misused("--page must be at least 1: %d", r.page)
	case !slices.Contains([]store.Order{store.ByRelevance, store.ByViews, store.ByDate}, query.By):
		return misused("--by must be relevance, views or date: %q", r.by)
	case !store.HasWords(query.Words):
		return misused("there is nothing to search for: a word has a letter or a digit")
	case r.limit < 1:
		return misused("--limit must be at least 1: %d", r.limit)
	}
	if r.since > 0 {
		query.Since = r.now.Add(-r.since)
	}
	found, err := r.file.Search(ctx, query)
	if err != nil {
		return err
	}
	if err = r.print(found, query); err == nil && found.Total == 0 {
		return errors.New("nothing found")
	}
	return err
}

// print writes what was found as JSON, or as lines for people that say how much of it that is.
func (r *reader) print(found store.Found, q store.Query) error {
	if r.format == "json" {
		encoder := json.NewEncoder(r.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(found)
	}
	b := new(strings.Builder)
	for _, hit := range found.Hits {
		r.printHit(b, hit)
	}
	or := ""
	if found.More {
		or = " or more"
	}
	switch shown := len(found.Hits); {
	case found.Total == 0:
	case shown == 0:
		r.view.Prose(b, 0, term.Faint, fmt.Sprintf("no more: there are %s%s", quota.Thousands(found.Total), or))
	case shown < found.Total:
		text := fmt.Sprintf("%d to %d of %s%s", q.Offset+1, q.Offset+shown, quota.Thousands(found.Total), or)
		if q.Offset+shown < found.Total {
			text += fmt.Sprintf("; --page %d shows the next", r.page+1)
		}
		r.view.Prose(b, 0, term.Faint, text)
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// printHit prints a video that was found: the title, what else is known, where the words are.
func (r *reader) printHit(b *strings.Builder, hit store.Hit) {
	r.flow(b, 0, term.Plain, hit.Highlight.Title)
	r.view.Prose(b, 2, term.Faint, strings.Join(r.facts(hit.Video), ", ")+"  "+hit.ID)
	if slices.ContainsFunc(hit.Highlight.Description, func(part store.Part) bool { return part.Match }) {
		r.flow(b, 2, term.Faint, hit.Highlight.Description)
	}
}

// facts are what is known of a video, in a few words each.
func (r *reader) facts(v store.Video) []string {
	facts := []string{v.Channel}
	if v.Views != nil {
		facts = append(facts, quota.Count(*v.Views, "view", "views"))
	}
	if v.DurationS != nil {
		facts = append(facts, term.Brief(time.Duration(*v.DurationS)*time.Second))
	}
	if len(v.Regions) > 0 {
		facts = append(facts, "in "+strings.Join(v.Regions, " "))
	}
	return append(facts, "seen "+term.Brief(r.now.Sub(v.LastSeen))+" ago")
}

// flow writes parts of a text as lines of words that begin at indent and end before the
// screen does. What was found stands out.
func (r *reader) flow(b *strings.Builder, indent int, style term.Style, parts []store.Part) {
	margin, column := strings.Repeat(" ", indent), indent
	b.WriteString(margin)
	for _, part := range parts {
		painted := style
		if part.Match {
			painted = term.Bold
		}
		for i, word := range strings.SplitAfter(r.view.Clean(part.Text), " ") {
			width := utf8.RuneCountInString(word)
			if i > 0 && column > indent && column+utf8.RuneCountInString(strings.TrimRight(word, " ")) > r.view.Width {
				b.WriteString("\n" + margin)
				column = indent
			}
			b.WriteString(r.view.Paint(painted, word))
			column += width
		}
	}
	b.WriteString("\n")
}
