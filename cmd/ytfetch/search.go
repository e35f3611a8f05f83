package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/ytfetch/store"
	"quotad/quota"
)

const defaultLimit = 20

// A reader prints what a search of what is stored found.
type reader struct {
	out    io.Writer
	view   term.View
	format string // "table" or "json"
	page   int    // from 1
}

// search finds videos by words in what is stored, without quotad and without upstream.
func search(ctx context.Context, args []string, stdout io.Writer) error {
	r := &reader{out: stdout, view: term.NewView(time.Now(), stdout, false)}
	dir, query, err := r.parse(args)
	if err != nil {
		return err
	}
	if err := becomeOwner(filepath.Join(dir, store.FileName)); err != nil {
		return err
	}
	file, err := store.OpenExisting(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	found, err := file.Search(ctx, query)
	switch {
	case err != nil && ctx.Err() != nil:
		return fail(exitInterrupted, errors.New("interrupted"))
	case err != nil:
		return err
	}
	if err = r.print(found, query); err == nil && found.Total == 0 {
		return errors.New("nothing found")
	}
	return err
}

// parse reads the command line, and finds the directory of what is stored.
func (r *reader) parse(args []string) (dir string, q store.Query, err error) {
	var since time.Duration
	flags := newFlags()
	flags.StringVar(&dir, "out", "", "")
	flags.StringVar(&r.format, "o", "table", "")
	flags.StringVar(&q.Region, "region", "", "")
	spanVar(flags, &since, "since", 0)
	flags.IntVar(&q.Limit, "limit", defaultLimit, "")
	flags.IntVar(&r.page, "page", 1, "")
	flags.StringVar((*string)(&q.By), "by", string(store.ByRelevance), "")
	words, err := parseArgs(flags, args)
	if err == nil && q.Region != "" {
		q.Region, err = regionOf(q.Region)
	}
	q.Words = strings.Join(words, " ")
	switch {
	case err != nil:
	case r.format != "table" && r.format != "json":
		err = misused("-o must be table or json: %q", r.format)
	case r.page < 1:
		err = misused("--page must be at least 1: %d", r.page)
	case !slices.Contains([]store.Order{store.ByRelevance, store.ByViews, store.ByDate}, q.By):
		err = misused("--by must be relevance, views or date: %q", q.By)
	case !store.HasWords(q.Words):
		err = misused("there is nothing to search for: a word has a letter or a digit")
	case q.Limit < 1:
		err = misused("--limit must be at least 1: %d", q.Limit)
	case dir == "":
		dir, err = findStored()
	}
	// A search ranks no more: what is after that is empty, however many pages after.
	q.Limit = min(q.Limit, store.MaxRanked)
	q.Offset = min(r.page-1, store.MaxRanked) * q.Limit
	if since > 0 {
		q.Since = r.view.Now.Add(-since)
	}
	return dir, q, err
}

// findStored looks for a file where it is when jobs ran in this directory, in that of a
// quotad of this directory, and in that of the service.
func findStored() (dir string, err error) {
	for _, pattern := range []string{".", ".quotad/data/*", "/var/lib/quotad/data/*"} {
		files, err := filepath.Glob(filepath.Join(pattern, store.FileName))
		switch {
		case err != nil:
			return "", err
		case len(files) == 1:
			return filepath.Dir(files[0]), nil
		case len(files) > 1:
			return "", &failure{exitUsage, fmt.Errorf("several jobs have stored something: %s", strings.Join(files, ", ")), "name the directory of one with --out"}
		}
	}
	return "", &failure{exitFailed, errors.New("nothing is stored here: there is no " + store.FileName), "name the directory that holds one with --out; ytfetch trending and discover make it"}
}

// becomeOwner makes root the user who owns the file. SQLite creates files next to it while it
// reads; if they were root's, the owner could not write until they are gone.
func becomeOwner(file string) error {
	info, err := os.Stat(file)
	if err != nil || os.Geteuid() != 0 {
		return nil // opening it says what is wrong
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setegid(int(owner.Gid)), syscall.Seteuid(int(owner.Uid))); err != nil {
		return fmt.Errorf("cannot become the owner of %q: %w", file, err)
	}
	return nil
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
	return append(facts, "seen "+term.Brief(r.view.Now.Sub(v.LastSeen))+" ago")
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
